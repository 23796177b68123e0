"""The state of the streams machine, and the small steps that more than one of its files takes."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.clock.reservation import Reservation
from motet.core.machine import Effect, Note, Read, Send, SetTimer
from motet.core.streams.index import Index
from motet.core.streams.log import LogEnd
from motet.core.streams.messages import ReadVisible, StreamsRefused, VisibleIs
from motet.core.streams.overlay import Overlay
from motet.core.streams.plan import LogWrite
from motet.core.streams.reading import Reading
from motet.core.streams.record import LogRecord
from motet.core.streams.recovery import Recovery
from motet.errors import MotetError
from motet.ids import Address, FileName, ReadId, RequestId, TimerName, WriteId

RETRY_TIMER = TimerName("streams-retry")
retry_ms = 200
"""How long a node waits before it asks a disk again that could not read what it needs to start."""


class Phase(StrEnum):
    """Where the machine is in its life; see :mod:`motet.core.streams.recovery`."""

    IDENTIFYING = "identifying"
    FOUNDING = "founding"
    READING = "reading"
    CUTTING = "cutting"
    SERVING = "serving"
    BROKEN = "broken"


class Waiting(msgspec.Struct, frozen=True):
    """A request that wants to write and waits for a clock, or for the disk to be cleaned up."""

    client: Address
    message: LogWrite
    wall_ms: int


class VisibleWaiter(msgspec.Struct, frozen=True):
    """Somebody who waits for the visible clock to reach a value."""

    client: Address
    message: ReadVisible
    target: Clock


class Answer(msgspec.Struct, frozen=True):
    """Who is told what, and for which request."""

    request: RequestId
    send: Send


class Pending(msgspec.Struct):
    """A record on its way to the disk, and who is to be told."""

    write: WriteId
    record: LogRecord
    position: int
    size_bytes: int
    sequence: int
    answers: list[Answer]
    #: None while it is under way
    is_durable: bool | None = None


class State(msgspec.Struct):
    """All there is to the streams of a node."""

    end: LogEnd
    phase: Phase = Phase.IDENTIFYING
    index: Index = msgspec.field(default_factory=Index)
    overlay: Overlay = msgspec.field(default_factory=Overlay)
    clock: Reservation = msgspec.field(default_factory=lambda: Reservation.recover(None, 0))
    recovery: Recovery | None = None
    #: oldest first: these have no clock yet
    waiting: list[Waiting] = msgspec.field(default_factory=list)
    #: oldest first: in the log, not all durable
    pending: list[Pending] = msgspec.field(default_factory=list)
    #: changes to the disk that must be done before the log goes on
    cleaning: list[WriteId] = msgspec.field(default_factory=list)
    #: the last file that is there, while what is behind the end of the log is removed
    cutting: int = 0
    #: the first record of the newest file, until it is durable
    segment_write: WriteId | None = None
    #: one of the pending did not get onto the disk: they are cleared away when all have ended
    has_failed: bool = False
    bound_write: WriteId | None = None
    readings: dict[ReadId, Reading] = msgspec.field(default_factory=dict)
    visible_waiters: list[VisibleWaiter] = msgspec.field(default_factory=list)
    writes: int = 0
    reads: int = 0
    #: the read that the start waits for, and of which file
    start_read: ReadId | None = None
    start_file: FileName = FileName("")
    #: why nothing is served
    broken: tuple[str, str, str] | None = None
    #: the highest visible clock anybody was told (S2)
    told_visible: Clock = ZERO
    #: fresh randomness of this incarnation; a new database is named by it
    nonce: int = 0

    def read_id(self) -> ReadId:
        """A fresh number for a read."""
        self.reads += 1
        return ReadId(self.reads)

    def read_to_start(self, file: FileName) -> Read:
        """Read a whole file that the start depends on."""
        self.start_file, self.start_read = file, self.read_id()
        return Read(self.start_read, file)

    def retry_start(self, file: FileName) -> SetTimer:
        """Read this file again in a moment, and go on from there."""
        self.start_file = file
        return SetTimer(RETRY_TIMER, retry_ms)

    def write_id(self) -> WriteId:
        """A fresh number for a change to the disk."""
        self.writes += 1
        return WriteId(self.writes)

    def cleaning_id(self) -> WriteId:
        """The same, for a change that must be durable before the log goes on."""
        write = self.write_id()
        self.cleaning.append(write)
        return write

    def is_held(self) -> bool:
        """Whether the log cannot go on before something has happened on the disk."""
        return bool(self.cleaning) or self.has_failed or self.segment_write is not None

    def visible(self) -> Clock:
        """No change at or below this clock will appear any more."""
        if not self.pending:
            return self.clock.last
        return Clock.from_int(self.pending[0].record.clock.to_int() - 1)

    def tell_visible(self) -> Clock:
        """The visible clock, about to be told to somebody."""
        visible = self.visible()
        assert visible >= self.told_visible, "S2: the visible clock never falls"
        self.told_visible = visible
        return visible

    def serve_visible(self) -> list[Effect]:
        """Answer those for whom the visible clock is high enough now."""
        if not self.visible_waiters:
            return []
        visible = self.tell_visible()
        ready = [each for each in self.visible_waiters if each.target <= visible]
        self.visible_waiters = [each for each in self.visible_waiters if each.target > visible]
        return [Send(each.client, VisibleIs(each.message.request, visible)) for each in ready]

    def break_down(self, error: MotetError) -> list[Effect]:
        """Serve nothing any more: what is on disk is damaged, or cannot be told."""
        self.phase = Phase.BROKEN
        self.broken = (error.code, error.what, error.advice)
        waiting, self.waiting = self.waiting, []
        refusals = [refusal(each.client, each.message.request, error) for each in waiting]
        return [Note("streams_broken", f"{error.code} {error.what}"), *refusals]


def refusal(client: Address, request: RequestId, error: MotetError) -> Send:
    """The answer to a request that was not done."""
    return Send(client, StreamsRefused(request, error.code, error.what, error.advice))
