"""Stand-ins for what an operator talks to: data nodes that do as they are told, and a keeper.

A puppet of a node keeps of a shard what an operator can see: epoch, status, head, whether it is a member. It
follows the guard table of the protocol, and replicates without entries: a leader tells its followers where
its log ends, and they are there.
"""

from __future__ import annotations

from typing import Self

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.fingerprint import clone_plain, fingerprint
from motet.core.machine import Effect, Event, Message, Received, Send, Violation
from motet.core.metadata.messages import (
    ANY_VERSION,
    Create,
    Delete,
    Failed,
    Found,
    Get,
    MetadataRequest,
    Read,
    ReadDone,
    Set,
    Unknown,
    Write,
    WriteOperation,
    Written,
)
from motet.core.metadata.paths import (
    DRAINS,
    MAPS,
    NODES,
    OPERATORS,
    ROOT,
    SETTINGS,
    SHARDS,
    STREAMS,
)
from motet.core.shardlog.entry import NO_ENTRY, EntryId
from motet.core.shardlog.messages import (
    AbortReconfigurationRequest,
    AbortReconfigurationResponse,
    AddEntryRequest,
    AddFollowerRequest,
    AddFollowerResponse,
    BecomeLeaderRequest,
    BecomeLeaderResponse,
    CommitReconfigurationRequest,
    CommitReconfigurationResponse,
    DeleteShardRequest,
    DeleteShardResponse,
    FenceRequest,
    FenceResponse,
    PrepareReconfigurationRequest,
    PrepareReconfigurationResponse,
    ReconfigurationOp,
    Refusal,
    Refused,
    ShardMessage,
    ShardReport,
    Snapshot,
    SnapshotRequest,
    SnapshotResponse,
)
from motet.core.streams.cluster_messages import (
    Heartbeat,
    HeartbeatAnswer,
    SealedShard,
    ShardMapPushed,
)
from motet.ids import Address, Epoch, LogName, NodeId, Offset, RequestId, ShardName
from motet.sim.metadata_tree import MetadataTree

_NO_TIME = Clock(0, 0)


class PuppetReplica(msgspec.Struct):
    """What there is to see of a replica."""

    epoch: Epoch = Epoch(0)
    status: str = "fenced"
    head: EntryId = NO_ENTRY
    is_member: bool = False
    #: of a leader
    replication_factor: int = 0
    cursors: dict[NodeId, None] = {}
    #: prepared and not committed: the nodes it is about
    change: tuple[str, ...] | None = None
    #: the leader refuses to commit contractions
    is_unsafe: bool = False
    #: of a leader: followers that do not get on
    stalled: tuple[NodeId, ...] = ()
    #: how much it says to have of its snapshot
    fetched: int = 0
    #: of a leader: transactions that are open
    unsettled: int = 0
    #: the version of clock visibility's setting that its log has
    visibility_version: int = -1


class PuppetState(msgspec.Struct):
    """A node."""

    own: NodeId
    incarnation: int = 0
    map_version: int = 0
    replicas: dict[ShardName, PuppetReplica] = {}
    #: the highest clock of an entry
    logged: Clock = ZERO
    #: its own clock
    clock: Clock = ZERO
    #: how far its wall is off
    drift_ms: int | None = None
    #: a clock on its disk that is too far ahead
    found: Clock = ZERO
    #: shards that transactions wait for
    missing: tuple[ShardName, ...] = ()


