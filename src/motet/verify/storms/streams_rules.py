"""What one shard has committed, as whoever sees everything knows it: one order, from the first entry on.

An entry belongs to it as soon as any replica takes it for committed. From then on nothing in it may change,
whatever becomes of the replicas.

What must hold of a batch as soon as it is in any log: U1 and U2 of :mod:`motet.core.streams.entries`.

Whoever applies a batch asserts some of it. Here it is looked at from outside, before anybody applies it.

What a follower has acknowledged, it keeps.

AcknowledgedStays  an entry that a node has acknowledged to the leader of an epoch is in its log as long as it
                   is in that epoch, through restarts, and whatever arrives late or twice

A loss shows only when the leader goes as well; this shows when the follower forgets. Nothing is said of a
node whose disk was lost or damaged, until it is a member again: what it acknowledged before does not count.

Changes of an ensemble that stall: how far each had come, and what came of it.

Seen from outside: what operators write into the store, what they send, and what leaders note. A change stalls
when its operator has to ask for a step again, or an election takes it over; each phase of each kind of change
is to be seen with each end that it can have.

======================================  ============================================================
mark                                    what has happened
======================================  ============================================================
stalled_K_prepare_went_on               asked again, and then prepared
stalled_K_commit_went_on                asked again, and then done
stalled_K_prepare_aborted               called off by its operator (a contraction never is)
stalled_K_prepare_unheard_dropped       an election found it before the leader had heard of it,
stalled_K_prepare_prepared_dropped      or after: the ensemble is the old one
stalled_K_commit_prepared_completed     an election found it before the leader had done it,
stalled_K_commit_committed_completed    or after: the ensemble is the new one (of a contraction:
                                        ``rolled_back``, the ensemble is the old one)
======================================  ============================================================

Resolved  an election ends a change as this table says, whatever the leader had done.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.machine import Effect, Event, Note, Received, Send
from motet.core.operator.ensembles import changed_ensemble
from motet.core.shardlog.entry import NO_ENTRY, Entry, EntryId, EntryKind
from motet.core.shardlog.messages import (
    AddEntryResponse,
    CommitReconfigurationRequest,
    PrepareReconfigurationRequest,
    ReconfigurationOp,
    ShardMessage,
    SnapshotRequest,
)
from motet.core.streams.cluster_messages import (
    Reconfiguration,
    ReconfigurationPhase,
    ShardMetadata,
    ShardStatus,
)
from motet.core.streams.entries import (
    Chunk,
    Records,
    decode_aborted,
    decode_committed,
    decode_prepared,
    decode_records,
    record_range,
    unbatched,
)
from motet.core.streams.node import DataNode
from motet.ids import Address, Epoch, LogName, NodeId, Offset, ShardName, TransactionId
from motet.sim.host import Host
from motet.sim.world import World


class Truth(msgspec.Struct):
    """One shard."""

    shard: ShardName
    #: ids[n] is the committed entry at offset n
    ids: list[EntryId] = msgspec.field(default_factory=lambda: [NO_ENTRY])
    #: every entry that was ever in any log
    entries: dict[EntryId, Entry] = msgspec.field(default_factory=dict)
    #: of the next record that will be committed
    next_record: Offset = Offset(0)
    #: first record of an entry, or of one in a batch -> the entry
    by_record: dict[Offset, Entry] = msgspec.field(default_factory=dict)
    #: first record of a chunk -> the chunk and its entry
    chunks: dict[Offset, tuple[Chunk, EntryId]] = msgspec.field(default_factory=dict)
    tokens: dict[tuple[str, int], Offset] = msgspec.field(default_factory=dict)
    #: records below this one were acknowledged to a client
    acknowledged: Offset = Offset(0)
    #: every log that anybody has had was complete from this entry on
    kept_from: Offset = Offset(1)
    #: applied entries -> a digest of the state
    states: dict[Offset, bytes] = msgspec.field(default_factory=dict)
    #: epoch -> who was elected in it
    leaders: dict[Epoch, NodeId] = msgspec.field(default_factory=dict)
    #: it has been deleted, or is about to be
    is_deleted: bool = False
    #: its stream was deleted, and created again by a request that came late
    is_again: bool = False

    @property
    def head(self) -> Offset:
        return Offset(len(self.ids) - 1)

    def add(self, entry: EntryId) -> list[str]:
        """The next committed entry; what is wrong with it."""
        self.ids.append(entry)
        content = self.entries.get(entry)
        if content is None:
            return [f"{entry} is committed, and nobody has seen it"]
        return [wrong for each in unbatched(content) for wrong in self._add(each)]

    def _add(self, entry: Entry) -> list[str]:
        if entry.kind == EntryKind.RECORDS:
            return self._add_records(entry, decode_records(entry.body))
        place = record_range(entry)
        return [] if place is None else self._add_changes(entry, *place)

    def _add_changes(self, entry: Entry, first: Offset, count: int) -> list[str]:
        self.by_record[self.next_record] = entry
        expected, self.next_record = self.next_record, Offset(self.next_record + count)
        return [] if first == expected else [f"{entry.id} begins with {first}, not {expected}"]

    def _add_records(self, content: Entry, records: Records) -> list[str]:
        found, entry = [], content.id
        if records.first_offset != self.next_record:
            found.append(
                f"{entry} begins with record {records.first_offset}, not {self.next_record}"
            )
        self.by_record[self.next_record] = content
        for chunk in records.chunks:
            self.chunks[self.next_record] = chunk, entry
            if chunk.token is not None:
                key = (chunk.token.producer, chunk.token.number)
                if key in self.tokens:
                    found.append(f"{entry} has token {key} again")
                self.tokens[key] = self.next_record
            self.next_record = Offset(self.next_record + chunk.count)
        return found

    def entry_with(self, record: Offset) -> Entry | None:
        """The entry that holds a record, if it is committed."""
        if record >= self.next_record:
            return None
        return self.by_record[max(first for first in self.by_record if first <= record)]

    def clock_of(self, entry: EntryId) -> Clock | None:
        content = self.entries.get(entry)
        return None if content is None else content.clock


def first_clock(entry: Entry) -> Clock:
    """The lowest clock in an entry."""
    return entry.clock if entry.kind != EntryKind.BATCH else unbatched(entry)[0].clock


def broken_rules(entry: Entry) -> list[tuple[str, str]]:
    """Which rules an entry breaks, and how."""
    if entry.kind != EntryKind.BATCH:
        return []
    found: list[tuple[str, str]] = []
    batched = unbatched(entry)
    clocks = [each.clock for each in batched]
    if clocks != sorted({*clocks}) or clocks[-1] != entry.clock:
        found.append(("U1", f"{entry.id} at {entry.clock} has {[str(c) for c in clocks]}"))
    touched: dict[bytes | TransactionId, TransactionId] = {}
    for each in batched:
        name, keys = _touches(each)
        if name is None:
            continue
        touches: list[bytes | TransactionId] = [name, *keys]
        for what in touches:
            if what in touched:
                found.append(("U2", f"{entry.id}: {what!r} of {touched[what]} and of {name}"))
            touched[what] = name
    return found


def _touches(entry: Entry) -> tuple[TransactionId | None, dict[bytes, None]]:
    """The transaction of what is in a batch, and the keys that others must wait for."""
    if entry.kind == EntryKind.BRANCH_COMMITTED:
        branch = decode_committed(entry.body).branch
        return branch.transaction, dict.fromkeys(change.key for change in branch.changes)
    if entry.kind == EntryKind.PREPARED:
        body = decode_prepared(entry.body)
        changed = (change.key for change in body.branch.changes)
        return body.branch.transaction, dict.fromkeys([*body.read_keys, *changed])
    if entry.kind == EntryKind.ABORTED:
        return decode_aborted(entry.body).transaction, {}
    return None, {}


Place = tuple[Address, ShardName]


class Promises:
    """Watches all data nodes; ``is_struck`` says whether a disk may be damaged where a shard lies."""

    def __init__(self, world: World, is_struck: Callable[[NodeId, ShardName], bool]) -> None:
        self._world = world
        self._is_struck = is_struck
        #: the newest entry of each log that was acknowledged, and in which epoch
        self._said: dict[Place, tuple[Epoch, EntryId]] = {}

    def saw(self, host: Host, event: Event, effects: list[Effect]) -> None:
        """A machine has taken a step."""
        machine = host.machine
        if not isinstance(machine, DataNode):
            return
        address = host.node.address
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, AddEntryResponse):
                self._acknowledged(address, machine, effect.message)
            elif isinstance(effect, Note) and effect.what in ("shard_deleted", "shard_damaged"):
                shard = ShardName(effect.detail.partition(" ")[0])
                self._said.pop((address, shard), None)
        if isinstance(event, Received) and isinstance(event.message, ShardMessage):
            self._check(address, machine, event.message.shard)

    def _acknowledged(self, address: Address, machine: DataNode, answer: AddEntryResponse) -> None:
        replica = machine.shards.replica(answer.shard)
        if replica is not None and replica.is_member:
            said, place = (answer.epoch, answer.entry_id), (address, answer.shard)
            self._said[place] = max(said, self._said.get(place, said))

    def wiped(self, node: NodeId) -> None:
        """It has lost its disk."""
        gone = Address(node)
        self._said = {place: said for place, said in self._said.items() if place[0] != gone}

    def _check(self, address: Address, machine: DataNode, shard: ShardName) -> None:
        said, replica = self._said.get((address, shard)), machine.shards.replica(LogName(shard))
        if said is None or replica is None or self._is_struck(NodeId(address), shard):
            return
        state, (epoch, entry) = replica.core.state, said
        runs = state.log.runs
        is_here = entry.offset <= runs.base.offset or runs.has(entry)
        if state.recovery is None and state.epoch == epoch and state.is_member and not is_here:
            what = f"{address} {shard}: acknowledged {entry} in epoch {epoch}, ends at {runs.head}"
            self._world.violated("AcknowledgedStays", what)


STEPS = (PrepareReconfigurationRequest, SnapshotRequest, CommitReconfigurationRequest)
_KINDS = tuple(ReconfigurationOp)


def _ends(op: ReconfigurationOp) -> list[str]:
    does = "rolled_back" if op is ReconfigurationOp.CONTRACT else "completed"
    ends = ["prepare_went_on", "commit_went_on"]
    ends += ["prepare_unheard_dropped", "prepare_prepared_dropped"]
    ends += [f"commit_prepared_{does}", f"commit_committed_{does}"]
    return ends if op is ReconfigurationOp.CONTRACT else [*ends, "prepare_aborted"]


STALL_MARKS = tuple(f"stalled_{op.value}_{end}" for op in _KINDS for end in _ends(op))


class Taken(msgspec.Struct, frozen=True):
    """A change that an election has found."""

    change: Reconfiguration
    ensemble: tuple[NodeId, ...]
    #: unheard, prepared or committed, by the leader
    stage: str


class Stalls:
    """Follows all changes of all ensembles."""

    def __init__(self, world: World) -> None:
        self._world = world
        #: how far the leader went with a change of its ensemble in that epoch
        self._stages: dict[tuple[ShardName, Epoch], str] = {}
        #: how often each step was asked for
        self._asked: dict[tuple[ShardName, Epoch, str], int] = {}
        #: found by an election that has no end yet
        self._taken: dict[ShardName, Taken] = {}

    def noted(self, note: Note, epoch: Epoch) -> None:
        """A leader has taken a step."""
        for stage in ("prepared", "committed"):
            if note.what.startswith(f"shard_{stage}_"):
                self._stages[ShardName(note.detail.partition(" ")[0]), epoch] = stage

    def sent(self, message: ShardMessage) -> None:
        """An operator has asked for a step, or a leader has offered a snapshot."""
        if isinstance(message, STEPS):
            key = (message.shard, message.epoch, type(message).__name__)
            self._asked[key] = self._asked.get(key, 0) + 1

    def stored(self, before: ShardMetadata, after: ShardMetadata) -> None:
        """Somebody has written metadata."""
        shard, change = after.shard, before.reconfiguration
        if after.status is ShardStatus.DELETING:
            self._taken.pop(shard, None)
        elif before.status is ShardStatus.RECONFIGURATION and change is not None:
            if after.status is ShardStatus.ELECTION:
                stage = self._stages.get((shard, before.epoch), "unheard")
                self._taken[shard] = Taken(change, before.ensemble, stage)
            elif after.status is not before.status or after.reconfiguration != change:
                self._note_own_end(before, after, change)
        elif after.status is ShardStatus.STEADY_STATE and before.status is ShardStatus.ELECTION:
            taken = self._taken.pop(shard, None)
            if taken is not None:
                self._check_resolved(taken, after)

    def _note_own_end(
        self, before: ShardMetadata, after: ShardMetadata, change: Reconfiguration
    ) -> None:
        """Its operator has taken it a phase further, or called it off."""
        phase = change.phase
        if phase is ReconfigurationPhase.PREPARE and after.reconfiguration is None:
            self._world.mark(f"stalled_{change.op.value}_prepare_aborted")
            return
        is_prepare = phase is ReconfigurationPhase.PREPARE
        steps = STEPS[:2] if is_prepare else STEPS[2:]
        asked = [self._asked.get((before.shard, before.epoch, s.__name__), 0) for s in steps]
        if max(asked) > 1:
            self._world.mark(f"stalled_{change.op.value}_{phase.value}_went_on")

    def _check_resolved(self, taken: Taken, after: ShardMetadata) -> None:
        change, stage = taken.change, taken.stage
        is_dropped = change.phase is ReconfigurationPhase.PREPARE
        is_back = change.op is ReconfigurationOp.CONTRACT
        end = "dropped" if is_dropped else "rolled_back" if is_back else "completed"
        wanted = taken.ensemble
        if end == "completed":
            wanted = changed_ensemble(taken.ensemble, change)
        if set(after.ensemble) != set(wanted):
            what = f"{after.shard}: {change} of {taken.ensemble}, now {after.ensemble}"
            self._world.violated("Resolved", what)
            return
        self._world.mark(f"stalled_{change.op.value}_{change.phase.value}_{stage}_{end}")
