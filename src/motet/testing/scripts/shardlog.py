"""Golden scripts about the replicated log of one shard, on nodes ``n1`` …; the script is the operator.

A node's log is shown as ``n1 leader 1 head (1,3) commit (1,3) applied 3: (1,1)# (1,2)=a (1,3)=b``: status,
epoch, and the entries that are in its files, a barrier with ``#``. Entries that were trimmed are not shown.

After each command the part checks what no line can show: no two nodes have applied different entries, and
what a client was told to be committed is applied in the same place everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import ClassVar, TypeVar

from motet.core.machine import Message
from motet.core.shardlog.context import ShardlogConfig
from motet.core.shardlog.entry import Entry, EntryId, read_record
from motet.core.shardlog.messages import (
    AbortReconfigurationRequest,
    AddFollowerRequest,
    BecomeLeaderRequest,
    CommitReconfigurationRequest,
    DeleteShardRequest,
    FenceRequest,
    FenceResponse,
    PrepareReconfigurationRequest,
    PrepareReconfigurationResponse,
    ReconfigurationOp,
    SnapshotRequest,
    SnapshotResponse,
)
from motet.core.shardlog.meta import segment_file
from motet.core.shardlog.replica import ShardReplica
from motet.errors import BadScenario
from motet.ids import Epoch, FileName, NodeId, Offset
from motet.testing.part import Converter, verb
from motet.testing.script import Command
from motet.testing.scripts.shardlog_bench import (
    OPERATOR,
    SHARD,
    AppendValue,
    ConfirmLead,
    Lies,
    ListMachine,
    ReadBackEntries,
    ShardBench,
    ShardNode,
    told_entry,
    told_stalled,
)

Answer = TypeVar("Answer", bound=Message)

CLIENT = "client"
START_WALL_MS = 1_000
_FOLLOWER = re.compile(r"(\w+)\((\d+),(\d+)\)")
_ENTRY = re.compile(r"\((\d+),(\d+)\)")


def _entry_id(text: str) -> EntryId:
    match = _ENTRY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no entry (EPOCH,OFFSET)")
    return EntryId(Epoch(int(match[1])), Offset(int(match[2])))


def _follower(text: str) -> tuple[NodeId, EntryId]:
    match = _FOLLOWER.fullmatch(text)
    if match is None:
        raise BadScenario(f"{text!r} is no follower NODE(EPOCH,OFFSET)")
    return NodeId(match[1]), EntryId(Epoch(int(match[2])), Offset(int(match[3])))


class ShardlogPart(Lies):
    """Commands for shards."""

    name = "shardlog"
    converters: ClassVar[Mapping[type, Converter]] = {EntryId: _entry_id}

    def __init__(self) -> None:
        self.bench: ShardBench = ShardBench()
        self.config = ShardlogConfig(segment_bytes=4096, preallocate_bytes=1024)
        self.is_manual = False

    def run(self, command: Command) -> list[str]:
        lines = super().run(command)
        if not self.is_manual and command.verb not in ("log", "files", "messages"):
            lines += self.bench.settle()
        self._check()
        return lines

    # The bench

    @verb
    def cluster(self, *, nodes: int = 3, start: bool = True) -> list[str]:
        """Put nodes n1 … on the bench, and start them."""
        for number in range(1, nodes + 1):
            name = f"n{number}"
            self.bench.add(name, self._factory(NodeId(name)), wall_ms=START_WALL_MS)
        return self.start() if start else []

    def _factory(self, name: NodeId) -> Callable[[], ShardNode]:
        return lambda: ShardNode(name, self.config)

    @verb
    def configure(
        self,
        *,
        segment_bytes: int = 4096,
        tail_bytes: int = 1 << 20,
        message_bytes: int = 1 << 20,
        snapshot_every_bytes: int = 1 << 30,
        keep_bytes: int | None = None,
    ) -> list[str]:
        """Have smaller figures; before the nodes are started."""
        self.config = ShardlogConfig(
            segment_bytes=segment_bytes,
            preallocate_bytes=segment_bytes,
            tail_bytes_max=tail_bytes,
            message_bytes=message_bytes,
            snapshot_every_bytes=snapshot_every_bytes,
            index_step_bytes=256,
            read_bytes=512,
            keep_bytes=keep_bytes,
        )
        return []

    @verb
    def hold_messages(self, is_held: bool) -> list[str]:
        """Deliver messages only when told to; or, with off, at once again."""
        self.is_manual = is_held
        return []

    @verb
    def trace(self, *kinds: str) -> list[str]:
        """Tell messages of these kinds, such as AddEntry, AddEntryResponse, beat; without any, none."""
        self.bench.traced = dict.fromkeys(kinds)
        return []

    @verb
    def mute(self, *notes: str) -> list[str]:
        """Do not tell these notes."""
        self.bench.muted |= dict.fromkeys(notes)
        return []

    @verb
    def wait(self, ms: int) -> list[str]:
        """Let time pass; messages arrive as they are sent."""
        lines = self.bench.settle()
        for _ in range(ms // 50):
            lines += [*self.bench.advance(50), *self.bench.settle()]
        return lines

    @verb
    def wipe(self, node: str) -> list[str]:
        """Stop a node dead, and lose its disk."""
        lines = self.bench.crash(node)
        self.bench.node(node).disk.durable.clear()
        return lines

    @verb
    def rot(self, node: str, offset: int) -> list[str]:
        """Flip a bit in the body of an entry on a node's disk."""
        for file, place, entry in self._records(node, self._replica(node)):
            if entry.id.offset == offset:
                disk = self.bench.node(node).disk
                content = bytearray(disk.durable[file])
                content[place + 48] ^= 1
                disk.durable[file] = bytes(content)
                return []
        raise BadScenario(f"{node} has no entry {offset} on disk")

    # The operator

    @verb
    def fence(
        self, epoch: int, *nodes: str, founds: bool = False, incarnation: int | None = None
    ) -> list[str]:
        """Fence nodes, by their present incarnation unless another is given."""
        lines = []
        for node in nodes:
            life = self._node(node).shards.incarnation if incarnation is None else incarnation
            lines += self._say(node, FenceRequest(SHARD, Epoch(epoch), life, founds))
        return lines

    @verb
    def lead(self, node: str, epoch: int, *followers: str, factor: int = 3) -> list[str]:
        """Tell a node to lead, with followers NODE(EPOCH,OFFSET)."""
        known = tuple(_follower(text) for text in followers)
        return self._say(node, BecomeLeaderRequest(SHARD, Epoch(epoch), factor, known))

    @verb
    def elect(
        self, epoch: int, *nodes: str, factor: int | None = None, founds: bool = False
    ) -> list[str]:
        """Fence nodes, and tell the one with the highest head to lead the others that answered."""
        self.bench.received[OPERATOR] = []
        heads: dict[NodeId, EntryId] = {}
        lines = []
        for node in nodes:
            lines += self.fence(epoch, node, founds=founds) + self.bench.settle()
            answer = self.bench.received[OPERATOR][-1:]
            if answer and isinstance(answer[0], FenceResponse):
                heads[NodeId(node)] = answer[0].head_index
        if not heads:
            return [*lines, "nobody answers"]
        winner = max(heads, key=lambda node: heads[node])
        others = [f"{node}{head}" for node, head in heads.items() if node != winner]
        lines = [line for line in lines if not line.startswith("op hears")]
        told = " ".join(f"{node}{head}" for node, head in heads.items())
        lines.append(f"epoch {epoch}: fenced {told}; leader {winner}")
        return lines + self.lead(winner, epoch, *others, factor=factor or len(nodes))

    @verb
    def add_follower(self, node: str, epoch: int, follower: str) -> list[str]:
        """Tell a leader of a follower NODE(EPOCH,OFFSET) that was fenced late."""
        known, head = _follower(follower)
        return self._say(node, AddFollowerRequest(SHARD, Epoch(epoch), known, head))

    @verb
    def prepare(
        self, node: str, epoch: int, op: str, *, old: str | None = None, new: str | None = None
    ) -> list[str]:
        """Prepare a change of the ensemble: node_swap, expand or contract."""
        old_node, new_node = _node_id(old), _node_id(new)
        return self._say(
            node,
            PrepareReconfigurationRequest(
                SHARD, Epoch(epoch), ReconfigurationOp(op), old_node, new_node
            ),
        )

    @verb
    def send_snapshot(self, node: str) -> list[str]:
        """Send a node the snapshot of the last answer to a prepare."""
        answer = self._last(PrepareReconfigurationResponse)
        assert answer.snapshot is not None
        life = self._node(node).shards.incarnation
        return self._say(
            node,
            SnapshotRequest(SHARD, answer.epoch, answer.snapshot, answer.commit_index, life),
        )

    @verb
    def commit(
        self,
        node: str,
        epoch: int,
        op: str,
        factor: int,
        *,
        old: str | None = None,
        new: str | None = None,
    ) -> list[str]:
        """Commit a change; the head of the new node is that of its last answer to a snapshot."""
        head = None if new is None else self._last(SnapshotResponse).head_index
        return self._say(
            node,
            CommitReconfigurationRequest(
                SHARD,
                Epoch(epoch),
                ReconfigurationOp(op),
                factor,
                _node_id(old),
                _node_id(new),
                head,
            ),
        )

    @verb
    def abort(self, node: str, epoch: int) -> list[str]:
        """Call a change off."""
        return self._say(node, AbortReconfigurationRequest(SHARD, Epoch(epoch)))

    @verb
    def delete(self, node: str, epoch: int) -> list[str]:
        """Tell a node to forget the shard."""
        return self._say(node, DeleteShardRequest(SHARD, Epoch(epoch)))

    def _say(self, node: str, message: Message) -> list[str]:
        return self.bench.receive(node, OPERATOR, message)

    def _last(self, kind: type[Answer]) -> Answer:
        for message in reversed(self.bench.received.get(OPERATOR, [])):
            if isinstance(message, kind):
                return message
        raise BadScenario(f"the operator has heard no {kind.__name__}")

    # Clients

    @verb
    def append(self, node: str, *values: str) -> list[str]:
        """Append values at a leader."""
        lines = []
        for value in values:
            size, _, letter = value.partition("*")
            data = letter.encode() * int(size) if letter else value.encode()
            lines += self.bench.receive(node, CLIENT, AppendValue(data))
        return lines

    @verb
    def confirm(self, node: str) -> list[str]:
        """Ask a leader whether it still is one."""
        return self.bench.receive(node, CLIENT, ConfirmLead())

    @verb
    def read(self, node: str, after: int = 0, *, bytes_max: int = 1 << 20) -> list[str]:
        """Read committed entries."""
        return self.bench.receive(node, CLIENT, ReadBackEntries(Offset(after), bytes_max))

    # Looking

    @verb
    def keep(self, node: str, *, first: int = 0, pruned: int = 0) -> list[str]:
        """Trim nothing from ``first`` on, and what is before ``pruned`` in any case."""
        self._replica(node).keep_from(Offset(first) or None, Offset(pruned) or None)
        return []

    @verb
    def log(self, *nodes: str) -> list[str]:
        """Show the logs of nodes, or of all."""
        names = nodes or tuple(self.bench.nodes)
        return [self._told(name) for name in names]

    @verb
    def cursors(self, node: str) -> list[str]:
        """Show what a leader knows of its followers."""
        replica = self._replica(node)
        return [
            f"{cursor.node} {cursor.state.value}{' leaving' if cursor.is_leaving else ''}"
            f" pushed {cursor.pushed} confirmed {cursor.confirmed}{told_stalled(replica, cursor)}"
            for cursor in replica.core.state.cursors.values()
        ] or ["no cursors"]

    def _told(self, name: str) -> str:
        if self.bench.node(name).machine is None:
            return f"{name} down"
        replica = self._node(name).shards.replica(SHARD)
        if replica is None:
            return f"{name} holds nothing"
        state = replica.core.state
        words = [name, state.status.value, str(state.epoch)]
        if state.is_damaged:
            words.append("damaged")
        if not state.is_member:
            words.append("not a member")
        if replica.status == "leader" and not replica.is_serving:
            words.append("not serving")
        words.append(f"head {replica.head} commit {state.commit_index} applied {state.applied}:")
        words += [self._told_entry(entry) for _, _, entry in self._records(name, replica)]
        return " ".join(words)

    def _told_entry(self, entry: Entry) -> str:
        return told_entry(entry)

    def _records(self, name: str, replica: ShardReplica) -> list[tuple[FileName, int, Entry]]:
        """The entries of a log as they are in its files."""
        files = self.bench.node(name).disk.files()
        log = replica.core.state.log
        found: list[tuple[FileName, int, Entry]] = []
        for segment in log.segments:
            file = segment_file(SHARD, segment.number)
            place, offset = 0, segment.first
            while offset <= log.last_of(segment):
                if not files.get(file, b"")[place : place + 40].strip(b"\0"):
                    break  # it could not be written
                entry, size_bytes = read_record(files[file], place, segment.salt, offset)
                assert entry is not None
                found.append((file, place, entry))
                place, offset = place + size_bytes, Offset(offset + 1)
        return found

    def _node(self, name: str) -> ShardNode:
        machine = self.bench.node(name).running()
        assert isinstance(machine, ShardNode)
        return machine

    def _replica(self, name: str) -> ShardReplica:
        replica = self._node(name).shards.replica(SHARD)
        if replica is None:
            raise BadScenario(f"{name} holds nothing of the shard")
        return replica

    def _check(self) -> None:
        applied: dict[int, tuple[int, int, bytes]] = {}
        for node in self.bench.nodes.values():
            if not isinstance(node.machine, ShardNode):
                continue
            replica = node.machine.shards.replica(SHARD)
            if replica is None or not isinstance(replica.machine, ListMachine):
                continue
            for entry in replica.machine.entries:
                known = applied.setdefault(entry[1], entry)
                assert known == entry, f"two nodes have applied {known} and {entry}"


def _node_id(name: str | None) -> NodeId | None:
    return None if name is None else NodeId(name)
