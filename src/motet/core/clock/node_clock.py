"""The clock of a data node: above everything it has seen, and never repeated over a crash.

What a client or a peer says it has seen is adopted before the next entry gets its clock; so an entry that
was caused by another has a higher clock, whichever shards they are in. The bound of the clock is written
ahead of use (:mod:`motet.core.clock.reservation`); an append that comes before it is durable waits.

The wall of this clock is the time that a majority of the nodes agrees on
(:mod:`motet.core.clock.node_time`).

Q1  Whatever comes with a clock that is more than the drift bound ahead of that time is refused: a request
    here, the message of a leader in :mod:`motet.core.shardlog`. What is refused changes nothing.
Q2  What is found on disk at a start has happened, however far ahead it is. The node says so to the operator,
    which tells all others; then nobody refuses it, and everybody counts on from there. So a cluster whose
    logs are ahead of the time goes on at once, and does not wait for the time to come.

A bound that is not there is that of a clock that has never ticked. One that is damaged or cannot be read is
not: it might be above everything, so such a node hands out no clock, and says what is wrong and what to do.

K5  A bound is in flight exactly when a write is (K1 to K4 are those of the reservation).
"""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import ZERO, Clock, drift_ms
from motet.core.clock.reservation import Reservation, bound_change, decode_bound
from motet.core.machine import DiskChange, Effect, Note, Violation
from motet.errors import BadRecord, ClockDrift, DiskReadFailed
from motet.ids import FileName, WriteId
from motet.limits import clock_drift_ms_max, clock_reserve_ms

BOUND_FILE = FileName("clock-bound")

WITHOUT_BOUND = (
    "keep the file; put back a copy that was made after the node last ran, or one that names a clock "
    "above all that any node has handed out, and start the node again"
)
"""What to do when the bound is damaged or cannot be read."""


class DataClock(msgspec.Struct):
    """The clock and what it waits for."""

    reservation: Reservation | None = None
    #: the bound that is on its way to the disk
    write: WriteId | None = None
    #: the highest clock that was found on disk, here or at another node (Q2)
    found: Clock = ZERO
    #: the time is known: clocks can be given out
    has_time: bool = True

    def recover(self, data: bytes, wall_ms: int) -> None:
        """Begin an incarnation with what the file says; ``BadRecord`` when it is damaged."""
        try:
            bound = decode_bound(data) if data else None
        except BadRecord as error:
            raise BadRecord(f"{BOUND_FILE} is damaged: {error.what}", hint=WITHOUT_BOUND) from None
        self.reservation = Reservation.recover(bound, wall_ms)
        self.find(bound or ZERO)

    def find(self, found: Clock) -> None:
        """A clock is on somebody's disk."""
        self.found = max(self.found, found)

    def ceiling_ms(self, wall_ms: int) -> int:
        """Clocks of others beyond this are too far ahead (Q1, Q2)."""
        return max(wall_ms, self.found.logical) + clock_drift_ms_max

    def bound_ahead_ms(self, wall_ms: int) -> int | None:
        """How far the bound is ahead of the wall, if that is further than any clock reserves; else None."""
        ahead_ms = 0 if self.reservation is None else drift_ms(self.reservation.bound, wall_ms)
        return ahead_ms if ahead_ms > clock_reserve_ms else None

    def found_ahead(self, wall_ms: int) -> Clock:
        """What was found, if it is too far ahead of the time for others; else zero."""
        return self.found if drift_ms(self.found, wall_ms) > clock_drift_ms_max else ZERO

    @property
    def current(self) -> Clock:
        return ZERO if self.reservation is None else self.reservation.current

    @property
    def wants_bound(self) -> bool:
        reservation = self.reservation
        return reservation is not None and reservation.wants_bound and self.write is None

    def check(self, offered: Clock, wall_ms: int) -> None:
        """``ClockDrift`` for a clock from outside that is too far ahead of the time."""
        if offered.logical > self.ceiling_ms(wall_ms) and offered > self.current:
            ahead_ms = drift_ms(offered, wall_ms)
            raise ClockDrift(
                f"{offered} is {ahead_ms} ms ahead of the cluster's time, the limit is {clock_drift_ms_max}",
                hint="`motet status` shows the node whose wall clock is wrong; set it right",
            )

    def tick_above(self, floor: Clock, wall_ms: int) -> Clock | None:
        """The next clock, above everything seen; None: there is none before a bound is durable.

        Nor is there one before the time is known.
        """
        reservation = self.reservation
        if reservation is None or not self.has_time:
            return None
        if floor > reservation.last and reservation.adopt(floor, wall_ms) is None:
            return None
        return reservation.tick(wall_ms)

    def bound_to_write(self, write: WriteId, wall_ms: int) -> DiskChange | None:
        """What has to be written next, if anything."""
        assert self.reservation is not None
        bound = self.reservation.next_bound(wall_ms)
        if bound is None:
            return None
        self.write = write
        return bound_change(write, BOUND_FILE, self.reservation.bound, bound)

    def written(self, wall_ms: int, *, is_durable: bool) -> None:
        """The bound is on disk, or the disk was full."""
        assert self.reservation is not None
        self.write = None
        if is_durable:
            self.reservation.bound_written(wall_ms)
        else:
            self.reservation.bound_failed()

    def invariants(self) -> list[Violation]:
        reservation = self.reservation
        if reservation is None:
            return []
        found = reservation.invariants()
        if (self.write is None) != (reservation.wanted is None):
            what = f"write {self.write} and bound {reservation.wanted} in flight"
            found.append(Violation("K5", what))
        return found


def drifted_backwards(clock: DataClock, wall_ms: int) -> list[Effect]:
    """Say so when the wall has gone back, or was wrong before: the clock starts far ahead of it."""
    ahead_ms = clock.bound_ahead_ms(wall_ms)
    if ahead_ms is None:
        return []
    detail = f"bound {clock.current} wall {wall_ms} ahead_ms {ahead_ms}"
    return [Note("clock_drifted_backwards", detail)]


def unreadable(why: str) -> DiskReadFailed:
    """The bound is there, and cannot be read."""
    return DiskReadFailed(f"{BOUND_FILE} cannot be read: {why}", hint=WITHOUT_BOUND)
