"""The clock of one node as a machine: requests in, answers out, the bound on disk.

It starts by reading its bound. A file that is not there is a clock that has never ticked, and starts at
the wall. A file that is damaged or cannot be read is not: such a clock is *broken*, answers every
request with what is wrong and what to do, and hands out nothing, because it might hand it out twice.

A tick or an adjust past the bound waits for the new bound's write. The queue of those that wait has a
length, and a full queue says so. When the write fails, those that wait are refused, and the clock stays
where it is.

A waiting tick is served with the wall time at which it came in. It was asked for then, and so a disk
slower than the wall (each bound would be passed before it is written) delays ticks but does not starve
them.

Invariants, with those of ``reservation`` (K1 to K4):

K1  What was promised to anybody is at or below ``last``.
K5  Somebody waits only while a bound is being written, or the old one is being read; and no more than
    ``clock_waiting_max`` of them.
K6  A bound is in flight exactly when a write is.
K7  A broken clock has promised nothing, and nobody waits for it.
"""

from __future__ import annotations

from typing import Literal, Self

import msgspec

from motet.core import fingerprint
from motet.core.clock.bound_file import BOUND_FILE_BYTES, decode_bound, encode_bound
from motet.core.clock.hlc import ZERO, Clock
from motet.core.clock.messages import (
    Adjust,
    Adjusted,
    Adopt,
    ClockIs,
    ClockRefused,
    ClockRequest,
    ReadClock,
    Tick,
    Ticked,
)
from motet.core.clock.reservation import Reservation
from motet.core.machine import (
    Effect,
    Event,
    Note,
    Read,
    ReadBack,
    ReadFailed,
    Received,
    Replace,
    Send,
    Started,
    Violation,
    WriteFailed,
    Written,
)
from motet.errors import (
    BadClock,
    BadInput,
    BadRecord,
    ClockBusy,
    ClockDrift,
    ClockExhausted,
    DiskFull,
    DiskReadFailed,
    MotetError,
)
from motet.ids import Address, FileName, NodeId, ReadId, RequestId, WriteId
from motet.limits import clock_waiting_max

BOUND_FILE = FileName("clock-bound")

_FIRST_READ = ReadId(0)

_WHAT_TO_DO_WHEN_BROKEN = (
    "keep the file; put back a copy that was made after the node last ran, or one that names a clock "
    "above all that any node has handed out, and start the node again"
)

Phase = Literal["new", "reading", "serving", "broken"]


class Waiting(msgspec.Struct, frozen=True):
    """A request that could not be answered yet."""

    sender: Address
    message: ClockRequest
    #: the wall when it came in
    wall_ms: int


