"""What must hold of a cluster's shards, watched after every step of every node and every write to the store.

NoLogDivergence         an entry that a node takes for committed is the one that all others take for committed
                        there, for ever; and two entries of the same id are the same entry, committed or not
NoLossOfConfirmedWrite  what was acknowledged is committed, where it was said to be; and whenever the store
                        names a leader, and that node leads, everything committed is in its log
ValidMessages           nobody addresses itself, and no leader is told to leave or to join its own ensemble
LegalLeaderAndEnsemble  in the store: the leader is in the ensemble, whose size is the replication factor; no
                        epoch has two leaders; in steady state the leader counts with that replication factor
CommitNeverFalls        in one life of a replica that finds no damage
ApplyBelowCommit        nothing is applied that is not committed
ClocksRise              along each log
U1, U2                  of each batch: see ``batch_checks``
TokensOnce              a token is in a log at most once, and records have offsets without a gap
OneState                replicas that have applied the same entries have the same state
LinearizableReads       a leader shows every append that was acknowledged before it was asked
PagesWithoutGap         who reads on is shown the next record, or told that it is gone, and then it is
"""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from motet.core.machine import Effect, Event, Note, Send
from motet.core.shardlog.entry import NO_ENTRY, EntryId
from motet.core.shardlog.messages import (
    AddEntryRequest,
    AddEntryResponse,
    AddFollowerRequest,
    BecomeLeaderRequest,
    CommitReconfigurationRequest,
    PrepareReconfigurationRequest,
    ShardMessage,
    TruncateRequest,
    TruncateResponse,
)
from motet.core.shardlog.replica import ShardReplica
from motet.core.shardlog.state import Status
from motet.core.streams.cluster_messages import ShardMetadata, ShardStatus
from motet.core.streams.entries import Chunk, record_range
from motet.core.streams.messages import ChunkPlace, RecordsRead
from motet.core.streams.node import DataNode
from motet.ids import Address, Epoch, LogName, NodeId, Offset, ShardName
from motet.sim.host import Host
from motet.sim.world import World
from motet.verify.storms.streams_rules import Stalls, Truth, broken_rules, first_clock

OLD_COMMITTED = "old_entries_committed"
"""The mark of entries that a leader has committed through one of a newer epoch."""

BETWEEN_NODES = (AddEntryRequest, AddEntryResponse, TruncateRequest, TruncateResponse)


class Seen(msgspec.Struct):
    """How a replica was when it was last looked at."""

    #: the very object: another one is another replica
    replica: object
    head: EntryId = NO_ENTRY
    commit: EntryId = NO_ENTRY
    #: compared with what others have committed, up to here; and up to here on disk, too
    checked: Offset = Offset(0)
    durable: Offset = Offset(0)
    applied: Offset = Offset(0)
    status: Status = Status.RECOVERING
    epoch: Epoch = Epoch(0)
    is_damaged: bool = False


