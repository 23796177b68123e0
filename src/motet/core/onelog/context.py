"""What the steps of the streams machine share: its state, and its log with the index that is folded from it.

The log is one shard of the replicated shard log (:mod:`motet.core.shardlog`), an ensemble of one: this
process.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from motet.core.clock.hlc import ZERO, Clock, plus
from motet.core.clock.reservation import Reservation
from motet.core.machine import Effect, Note, Read, Send, SetTimer
from motet.core.onelog.index import Index
from motet.core.onelog.messages import ReadVisible, StreamsRefused, VisibleIs
from motet.core.onelog.overlay import Overlay
from motet.core.onelog.plan import LogWrite
from motet.core.onelog.reading import PageReading
from motet.core.onelog.record import CompactedChange, LogRecord
from motet.core.shardlog.context import ShardlogConfig
from motet.core.shardlog.replica import ShardReplica
from motet.core.shardlog.shards import Shards
from motet.errors import MotetError
from motet.ids import (
    Address,
    FileName,
    LogName,
    NodeId,
    Offset,
    ReadId,
    RequestId,
    ShardName,
    TimerName,
    TransactionId,
    WriteId,
)

RETRY_TIMER = TimerName("streams-retry")
retry_ms = 200
"""How long a node waits before it asks a disk again that could not do what it needs to start."""

HOLD_TIMER = TimerName("streams-hold")
"""A transaction whose clock is fixed has had its time."""


class Phase(StrEnum):
    """Where the machine is in its life; see :mod:`motet.core.onelog.starting`."""

    IDENTIFYING = "identifying"
    FOUNDING = "founding"
    READING = "reading"
    SERVING = "serving"
    BROKEN = "broken"


class WaitingRequest(msgspec.Struct, frozen=True):
    """A request that wants to write and waits for a clock, or for room in the log."""

    client: Address
    message: LogWrite
    wall_ms: int


class VisibleWaiter(msgspec.Struct, frozen=True):
    """Somebody who waits for the visible clock to reach a value."""

    client: Address
    message: ReadVisible
    target: Clock


class DueAnswer(msgspec.Struct, frozen=True):
    """Who is told what, and for which request."""

    request: RequestId
    send: Send


class PendingRecord(msgspec.Struct):
    """A record that is in the log and not durable yet, and who is to be told."""

    #: of its entry
    offset: Offset
    record: LogRecord
    answers: list[DueAnswer]


class Held(msgspec.Struct, frozen=True):
    """A transaction whose clock is fixed; see :mod:`motet.core.onelog.writing`."""

    transaction: TransactionId
    clock: Clock
    #: None: it changes nothing
    record: LogRecord | None
    #: then it is given up
    until_ns: int


class Clearing(msgspec.Struct):
    """Whole files of the log are given back; see :mod:`motet.core.onelog.clearing`."""

    #: the first record that is kept
    until: int
    #: rising: these hold the latest change of a key, and are before that
    holding: list[int]
    #: what the log reads of them now, by its number
    reading: int | None = None
    #: read, and not written once more yet
    compaction: list[CompactedChange] = msgspec.field(default_factory=list)
    #: a record that carries some of them is under way
    is_compacting: bool = False
    #: all of them are carried, and the index is being put on disk without what goes
    is_trimming: bool = False
    #: why nothing more can be done about it now
    failure: str | None = None


class State(msgspec.Struct):
    """All there is to the streams of a node but their log."""

    phase: Phase = Phase.IDENTIFYING
    #: fresh randomness of this incarnation; a new database is named by it
    nonce: int = 0
    #: the number of the database; 0 before it is known
    database: int = 0
    #: what the file of the bound said at the start
    bound: Clock | None = None
    clock: Reservation = msgspec.field(default_factory=lambda: Reservation.recover(None, 0))
    overlay: Overlay = msgspec.field(default_factory=Overlay)
    #: oldest first: these have no clock yet
    waiting: list[WaitingRequest] = msgspec.field(default_factory=list)
    #: oldest first: in the log, not durable
    pending: list[PendingRecord] = msgspec.field(default_factory=list)
    #: nobody else writes before this one is decided
    held: Held | None = None
    #: the log takes nothing, and it is being found out whether there is room again
    is_room_sought: bool = False
    #: the files of the log when one was last begun
    segments: int = 0
    bound_write: WriteId | None = None
    identity_write: WriteId | None = None
    #: what the log reads for readers, by its number
    readings: dict[int, PageReading] = msgspec.field(default_factory=dict)
    visible_waiters: list[VisibleWaiter] = msgspec.field(default_factory=list)
    #: the read that the start waits for, and of which file
    start_read: ReadId | None = None
    start_file: FileName = FileName("")
    #: the log was told to lead in this incarnation, and what comes of that shows
    has_elected: bool = False
    is_retry_set: bool = False
    clearing: Clearing | None = None
    #: something was pruned that has not been looked at for files to give back, and who is to be told
    is_clearing_due: bool = False
    cleared_for: list[DueAnswer] = msgspec.field(default_factory=list)
    #: why nothing is served
    broken: tuple[str, str, str] | None = None
    #: the highest visible clock anybody was told (S2)
    told_visible: Clock = ZERO


DATABASE = LogName(ShardName("database"))
"""The one shard that a database has for all of its streams."""

OWN = NodeId("database")
index_step_bytes = 4096
"""The place of an entry is known this well: what is read in vain to find one."""

never = 1 << 62


def log_config(segment_bytes: int, tail_bytes_max: int) -> ShardlogConfig:
    """How the log of a database behaves: it is alone, and puts no state on disk until it is to be trimmed.

    A start folds the whole log into the index, as it has to read all of it anyway.
    """
    return ShardlogConfig(
        segment_bytes=segment_bytes,
        index_step_bytes=min(index_step_bytes, segment_bytes // 4),
        tail_bytes_max=tail_bytes_max,
        snapshot_every_bytes=never,
        beat_ms=0,
        unreadable_max=never,
        is_alone=True,
    )


class Core:
    """The machine while it takes a step."""

    __slots__ = ("_index", "shards", "state")

    def __init__(self, config: ShardlogConfig) -> None:
        self.state = State()
        self.shards = Shards(OWN, config, lambda _shard: Index())
        self._index = Index()

    @property
    def replica(self) -> ShardReplica | None:
        """The log; None before it is known whether there is one."""
        return self.shards.replica(DATABASE)

    @property
    def log(self) -> ShardReplica:
        """The log of a database that is served."""
        replica = self.shards.replica(DATABASE)
        assert replica is not None, "a database that is served has a log"
        return replica

    @property
    def index(self) -> Index:
        """What the log says, as far as it is durable."""
        replica = self.shards.replica(DATABASE)
        if replica is None:
            return self._index
        machine = replica.machine
        assert isinstance(machine, Index)
        return machine

    # Starting

    def read_to_start(self, file: FileName) -> Read:
        """Read a whole file that the start depends on."""
        state = self.state
        state.start_file, state.start_read = file, self.shards.new_read()
        return Read(state.start_read, file)

    def retry(self) -> list[Effect]:
        """Try in a moment what the start depends on and could not be done."""
        if self.state.is_retry_set:
            return []
        self.state.is_retry_set = True
        return [SetTimer(RETRY_TIMER, retry_ms)]

    # The visible clock

    def visible(self) -> Clock:
        """No change at or below this clock will appear any more."""
        state = self.state
        if state.pending:
            return plus(state.pending[0].record.clock, -1)
        return state.clock.last if state.held is None else plus(state.held.clock, -1)

    def tell_visible(self) -> Clock:
        """The visible clock, about to be told to somebody."""
        visible = self.visible()
        assert visible >= self.state.told_visible, "S2: the visible clock never falls"
        self.state.told_visible = visible
        return visible

    def serve_visible(self) -> list[Effect]:
        """Answer those for whom the visible clock is high enough now."""
        waiters = self.state.visible_waiters
        if not waiters:
            return []
        visible = self.tell_visible()
        ready = [each for each in waiters if each.target <= visible]
        self.state.visible_waiters = [each for each in waiters if each.target > visible]
        return [Send(each.client, VisibleIs(each.message.request, visible)) for each in ready]

    # Trouble

    def break_down(self, error: MotetError) -> list[Effect]:
        """Serve nothing any more: what is on disk is damaged, or cannot be told."""
        self.state.phase = Phase.BROKEN
        self.state.broken = (error.code, error.what, error.advice)
        return [Note("streams_broken", f"{error.code} {error.what}")]


def refusal(client: Address, request: RequestId, error: MotetError) -> Send:
    """The answer to a request that was not done."""
    return Send(client, StreamsRefused(request, error.code, error.what, error.advice))
