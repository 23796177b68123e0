"""Everything a replica keeps in memory besides its state machine, as plain data.

How far a log has come::

    applied <= committed, applied <= durable <= head          (offsets)

``committed`` may be above ``head`` on a follower that lags.

*Follow cursors* say how far a leader has come with each of its followers::

    PENDING_TRUNCATE ──▶ ATTACHED        its log had to be cut first, perhaps more than once
    NEEDS_SNAPSHOT ────▶ ATTACHED        it has lost its log, or lags behind what is kept

``is_leaving`` is the text's *pending removal*: a change of the ensemble has been prepared that takes the
node out. It gets nothing any more and does not count.

U1  confirmed <= pushed <= head. ``confirmed`` rises, but when the node says that it has lost its log, or the
    end of it: damage in the last record cannot be told from a write that was cut short.
U2  Answers to what was sent before the cursor was attached do not count. A request to cut a log, or to
    install a snapshot, has a round of its own, and only the answer to the newest one counts.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.shardlog.entry import NO_ENTRY, Entry, EntryId
from motet.core.shardlog.log import Log
from motet.core.shardlog.messages import ReconfigurationOp, Snapshot
from motet.ids import Address, Epoch, LogName, NodeId, Offset, ReadId, WriteId


class CursorState(StrEnum):
    """What a leader does with a follower."""

    ATTACHED = "attached"
    PENDING_TRUNCATE = "pending_truncate"
    NEEDS_SNAPSHOT = "needs_snapshot"


class Cursor(msgspec.Struct):
    """One follower."""

    node: NodeId
    state: CursorState
    #: it was fenced in this epoch, and is told to cut its log in it
    fenced_epoch: Epoch
    #: last pushed
    pushed: Offset = Offset(0)
    #: last confirmed: it has everything up to here on disk
    confirmed: Offset = Offset(0)
    is_leaving: bool = False
    #: the head that it was told to cut its log from, and to
    truncate_from: EntryId | None = None
    truncate_to: EntryId | None = None
    #: the snapshot that it was told to fetch
    snapshot: int | None = None
    #: the head that the snapshot replaces, if that is not one of ours
    replaces: EntryId | None = None
    #: which loss of its log it has told of last; 0: none
    loss: int = 0
    #: the round in which it was attached, or told to cut its log or to fetch a snapshot (U2)
    attached_round: int = 0
    #: the newest round that it has answered
    round: int = 0
    #: what is under way to it: the last entry of each message, and its bytes
    flying: list[tuple[Offset, int]] = msgspec.field(default_factory=list)
    flying_bytes: int = 0
    #: when anything was last sent, and when it last made progress
    sent_ns: int = 0
    moved_ns: int = 0
    #: when it last got something new, or lacked nothing
    gained_ns: int = 0
    #: how much of its snapshot it has asked for
    fetched: int = 0
    #: entries for it are being read from disk
    is_reading: bool = False
    #: the commit index and the first offset that it was last told, and when it was first told these; when it
    #: last answered
    told: tuple[Offset, Offset] = (Offset(0), Offset(0))
    told_ns: int = 0
    answered_ns: int = 0

    @property
    def is_attached(self) -> bool:
        return self.state is CursorState.ATTACHED and not self.is_leaving

    def attach(self, head: Offset, in_round: int, now_ns: int) -> None:
        """Its log is ours up to here: begin to push after it."""
        self.state = CursorState.ATTACHED
        self.truncate_from = self.truncate_to = self.replaces = None
        self.snapshot = None
        self.pushed = self.confirmed = head
        self.attached_round, self.moved_ns, self.gained_ns = in_round, now_ns, now_ns
        self.land_all()

    def tell(self, commit: Offset, first: Offset, now_ns: int) -> None:
        """A message with this commit index, of a log that begins there, is on its way."""
        if (commit, first) != self.told:
            self.told, self.told_ns = (commit, first), now_ns

    def is_at_rest(self, first: Offset, head: Offset) -> bool:
        """It has the whole log, all of it committed, and has answered since it was told so."""
        return (
            self.state is CursorState.ATTACHED
            and self.confirmed == head
            and self.told == (head, first)
            and self.answered_ns > self.told_ns
        )

    def fly(self, last: Offset, size_bytes: int, now_ns: int) -> None:
        """Entries up to this one are on their way."""
        if not self.flying:
            self.moved_ns = now_ns
        self.pushed, self.sent_ns = last, now_ns
        self.flying.append((last, size_bytes))
        self.flying_bytes += size_bytes

    def land(self, confirmed: Offset, now_ns: int) -> None:
        """Everything up to here has arrived, and is durable there."""
        self.confirmed = confirmed
        self.pushed = max(self.pushed, confirmed)
        self.moved_ns = self.gained_ns = now_ns
        landed = 0
        for last, size_bytes in self.flying:
            if last > confirmed:
                break
            self.flying_bytes -= size_bytes
            landed += 1
        del self.flying[:landed]

    def land_all(self) -> None:
        """Nothing is on its way, or all of it is taken to be lost."""
        self.flying, self.flying_bytes = [], 0

    def push_again(self, now_ns: int) -> None:
        """Push again what was not confirmed."""
        self.pushed = self.confirmed
        self.moved_ns = now_ns
        self.land_all()


class Status(StrEnum):
    """What a replica is for its shard."""

    #: it reads its files
    RECOVERING = "recovering"
    FENCED = "fenced"
    FOLLOWER = "follower"
    LEADER = "leader"


class Purpose(StrEnum):
    """Who wants entries that are read from disk."""

    CLIENT = "client"
    APPLY = "apply"
    PUSH = "push"
    PIECE = "piece"


class Reading(msgspec.Struct):
    """Entries that are being read from disk."""

    purpose: Purpose
    #: after this one, up to ``last``
    after: Offset
    last: Offset
    bytes_max: int
    #: where the reading is: ``at`` is the entry that begins at byte ``place`` of a segment
    segment: int = 0
    at: Offset = Offset(0)
    place: int = 0
    #: of the next read
    read_bytes: int = 0
    entries: list[Entry] = msgspec.field(default_factory=list)
    size_bytes: int = 0
    #: client: the number it was given; piece: of the snapshot
    number: int = 0
    #: push, piece: for whom
    node: Address | None = None
    #: push: the epoch and the round of the cursor's attachment, so that a late one is of no use
    epoch: Epoch = Epoch(0)
    attached_round: int = 0


class FinishedRead(msgspec.Struct, frozen=True):
    """What a reading for the data node came to: entries, or why there are none."""

    shard: LogName
    number: int
    entries: tuple[Entry, ...]
    #: the code of an error and what happened
    error: tuple[str, str] | None = None


class Given(msgspec.Struct, frozen=True):
    """A snapshot that others fetch from here."""

    snapshot: Snapshot
    state: bytes


class Installing(msgspec.Struct):
    """A snapshot that is being fetched."""

    snapshot: Snapshot
    #: who wants to be told
    asker: Address
    #: the operator wants it: whatever this node has, it is to become this
    is_told: bool
    #: it has everything that may have been acknowledged here
    is_whole: bool
    #: what was committed when it was offered
    commit_index: EntryId
    #: a head that it takes the place of, however far that goes
    replaces: EntryId | None = None
    #: of the request, for the answer
    round: int = 0
    #: the part of the state that is here
    pieces: list[bytes] = msgspec.field(default_factory=list)
    state_bytes: int = 0
    #: the log that will be ours
    log: Log = msgspec.field(default_factory=Log)
    asked_ns: int = 0
    #: the file of the state, once all is here, and whether it is durable
    state_number: int = 0
    state_write: WriteId | None = None
    is_state_durable: bool = False

    @property
    def fetched(self) -> int:
        """Rises with every piece."""
        return 1 + self.state_bytes + self.log.head.offset - self.log.base.offset


class Reconfiguring(msgspec.Struct):
    """A change of the ensemble that a leader has prepared."""

    epoch: Epoch
    op: ReconfigurationOp
    old_node: NodeId | None
    new_node: NodeId | None
    asker: Address
    #: what was committed when it began: a snapshot must have all of it
    commit_offset: Offset = Offset(0)
    snapshot: Snapshot | None = None
    is_answered: bool = False


class CommittedChange(msgspec.Struct, frozen=True):
    """The last change of the ensemble that was committed, so that a repeated request is answered again."""

    epoch: Epoch
    op: ReconfigurationOp
    old_node: NodeId | None
    new_node: NodeId | None


class Recovery(msgspec.Struct):
    """How far a start has come."""

    read: ReadId | None = None
    #: meta, state or segments
    step: str = "meta"
    #: the segment that is being read, by its place in the log
    at: int = 0
    #: entries up to here were durable when the meta file was written: if they are gone, that is damage
    proven: Offset = Offset(0)
    #: nothing was found after this entry
    torn_at: Offset | None = None
    #: how often the file that is next could not be read
    failures: int = 0


class State(msgspec.Struct):
    """All there is to a replica but its state machine."""

    status: Status = Status.RECOVERING
    epoch: Epoch = Epoch(0)
    #: it has everything that it ever acknowledged
    is_member: bool = False
    is_damaged: bool = False
    #: what was found
    damage: str = ""
    #: the epoch it was last fenced in, in this life or, for a replica that was fenced before, its own
    fenced_epoch: Epoch = Epoch(0)
    #: how often damage was found in this life
    losses: int = 0
    #: not a member: the epoch in which a leader's snapshot for its present loss was installed
    repair_epoch: Epoch = Epoch(0)
    #: and what was committed then: it is no member before it has that
    repair_commit: EntryId = NO_ENTRY
    #: it was fenced in this epoch in this life, and has neither led nor followed since
    may_lead: bool = False
    log: Log = msgspec.field(default_factory=Log)
    commit_index: EntryId = NO_ENTRY
    applied: Offset = Offset(0)
    applied_clock: Clock = ZERO
    recovery: Recovery | None = msgspec.field(default_factory=Recovery)

    # A leader
    cursors: dict[NodeId, Cursor] = msgspec.field(default_factory=dict)
    replication_factor: int = 0
    #: of its log, appended by itself and not applied yet
    unapplied_bytes: int = 0
    #: the epoch it was elected in; a change of the ensemble raises its epoch further
    elected_epoch: Epoch = Epoch(0)
    #: the head of its log when it was elected
    elected_head: EntryId = NO_ENTRY
    #: clients are served once this entry, the first of its own, is applied
    serving_offset: Offset = Offset(0)
    #: of the messages to followers: counts up
    round: int = 0
    #: the last round that was sent to find out whether this is still the leader, and when
    asked_round: int = 0
    asked_ns: int = -1
    wants_round: bool = False
    #: a majority has answered this round
    confirmed_round: int = 0
    reconfiguring: Reconfiguring | None = None
    committed_change: CommittedChange | None = None
    #: entries below this one are wanted by somebody; the data node sets it
    keep_from: Offset | None = None
    #: and those below this one by nobody, whatever the rules say
    pruned_from: Offset | None = None
    #: something has changed since it was last looked at what can be trimmed
    is_trim_due: bool = False

    # A follower
    leader: NodeId | None = None
    heard_round: int = 0
    #: the entry and the round that were last acknowledged
    acknowledged: Offset = Offset(0)
    #: the leader keeps nothing below this
    leader_first: Offset = Offset(1)

    # Files
    meta_version: int = 0
    meta_durable: int = 0
    #: write -> its version and the epoch in it
    meta_writes: dict[WriteId, tuple[int, Epoch]] = msgspec.field(default_factory=dict)
    epoch_durable: Epoch = Epoch(0)
    is_meta_due: bool = False
    next_number: int = 1
    #: numbers of segments and states that are to be removed -> since which version of the meta file
    garbage: dict[int, int] = msgspec.field(default_factory=dict)
    state_garbage: dict[int, int] = msgspec.field(default_factory=dict)
    #: segments of a log that was found damaged: kept until a snapshot has taken their place
    damaged: list[int] = msgspec.field(default_factory=list)
    removals: dict[WriteId, tuple[str, int]] = msgspec.field(default_factory=dict)
    #: a write has failed: nothing new is taken in before it has been tried again
    is_disk_full: bool = False
    #: the state that is on disk
    state_number: int = 0
    state_head: EntryId = NO_ENTRY
    #: a newer one that is being written: the write, its number and its entry
    state_write: tuple[WriteId, int, EntryId] | None = None
    #: of the log, applied since the state was last put on disk
    applied_bytes: int = 0

    #: segment, place and size of a read -> how often in a row it has failed
    unreadable: dict[tuple[int, int, int], int] = msgspec.field(default_factory=dict)
    readings: dict[ReadId, Reading] = msgspec.field(default_factory=dict)
    read_numbers: int = 0
    finished: list[FinishedRead] = msgspec.field(default_factory=list)
    given: dict[int, Given] = msgspec.field(default_factory=dict)
    #: number of a snapshot -> when it was last asked for
    given_ns: dict[int, int] = msgspec.field(default_factory=dict)
    snapshots: int = 0
    installing: Installing | None = None
    #: the epoch in which it has become what the operator wanted, in this life
    installed_epoch: Epoch = Epoch(0)
    counts: dict[str, int] = msgspec.field(default_factory=dict)

    def stop_leading(self) -> None:
        """Forget all that only a leader knows."""
        self.may_lead = False
        self.cursors = {}
        self.reconfiguring = self.committed_change = None
        self.replication_factor = 0
        self.wants_round = False
        self.given, self.given_ns = {}, {}