class Watch:
    """The one who sees everything."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.truths: dict[ShardName, Truth] = {}
        self.metadata: dict[ShardName, ShardMetadata] = {}
        self._seen: dict[tuple[Address, ShardName], Seen] = {}
        self._hosts: dict[NodeId, Host] = {}
        self._stalls = Stalls(world)

    def truth(self, shard: ShardName) -> Truth:
        truth = self.truths.get(shard)
        if truth is None:
            truth = self.truths[shard] = Truth(shard)
        return truth

    def add_host(self, host: Host) -> None:
        """A data node."""
        self._hosts[NodeId(host.node.address)] = host

    def replica(self, node: NodeId, shard: ShardName) -> ShardReplica | None:
        """A replica, if its node is up."""
        host = self._hosts.get(node)
        if host is None or not host.node.up:
            return None
        assert isinstance(host.machine, DataNode)
        return host.machine.shards.replica(LogName(shard))

    def _violated(self, rule: str, what: str) -> None:
        self._world.violated(rule, what)

    # After each step

    def saw(self, host: Host, _event: Event, effects: list[Effect]) -> None:
        machine = host.machine
        is_node = isinstance(machine, DataNode)
        for effect in effects:
            if isinstance(effect, Send):
                if isinstance(effect.message, ShardMessage):
                    self._check_message(host, effect.to, effect.message)
                    if not is_node:
                        self._stalls.sent(effect.message)
            elif is_node and isinstance(effect, Note) and effect.what.startswith("shard_"):
                shard = ShardName(effect.detail.partition(" ")[0])
                replica = self.replica(NodeId(host.node.address), shard)
                if replica is not None:
                    self._stalls.noted(effect, replica.epoch)
        if isinstance(machine, DataNode):
            for shard, replica in machine.shards.replicas.items():
                self._look(host, shard, replica)

    # ValidMessages

    def _check_message(self, host: Host, to: Address, message: ShardMessage) -> None:
        receiver = NodeId(to)
        wrong = message.epoch < 1
        if isinstance(message, BETWEEN_NODES):
            wrong |= host.node.address == to
        elif isinstance(message, AddFollowerRequest):
            wrong |= message.follower == receiver
        elif isinstance(message, BecomeLeaderRequest):
            wrong |= any(node == receiver for node, _ in message.follower_map)
            wrong |= len(message.follower_map) >= message.replication_factor
        elif isinstance(message, PrepareReconfigurationRequest | CommitReconfigurationRequest):
            wrong |= receiver in (message.old_node, message.new_node)
        if wrong:
            self._violated("ValidMessages", f"{host.label} to {to}: {message}")

    # One replica

    def _look(self, host: Host, shard: ShardName, replica: ShardReplica) -> None:
        state = replica.core.state
        if state.status is Status.RECOVERING:
            return
        key = (host.node.address, shard)
        seen = self._seen.get(key)
        if seen is None or seen.replica is not replica:
            seen = self._seen[key] = Seen(replica)
        head, commit = state.log.runs.head, state.commit_index
        truth = self.truth(shard)
        truth.kept_from = max(truth.kept_from, replica.first_offset)
        if (
            head == seen.head
            and commit == seen.commit
            and state.applied == seen.applied
            and state.status is seen.status
            and state.epoch == seen.epoch
        ):
            return
        if state.is_damaged != seen.is_damaged:
            seen.is_damaged = state.is_damaged
            seen.commit, seen.checked, seen.durable = commit, Offset(0), Offset(0)
        if head != seen.head:
            self._check_entries(host, truth, replica, seen)
        self._check_commit(host, truth, replica, seen)
        self._check_applied(host, truth, replica, seen)
        if state.epoch < seen.epoch:
            self._violated("EpochNeverFalls", f"{host.label} {shard}: {seen.epoch} > {state.epoch}")
        is_new_leader = state.status is Status.LEADER and seen.status is not Status.LEADER
        seen.head, seen.commit, seen.applied = head, commit, state.applied
        seen.status, seen.epoch = state.status, state.epoch
        if is_new_leader:
            self._check_elected(host, truth, replica)
        if state.status is Status.LEADER:
            self._check_leader(shard, NodeId(host.node.address))

    def _check_entries(self, host: Host, truth: Truth, replica: ShardReplica, seen: Seen) -> None:
        """Entries that are new in a log are the same as elsewhere, and their clocks rise."""
        log = replica.core.state.log
        known = truth.entries
        after = None
        for entry in reversed(log.tail):
            content = known.get(entry.id)
            if after is not None and not entry.clock < first_clock(after):
                what = f"{entry.id} {entry.clock}, then {after.id} {after.clock}"
                self._violated("ClocksRise", f"{host.label} {truth.shard}: {what}")
            if content is None:
                known[entry.id] = entry
                for rule, what in broken_rules(entry):
                    self._violated(rule, f"{host.label} {truth.shard}: {what}")
            elif content != entry:
                what = f"{host.label} {truth.shard}: another {entry.id} than elsewhere"
                self._violated("NoLogDivergence", what)
            elif entry.id <= seen.head:
                return  # seen before
            after = entry
        if after is not None and after.id.offset > log.base.offset + 1:
            before = truth.clock_of(log.runs.id_at(Offset(after.id.offset - 1)))
            if before is not None and not before < first_clock(after):
                self._violated("ClocksRise", f"{host.label} {truth.shard}: {after.id}")

    def _check_commit(self, host: Host, truth: Truth, replica: ShardReplica, seen: Seen) -> None:
        state = replica.core.state
        runs, commit = state.log.runs, state.commit_index
        if commit.offset < seen.commit.offset:
            what = f"{host.label} {truth.shard}: {seen.commit} > {commit}"
            self._violated("CommitNeverFalls", what)
        last = min(commit.offset, runs.head.offset)
        # Who is not a member may have acknowledged it, and yet an election does without it.
        if runs.head.offset < seen.durable and state.is_member:
            what = f"{host.label} {truth.shard}: had {seen.durable} on disk, ends at {runs.head}"
            self._violated("NoLossOfConfirmedWrite", what)
        seen.checked = Offset(min(seen.checked, runs.head.offset))
        for number in range(max(seen.checked, runs.base.offset - 1) + 1, last + 1):
            entry = runs.id_at(Offset(number))
            if number == len(truth.ids):
                if entry.epoch < state.epoch and state.status is Status.LEADER:
                    self._world.mark(OLD_COMMITTED)
                for wrong in truth.add(entry):
                    self._violated("TokensOnce", f"{host.label} {truth.shard}: {wrong}")
                self._check_named_leader(truth, entry)
            elif number > len(truth.ids):
                what = f"{host.label} {truth.shard}: {entry} before {len(truth.ids)}"
                self._violated("NoLogDivergence", what)
                return
            elif truth.ids[number] != entry:
                what = f"{host.label} {truth.shard}: committed {entry}, others {truth.ids[number]}"
                self._violated("NoLogDivergence", what)
                return
        seen.checked = Offset(max(seen.checked, last))
        seen.durable = Offset(min(seen.checked, state.log.durable))

    def _check_applied(self, host: Host, truth: Truth, replica: ShardReplica, seen: Seen) -> None:
        state = replica.core.state
        if state.applied > min(state.commit_index.offset, state.log.head.offset):
            what = f"{host.label} {truth.shard}: {state.applied} of {state.commit_index}"
            self._violated("ApplyBelowCommit", what)
        elif state.applied != seen.applied and not state.is_damaged and state.applied:
            # Cheaper than a fingerprint, and stricter: the same history leaves the same order behind.
            digest = blake2b(replica.machine.snapshot(), digest_size=16).digest()
            if truth.states.setdefault(state.applied, digest) != digest:
                what = f"{host.label} {truth.shard}: another state after {state.applied}"
                self._violated("OneState", what)

    # Leaders

    def _check_elected(self, host: Host, truth: Truth, replica: ShardReplica) -> None:
        own, epoch = NodeId(host.node.address), replica.elected_epoch
        other = truth.leaders.setdefault(epoch, own)
        if other != own:
            what = f"{truth.shard}: {other} and {own} lead in epoch {epoch}"
            self._violated("LegalLeaderAndEnsemble", what)

    def _check_named_leader(self, truth: Truth, entry: EntryId) -> None:
        """An entry has just been committed: the leader in the store, if it leads, has it."""
        metadata = self.metadata.get(truth.shard)
        if metadata is None or metadata.leader is None or truth.is_deleted:
            return
        replica = self.replica(metadata.leader, truth.shard)
        if replica is None or replica.status is not Status.LEADER:
            return
        runs = replica.core.state.log.runs
        if entry.offset > runs.base.offset and not runs.has(entry):
            what = f"{truth.shard}: {metadata.leader} leads without {entry}"
            self._violated("NoLossOfConfirmedWrite", what)

    def _check_leader(self, shard: ShardName, node: NodeId) -> None:
        """A leader that the store names has everything, and counts as the store says."""
        metadata, truth = self.metadata.get(shard), self.truth(shard)
        if metadata is None or metadata.leader != node or truth.is_deleted:
            return
        replica = self.replica(node, shard)
        if replica is None or replica.status is not Status.LEADER:
            return
        state = replica.core.state
        runs = state.log.runs
        for number in range(truth.head, runs.base.offset, -1):
            if not runs.has(truth.ids[number]):
                what = f"{shard}: {node} leads without {truth.ids[number]}"
                self._violated("NoLossOfConfirmedWrite", what)
                return
            if number < runs.firsts[-1]:
                break  # the same entry of an older epoch: so is all before it
        is_steady = metadata.status is ShardStatus.STEADY_STATE and metadata.epoch == state.epoch
        if is_steady and state.replication_factor != metadata.replication_factor:
            what = f"{shard}: {node} counts {state.replication_factor} replicas"
            self._violated("LegalLeaderAndEnsemble", f"{what} of {metadata.replication_factor}")

    # The store

    def stored(
        self, shard: ShardName, before: ShardMetadata | None, after: ShardMetadata | None
    ) -> None:
        """Somebody has written metadata."""
        if after is None:
            self.metadata.pop(shard, None)
            return
        if before is None and shard in self.truths:
            self._begin_again(shard)
        self.metadata[shard] = after
        ensemble = after.ensemble
        is_legal = (
            (after.leader is None or after.leader in ensemble)
            and after.replication_factor == len(ensemble) == len(set(ensemble))
            and not set(after.removed_nodes) & set(ensemble)
        )
        if not is_legal:
            self._violated("LegalLeaderAndEnsemble", f"in the store: {after}")
        if before is not None and after.epoch < before.epoch:
            self._violated("EpochNeverFalls", f"in the store: {before.epoch} > {after.epoch}")
        if after.status is ShardStatus.DELETING:
            self.truth(shard).is_deleted = True
        if before is not None:
            self._stalls.stored(before, after)
        if after.leader is not None:
            self._check_leader(shard, after.leader)

    def _begin_again(self, shard: ShardName) -> None:
        """A request to create the stream was repeated by the network after the stream had been deleted.

        So the shard has a second life. What nodes take for committed in it must be one order, too, and have
        nothing of the first in it; what clients are told may still be about the first.
        """
        self._world.mark("stream_again")
        self.truths[shard] = Truth(shard, is_again=True)
        self._seen = {key: seen for key, seen in self._seen.items() if key[1] != shard}

    # What clients are told

    def acknowledged(
        self, name: str, shard: ShardName, chunks: tuple[Chunk, ...], places: tuple[ChunkPlace, ...]
    ) -> None:
        """A client was told where its chunks are."""
        truth = self.truth(shard)
        if truth.is_again:
            return
        if len(places) != len(chunks):
            self._violated("NoLossOfConfirmedWrite", f"{name}: {len(places)} places")
            return
        for chunk, place in zip(chunks, places, strict=True):
            there = truth.chunks.get(place.first_offset)
            if there is None or there[0] != chunk or there[1].epoch != place.epoch:
                what = f"{name} {shard}: told {place}, there is {there}"
                self._violated("NoLossOfConfirmedWrite", what)
                return
            if truth.entries[there[1]].clock != place.clock:
                self._violated("NoLossOfConfirmedWrite", f"{name} {shard}: another clock {place}")
            end = Offset(place.first_offset + chunk.count)
            truth.acknowledged = max(truth.acknowledged, end)

    def read(
        self, name: str, shard: ShardName, after: Offset, floor: Offset | None, page: RecordsRead
    ) -> Offset:
        """A client was shown a page; ``floor`` is what a leader must know. Where the next page begins."""
        truth = self.truth(shard)
        if truth.is_again:
            return last_of(page, after)
        if page.next_offset > truth.next_record:
            self._violated("NoLogDivergence", f"{name} {shard}: shown what is not committed")
        if floor is not None and page.next_offset < floor:
            what = f"{name} {shard}: {floor} records were acknowledged, shown {page.next_offset}"
            self._violated("LinearizableReads", what)
        for found in page.entries:
            first, count = record_range(found) or (Offset(-1), 0)
            entry = truth.by_record.get(first)
            is_true = entry is not None and entry.body == found.body
            if entry is None or not is_true or entry.id.epoch != found.epoch:
                self._violated("NoLogDivergence", f"{name} {shard}: shown another entry")
                return after
            if entry.clock != found.clock:
                self._violated("NoLogDivergence", f"{name} {shard}: shown another clock")
            end = first + count - 1
            if not first <= after + 1 <= end:
                what = f"{name} {shard}: {first} to {end} shown behind {after}"
                self._violated("PagesWithoutGap", what)
                return after
            after = Offset(end)
        if not page.entries and floor is not None and after + 1 < floor:
            self._violated("PagesWithoutGap", f"{name} {shard}: an end at {after} before {floor}")
        return after

    def expired(self, name: str, shard: ShardName, after: Offset) -> None:
        """A client was told that what comes next is no longer kept: somebody has indeed lost it."""
        truth = self.truth(shard)
        entry = None if truth.is_again else truth.entry_with(Offset(after + 1))
        if entry is not None and entry.id.offset >= truth.kept_from:
            what = f"{name} {shard}: nobody has lost {entry.id}, behind record {after}"
            self._violated("PagesWithoutGap", what)


def last_of(page: RecordsRead, after: Offset) -> Offset:
    """The last record of a page, if there is one."""
    found = [record_range(each) for each in page.entries]
    return Offset(max([after, *(each[0] + each[1] - 1 for each in found if each is not None)]))
