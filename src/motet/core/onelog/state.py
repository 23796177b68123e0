"""The state of the streams machine besides its log and its index, as plain data."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.clock.reservation import Reservation
from motet.core.machine import Send
from motet.core.onelog.messages import ReadVisible
from motet.core.onelog.overlay import Overlay
from motet.core.onelog.plan import LogWrite
from motet.core.onelog.reading import PageReading
from motet.core.onelog.record import CompactedChange, LogRecord
from motet.ids import (
    Address,
    FileName,
    Offset,
    ReadId,
    RequestId,
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