class NodeClock(msgspec.Struct):
    """The clock of ``node``."""

    node: NodeId
    phase: Phase = "new"
    #: means something only while serving
    reservation: Reservation = msgspec.field(default_factory=lambda: Reservation.recover(None, 0))
    #: in the order in which they came in
    waiting: list[Waiting] = msgspec.field(default_factory=list)
    #: the write of the bound in flight
    writing: WriteId | None = None
    writes: int = 0
    #: the highest clock that anybody was told to rely on in this incarnation
    promised: Clock = ZERO
    #: why the clock is broken
    broken: tuple[str, str] | None = None

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Received):
            return self._on_received(event)
        if isinstance(event, Written):
            return self._on_written(event)
        if isinstance(event, Started):
            return self._on_started()
        if isinstance(event, ReadBack):
            return self._on_read_back(event)
        if isinstance(event, ReadFailed):
            return self._break(DiskReadFailed.code, f"{BOUND_FILE} cannot be read: {event.why}")
        if isinstance(event, WriteFailed):
            return self._on_write_failed(event)
        return []  # no timers run here

    def clone(self) -> Self:
        return fingerprint.clone_plain(self)

    def fingerprint(self) -> bytes:
        return fingerprint.fingerprint(self)

    def drift_ms(self, wall_ms: int) -> int:
        """How far the clock is ahead of the wall; 0 while it does not serve."""
        return self.reservation.drift_ms(wall_ms) if self.phase == "serving" else 0

    # Starting

    def _on_started(self) -> list[Effect]:
        assert self.phase == "new", "an incarnation starts once"
        self.phase = "reading"
        # One byte more than there should be, so that a file that is too long is noticed.
        return [Read(_FIRST_READ, BOUND_FILE, size_bytes=BOUND_FILE_BYTES + 1)]

    def _on_read_back(self, event: ReadBack) -> list[Effect]:
        assert self.phase == "reading", "the bound is read once"
        try:
            bound = decode_bound(event.data) if event.data else None
        except BadRecord as error:
            return self._break(error.code, f"{BOUND_FILE} is damaged: {error.what}")
        wall_ms = event.now.wall_ms
        self.phase = "serving"
        self.reservation = Reservation.recover(bound, wall_ms)
        effects: list[Effect] = []
        if bound is not None and bound > self.reservation.start:
            detail = f"bound {bound} wall {wall_ms} ahead_ms {bound.logical - wall_ms}"
            effects.append(Note("clock_drifted_backwards", detail))
        return effects + self._serve_waiting(wall_ms)

    def _break(self, code: str, what: str) -> list[Effect]:
        assert self.phase == "reading", "only a bound that was read can be bad"
        self.phase = "broken"
        self.broken = (code, what)
        waiting, self.waiting = self.waiting, []
        refusals = [self._answer_broken(w.sender, w.message.request) for w in waiting]
        return [Note("clock_broken", f"{code} {what}"), *refusals]

    def _answer_broken(self, sender: Address, request: RequestId) -> Send:
        assert self.broken is not None, "K7"
        code, what = self.broken
        return Send(sender, ClockRefused(request, code, what, _WHAT_TO_DO_WHEN_BROKEN))

    # Requests

    def _on_received(self, event: Received) -> list[Effect]:
        message, sender, wall_ms = event.message, event.sender, event.now.wall_ms
        if not isinstance(message, ClockRequest):
            return [Note("clock_ignored", type(message).__name__)]
        if self.phase == "broken":
            return [self._answer_broken(sender, message.request)]
        if len(self.waiting) >= clock_waiting_max and self._may_wait(message):
            busy = ClockBusy(f"{len(self.waiting)} requests wait for the clock already")
            return [_refuse(sender, message.request, busy)]
        answer = self._answer(sender, message, wall_ms) if self.phase == "serving" else None
        if answer is None:
            self.waiting.append(Waiting(sender, message, wall_ms))
            return self._reserve(wall_ms)
        if self.reservation.wants_bound:
            return [answer, *self._reserve(wall_ms)]
        return [answer]

    def _may_wait(self, message: ClockRequest) -> bool:
        return self.phase == "reading" or not isinstance(message, ReadClock)

    def _answer(self, sender: Address, message: ClockRequest, wall_ms: int) -> Send | None:
        """The answer, or None if it has to wait for a bound."""
        try:
            if isinstance(message, Tick):
                clock = self.reservation.tick(wall_ms)
                if clock is None:
                    return None
                self.promised = clock
                return Send(sender, Ticked(message.request, clock))
            if isinstance(message, Adjust | Adopt):
                return self._answer_raise(sender, message, wall_ms)
        except (ClockDrift, ClockExhausted, BadInput) as error:
            return _refuse(sender, message.request, error)
        assert isinstance(message, ReadClock), "every request has its branch"
        return Send(sender, self._reading(message.request, wall_ms))

    def _answer_raise(self, sender: Address, message: Adjust | Adopt, wall_ms: int) -> Send | None:
        if not message.clock.is_in_range:
            raise BadClock(f"{message.clock} is outside the range of clocks")
        if isinstance(message, Adjust):
            clock = self.reservation.adjust(message.clock, wall_ms)
        elif sender == Address(self.node):
            clock = self.reservation.adopt(message.clock, wall_ms)
        else:
            raise BadInput(
                f"{sender} cannot have found a clock in the log of {self.node}",
                hint="offer it by Adjust",
            )
        if clock is None:
            return None
        self.promised = max(self.promised, clock)
        return Send(sender, Adjusted(message.request, clock))

    def _reading(self, request: RequestId, wall_ms: int) -> ClockIs:
        clocks = self.reservation
        return ClockIs(request, clocks.current, clocks.drift_ms(wall_ms), clocks.bound)

    # The bound

    def _reserve(self, wall_ms: int) -> list[Effect]:
        if self.phase != "serving" or not self.reservation.wants_bound:
            return []
        bound = self.reservation.next_bound(wall_ms)
        if bound is None:
            return []
        assert self.writing is None, "K6"
        self.writing = WriteId(self.writes)
        self.writes += 1
        return [Replace(self.writing, BOUND_FILE, encode_bound(bound))]

    def _on_written(self, event: Written) -> list[Effect]:
        assert event.write == self.writing, "K6"
        self.writing = None
        self.reservation.bound_written(0)  # who waits is served by the wall that it asked at
        return self._serve_waiting(event.now.wall_ms)

    def _on_write_failed(self, event: WriteFailed) -> list[Effect]:
        assert event.write == self.writing, "K6"
        self.writing = None
        self.reservation.bound_failed()
        waiting, self.waiting = self.waiting, []
        full = DiskFull(f"the bound of the clock could not be written: {event.why}")
        refusals = [_refuse(w.sender, w.message.request, full) for w in waiting]
        return [Note("clock_bound_failed", event.why), *refusals]

    def _serve_waiting(self, wall_ms: int) -> list[Effect]:
        waiting, self.waiting = self.waiting, []
        effects: list[Effect] = []
        for w in waiting:
            answer = self._answer(w.sender, w.message, w.wall_ms)
            if answer is None:
                self.waiting.append(w)
            else:
                effects.append(answer)
        return effects + self._reserve(wall_ms)

    def invariants(self) -> list[Violation]:
        found = self.reservation.invariants()
        if self.phase == "serving" and self.promised > self.reservation.last:
            what = f"promised {self.promised}, and now at {self.reservation.last}"
            found.append(Violation("K1", what))
        is_pending = self.phase == "reading" or self.writing is not None
        if (self.waiting and not is_pending) or len(self.waiting) > clock_waiting_max:
            found.append(Violation("K5", f"{len(self.waiting)} wait while {self.phase}"))
        if (self.writing is None) != (self.reservation.wanted is None):
            what = f"write {self.writing} and bound {self.reservation.wanted} in flight"
            found.append(Violation("K6", what))
        if self.phase == "broken" and (self.waiting or self.promised != ZERO):
            found.append(Violation("K7", f"promised {self.promised} while broken"))
        return found


def _refuse(sender: Address, request: RequestId, error: MotetError) -> Send:
    return Send(sender, ClockRefused(request, error.code, error.what, error.advice))