class PuppetNode:
    """A data node."""

    def __init__(self, own: NodeId, disk: dict[ShardName, PuppetReplica], incarnation: int) -> None:
        self.state = PuppetState(own, incarnation, 0, clone_plain(disk))
        for replica in self.state.replicas.values():
            replica.status, replica.cursors = "fenced", {}

    def step(self, event: Event) -> list[Effect]:
        if not isinstance(event, Received):
            return []
        answers = self._answer(event.sender, event.message)
        return [Send(Address(to), message) for to, message in answers]

    def _answer(self, sender: Address, message: Message) -> list[tuple[str, Message]]:
        if isinstance(message, Heartbeat):
            return [(sender, self._report(message))]
        if isinstance(message, ShardMapPushed):
            self.state.map_version = max(self.state.map_version, message.map.version)
            return []
        if not isinstance(message, ShardMessage) or isinstance(message, Refused):
            return []
        replica = self.state.replicas.get(message.shard, PuppetReplica())
        if message.epoch < replica.epoch:
            return [(sender, _refused(message, replica, Refusal.INVALID_EPOCH))]
        if isinstance(message, FenceRequest):
            return [(sender, self._fence(replica, message))]
        if isinstance(message, DeleteShardRequest):
            self.state.replicas.pop(message.shard, None)
            return [(sender, DeleteShardResponse(message.shard, message.epoch))]
        if isinstance(message, SnapshotRequest):
            return [(sender, self._install(replica, message))]
        if isinstance(message, AddEntryRequest):
            return self._follow(replica, message)
        if isinstance(message, BecomeLeaderRequest):
            return self._lead(sender, replica, message)
        return self._obey(sender, replica, message)

    def _report(self, message: Heartbeat) -> HeartbeatAnswer:
        reports = tuple(
            ShardReport(
                LogName(shard),
                each.epoch,
                each.status,
                each.head,
                each.head,
                tuple(each.cursors),
                each.fetched,
                each.is_member,
                tuple((node, "needs_snapshot") for node in each.stalled),
            )
            for shard, each in self.state.replicas.items()
        )
        sealed = tuple(
            SealedShard(shard, each.epoch, each.unsettled)
            for shard, each in self.state.replicas.items()
            if shard in message.seal and each.status == "leader"
        )
        turned = tuple(
            (shard, each.visibility_version)
            for shard, each in self.state.replicas.items()
            if message.clock_visibility is not None and each.status == "leader"
        )
        for shard, _ in turned:  # logged by the next time it is asked
            self.state.replicas[shard].visibility_version = max(
                self.state.replicas[shard].visibility_version,
                -1 if message.clock_visibility is None else message.clock_visibility.version,
            )
        return HeartbeatAnswer(
            message.round,
            self.state.clock,
            self.state.incarnation,
            reports,
            self.state.map_version,
            self.state.logged,
            sealed,
            self.state.missing,
            turned,
            self.state.drift_ms,
            self.state.found,
        )

    def _fence(self, replica: PuppetReplica, m: FenceRequest) -> Message:
        if not replica.is_member and m.incarnation != self.state.incarnation:
            return _refused(m, replica, Refusal.NOT_MEMBER)
        if m.epoch == replica.epoch and replica.status == "leader":
            return _refused(m, replica, Refusal.NOT_FOLLOWER)
        replica.is_member |= m.founds
        replica.epoch, replica.status = m.epoch, "fenced"
        replica.cursors, replica.change = {}, None
        self.state.replicas[m.shard] = replica
        return FenceResponse(m.shard, m.epoch, replica.head, replica.head, replica.is_member)

    def _install(self, replica: PuppetReplica, m: SnapshotRequest) -> Message:
        if not replica.is_member and m.incarnation != self.state.incarnation:
            return _refused(m, replica, Refusal.NOT_MEMBER)
        replica.epoch, replica.status, replica.is_member = m.epoch, "fenced", True
        replica.head = m.snapshot.head_index
        self.state.replicas[m.shard] = replica
        return SnapshotResponse(m.shard, m.epoch, replica.head)

    def _follow(self, replica: PuppetReplica, m: AddEntryRequest) -> list[tuple[str, Message]]:
        replica.epoch, replica.status, replica.is_member = m.epoch, "follower", True
        replica.head = m.commit_index
        return []

    def _lead(
        self, sender: Address, replica: PuppetReplica, m: BecomeLeaderRequest
    ) -> list[tuple[str, Message]]:
        if replica.epoch != m.epoch:
            return [(sender, _refused(m, replica, Refusal.NOT_MEMBER))]
        if replica.status != "leader":
            replica.status = "leader"
            replica.head = EntryId(m.epoch, Offset(replica.head.offset + 1))  # a barrier
            replica.replication_factor = m.replication_factor
            replica.cursors = {node: None for node, _ in m.follower_map}
        answer: Message = BecomeLeaderResponse(m.shard, m.epoch)
        return [(sender, answer), *self._push(m.shard, replica)]

    def _push(self, shard: ShardName, replica: PuppetReplica) -> list[tuple[str, Message]]:
        push = AddEntryRequest(
            LogName(shard), replica.epoch, NO_ENTRY, (), replica.head, Offset(1), 0, _NO_TIME
        )
        return [(node, push) for node in replica.cursors]

    def _obey(
        self, sender: Address, replica: PuppetReplica, m: ShardMessage
    ) -> list[tuple[str, Message]]:
        """What only leaders do."""
        if replica.status != "leader":
            return [(sender, _refused(m, replica, Refusal.NOT_LEADER))]
        if isinstance(m, PrepareReconfigurationRequest):
            return [(sender, self._prepare(replica, m))]
        if m.epoch != replica.epoch:
            return [(sender, _refused(m, replica, Refusal.NOT_LEADER))]
        answer: Message
        if isinstance(m, AddFollowerRequest):
            replica.cursors[m.follower] = None
            answer = AddFollowerResponse(m.shard, m.epoch, m.follower)
        elif isinstance(m, CommitReconfigurationRequest):
            if m.op is ReconfigurationOp.CONTRACT and replica.is_unsafe:
                return [(sender, _refused(m, replica, Refusal.UNSAFE))]
            answer = self._commit(replica, m)
        elif isinstance(m, AbortReconfigurationRequest):
            if replica.change is not None:
                replica.cursors.update({NodeId(n): None for n in replica.change[:1] if n})
                replica.change = None
            answer = AbortReconfigurationResponse(m.shard, m.epoch)
        else:
            return []
        return [(sender, answer), *self._push(m.shard, replica)]

    def _prepare(self, replica: PuppetReplica, m: PrepareReconfigurationRequest) -> Message:
        if m.epoch > replica.epoch:
            replica.epoch = m.epoch
            replica.head = EntryId(m.epoch, Offset(replica.head.offset + 1))
            replica.change = (m.old_node or "", m.new_node or "")
            if m.old_node is not None:
                replica.cursors.pop(m.old_node, None)
        snapshot = None
        if m.op is not ReconfigurationOp.CONTRACT:
            snapshot = Snapshot(1, self.state.own, replica.head, Offset(1), 0)
        return PrepareReconfigurationResponse(
            m.shard, m.epoch, m.op, snapshot, replica.head, replica.head
        )

    def _commit(self, replica: PuppetReplica, m: CommitReconfigurationRequest) -> Message:
        replica.change = None
        replica.replication_factor = m.replication_factor
        if m.new_node is not None:
            replica.cursors[m.new_node] = None
        return CommitReconfigurationResponse(m.shard, m.epoch, m.op, m.old_node, m.new_node)

    def invariants(self) -> list[Violation]:
        return []

    def clone(self) -> Self:
        twin = type(self)(self.state.own, {}, 0)
        twin.state = clone_plain(self.state)
        return twin

    def fingerprint(self) -> bytes:
        return fingerprint(self.state)


def _refused(message: ShardMessage, replica: PuppetReplica, why: Refusal) -> Refused:
    return Refused(message.shard, message.epoch, why, type(message).__name__, replica.epoch)


class PuppetKeeper:
    """The keeper: a tree, and what is to go wrong next. It tells nobody anything by itself: scripts do."""

    #: are there from the beginning
    roots: tuple[str, ...] = (ROOT, DRAINS, MAPS, NODES, OPERATORS, SETTINGS, SHARDS, STREAMS)

    def __init__(self) -> None:
        self.tree = MetadataTree()
        #: for what scripts write
        self._session = self.tree.begin_session()
        #: how the next writes end: ``unknown`` (written, not told), ``lost`` (neither), ``fail``
        self.mishaps: list[str] = []
        for path in self.roots:
            self._write(Create(path))

    def step(self, event: Event) -> list[Effect]:
        if not isinstance(event, Received) or not isinstance(event.message, MetadataRequest):
            return []
        answer = self._answer(event.message)
        self.tree.take_news()
        return [Send(event.sender, answer)]

    def _answer(self, message: MetadataRequest, now_ms: int = 0) -> Message:
        if not isinstance(message, Write):
            return self.tree.answer(message)
        mishap = self.mishaps.pop(0) if self.mishaps else ""
        if mishap == "fail":
            return Failed(message.request, "NODE", "not reachable", "try again")
        answer = Unknown(message.request) if mishap == "lost" else self.tree.answer(message, now_ms)
        return Unknown(message.request) if mishap == "unknown" else answer

    # For scripts

    def get(self, path: str) -> tuple[bytes, int] | None:
        """The data and the version of a node."""
        read = self.tree.answer(Read(RequestId(0), self._session, (Get(path),)))
        assert isinstance(read, ReadDone)
        found = read.results[0]
        return (found.data, found.stat.version) if isinstance(found, Found) else None

    def put(self, path: str, data: bytes) -> None:
        """Create a node, or give it other data."""
        there = self.get(path)
        self._write(Create(path, data) if there is None else Set(path, data, there[1]))

    def delete(self, path: str) -> None:
        self._write(Delete(path, ANY_VERSION))

    def _write(self, operation: WriteOperation) -> None:
        done = self.tree.answer(Write(RequestId(0), self._session, (operation,)))
        assert isinstance(done, Written), done

    def invariants(self) -> list[Violation]:
        return []

    def clone(self) -> Self:
        twin = type(self)()
        twin.tree, twin.mishaps = self.tree.clone(), list(self.mishaps)
        return twin

    def fingerprint(self) -> bytes:
        return self.tree.fingerprint()
