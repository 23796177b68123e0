"""A clock that never repeats a value, over kill -9 and a wall clock that goes back, without a sync per tick.

The trick is a *durable bound*, written ahead of use: every value at or below it may be handed out, none
above it. An incarnation cannot know how far the one before it came, so it takes everything up to the
bound as used, and starts above. One small write covers very many ticks.

How far ahead? Up to ``clock_reserve_ms`` beyond the wall. A clock that is there already (it has just
been restarted, or the wall has gone back) reserves a piece of the *counter* beyond its last value
instead: a node that restarts a thousand times while the wall stands still would otherwise push itself,
and through its messages the whole cluster, into the future. That piece doubles with each reservation of an
incarnation, so what a crash wastes is in proportion to what has been used.

A new bound is asked for as soon as less than half of what would be reserved now is left, so that ticks
normally find their bound in place. Before the first tick nothing is reserved: a restart writes nothing.

A disk can be so slow that the wall has passed a bound before it is durable. Who waited for it would wait for
the next one, and so on for ever. So ticks then stay below the bound, and behind the wall, by up to
``clock_lag_ms_max``.

Invariants:

K1  The clock never falls: what is handed out is above all that was handed out before, in this
    incarnation or an earlier one; after an ``adopt`` it is above what was adopted.
K2  ``last <= bound``: nothing is handed out, or promised to be passed, before a bound covers it.
K3  A bound in flight is above the durable one: bounds only rise.
K4  ``counter_free`` never lets a tick past the bound.

On disk a bound is a magic with its version, the packed clock, and a checksum. The first bound comes with
its file, whole. Who needs many writes the next ones over it: they lie within one sector, which a disk
writes whole or not at all, and a sync is all it takes, where a new file would have to be named as well, ten
times a second. So the file holds one bound or the next. Anything else in it is damage, and damage is never
taken for a clock that has not ticked yet: that would hand out values a second time. Only a file that is not
there means so.

This is plain state with no effects of its own, so that another core can hold one and tick inside its
own step. After each call its holder does::

    if reservation.wants_bound and (bound := reservation.next_bound(wall_ms)) is not None:
        ...  # write the bound durably, then report it by bound_written() or bound_failed()
"""

from __future__ import annotations

import msgspec

from motet.core.clock import hlc
from motet.core.clock.hlc import END, ZERO, Clock
from motet.core.machine import Replace, Violation, Write
from motet.errors import BadRecord
from motet.format.checksum import crc32c
from motet.ids import FileName, WriteId
from motet.limits import (
    clock_counter_max,
    clock_lag_ms_max,
    clock_logical_max,
    clock_reserve_ms,
    clock_reserve_ticks,
    clock_reserve_ticks_max,
)


class Reservation(msgspec.Struct):
    """The clock of one node or shard, and how far it may go. Make one with ``recover``."""

    #: the highest value handed out or adopted; at the start of an incarnation, the bound
    last: Clock
    #: durable: everything up to here may be handed out
    bound: Clock
    #: where the wall was at the start; the first value is above it
    start: Clock
    #: the bound that is being written
    wanted: Clock | None
    #: the highest value that somebody waits for; ZERO when nobody does
    demand: Clock
    #: up to here nobody needs to think of a new bound
    quiet: Clock
    #: up to this counter a tick within the millisecond of ``last`` needs no further look
    counter_free: int
    #: how much of the counter the latest reservation of that kind took
    reserve_ticks: int
    #: the holder should write ``next_bound`` now
    wants_bound: bool
    #: the wall had passed the bound when it was durable: ticks may lag
    is_late: bool = False

    @staticmethod
    def recover(bound: Clock | None, wall_ms: int) -> Reservation:
        """A new incarnation above the durable bound; None if this clock has never ticked."""
        # A wall clock beyond the range must not lift us to its end, from where there is no way back.
        start = hlc.at_wall(wall_ms) if wall_ms <= clock_logical_max else ZERO
        floor = ZERO if bound is None else bound
        return Reservation(
            last=floor,
            bound=floor,
            start=start,
            wanted=None,
            demand=ZERO,
            quiet=floor,
            counter_free=-1,
            reserve_ticks=0,
            wants_bound=False,
        )

    # Using the clock

    @property
    def current(self) -> Clock:
        """The clock as it stands, for people and metrics; only a tick or an ``adopt`` promises anything."""
        return max(self.last, self.start)

    def drift_ms(self, wall_ms: int) -> int:
        """How far the clock is ahead of the wall; negative when it has not ticked for a while."""
        return hlc.drift_ms(self.current, wall_ms)

    def tick(self, wall_ms: int) -> Clock | None:
        """The next value, or None: it is past the bound, so ask again once a new bound is written."""
        last = self.last
        if wall_ms <= last.logical and last.counter < self.counter_free:
            self.last = clock = Clock(last.logical, last.counter + 1)
            return clock
        return self._tick_with_care(wall_ms)

    def adopt(self, found: Clock, wall_ms: int) -> Clock | None:
        """Move up to a clock that has been seen, however far ahead: whoever offers it is judged before.

        Returns the clock, which is at or above ``found`` for good, or None as ``tick`` does.
        """
        if found <= self.last:
            return self.last
        if found > self.bound:
            self._wait_for(found)
            return None
        self._raise_to(found, wall_ms)
        return found

    def _tick_with_care(self, wall_ms: int) -> Clock | None:
        clock = hlc.tick(self.current, wall_ms)
        if clock > self.bound:
            self._wait_for(clock)
            late = self._tick_late(wall_ms)
            if late is None:
                return None
            clock = late
        self._raise_to(clock, wall_ms)
        return clock

    def _tick_late(self, wall_ms: int) -> Clock | None:
        """A value below the bound that lags behind the wall, if the disk is slow and there is one."""
        bound_ms = self.bound.logical
        if not self.is_late or not 0 < wall_ms - bound_ms <= clock_lag_ms_max:
            return None
        clock = hlc.tick(self.current, bound_ms)
        return clock if clock <= self.bound else None

    def _wait_for(self, clock: Clock) -> None:
        self.demand = max(self.demand, clock)
        self.wants_bound = self.wanted is None

    def _raise_to(self, clock: Clock, wall_ms: int) -> None:
        assert self.last <= clock <= self.bound, "K1, K2"
        self.last = clock
        if self.wanted is None and clock > self.quiet:
            if self._is_low(wall_ms):
                self.wants_bound = True
            else:
                # The wall has gone back since the bound was set, and there is plenty left: look again
                # when half of that is used, not at every tick.
                self.quiet = hlc.plus(clock, hlc.ticks_between(clock, self.bound) // 2)
        self._set_counter_free()

    def _set_counter_free(self) -> None:
        limit = self.quiet if self.wanted is None else self.bound
        if limit.logical > self.last.logical:
            self.counter_free = clock_counter_max
        elif limit.logical == self.last.logical:
            self.counter_free = limit.counter
        else:
            self.counter_free = -1

    # Moving the bound

    def next_bound(self, wall_ms: int) -> Clock | None:
        """The next bound, for the holder to write; None if one is in flight or none is needed."""
        self.wants_bound = False
        if self.wanted is not None:
            return None
        doubled = min(max(clock_reserve_ticks, 2 * self.reserve_ticks), clock_reserve_ticks_max)
        bound = self._target(wall_ms, doubled)
        if bound <= self.bound:
            return None  # the wall has gone back since a bound was asked for
        if bound > _target_of_wall(wall_ms):
            self.reserve_ticks = doubled
        self.wanted = bound
        self._set_counter_free()
        return bound

    def bound_written(self, wall_ms: int) -> None:
        """The bound in flight is durable, now that the wall stands here."""
        assert self.wanted is not None, "no bound is in flight"
        self.bound, self.wanted = self.wanted, None
        self.is_late = wall_ms > self.bound.logical
        # The start has never been handed out, but from here on it is covered: fold it in.
        self.last = max(self.last, self.start)
        self.quiet = hlc.plus(self.last, hlc.ticks_between(self.last, self.bound) // 2)
        if self.demand <= self.bound:
            self.demand = ZERO
        self.wants_bound = self.demand > self.bound
        self._set_counter_free()

    def bound_failed(self) -> None:
        """The bound in flight was not written, and whoever waits for it is told so by the holder."""
        assert self.wanted is not None, "no bound is in flight"
        self.wanted = None
        self.demand = ZERO
        # Trying again early would only knock at a full disk with every tick: wait until it is needed.
        self.quiet = self.bound
        self._set_counter_free()

    def _is_low(self, wall_ms: int) -> bool:
        """Whether less than half is left of what would be reserved now."""
        target = self._target(wall_ms, max(clock_reserve_ticks, self.reserve_ticks))
        left = hlc.ticks_between(self.last, self.bound)
        return 2 * left < hlc.ticks_between(self.last, target)

    def _target(self, wall_ms: int, ticks: int) -> Clock:
        position = max(self.last, self.start, self.demand)
        return max(_target_of_wall(wall_ms), hlc.plus(position, ticks))

    def invariants(self) -> list[Violation]:
        """What does not hold; K1 over incarnations is for whoever sees all values."""
        found = []
        if self.last > self.bound:
            found.append(Violation("K2", f"last {self.last} is above the bound {self.bound}"))
        if self.wanted is not None and self.wanted <= self.bound:
            found.append(Violation("K3", f"{self.wanted} would replace the bound {self.bound}"))
        if Clock(self.last.logical, max(self.counter_free, 0)) > max(self.bound, self.last):
            found.append(Violation("K4", f"{self.counter_free} lets ticks past {self.bound}"))
        return found


def _target_of_wall(wall_ms: int) -> Clock:
    """``clock_reserve_ms`` from the wall on; nothing if the wall is beyond the range of clocks."""
    if wall_ms > clock_logical_max:
        return ZERO
    last_ms = wall_ms + clock_reserve_ms - 1
    return END if last_ms > clock_logical_max else Clock(max(last_ms, 0), clock_counter_max)


MAGIC = b"MOTCLK\x00\x01"
PACKED_BYTES = 8
CHECKSUM_BYTES = 4
BOUND_FILE_BYTES = len(MAGIC) + PACKED_BYTES + CHECKSUM_BYTES


def bound_change(write: WriteId, file: FileName, durable: Clock, bound: Clock) -> Replace | Write:
    """What makes a bound durable, where this one is already; zero is none."""
    data = encode_bound(bound)
    return Replace(write, file, data) if durable == ZERO else Write(write, file, 0, data)


def encode_bound(bound: Clock) -> bytes:
    assert bound.is_in_range, "a bound that cannot be read back"
    payload = MAGIC + bound.to_int().to_bytes(PACKED_BYTES, "big")
    return payload + _checksum(payload)


def decode_bound(data: bytes) -> Clock:
    """The bound in these bytes, or ``BadRecord``."""
    if len(data) != BOUND_FILE_BYTES:
        raise BadRecord(f"a clock bound is {BOUND_FILE_BYTES} bytes long, and this is not")
    payload, checksum = data[:-CHECKSUM_BYTES], data[-CHECKSUM_BYTES:]
    if checksum != _checksum(payload):
        raise BadRecord("the checksum of the clock bound does not fit its bytes")
    if not payload.startswith(MAGIC):
        raise BadRecord("these bytes are not a clock bound of this version")
    return Clock.from_int(int.from_bytes(payload[len(MAGIC) :], "big"))


def _checksum(payload: bytes) -> bytes:
    return crc32c(payload).to_bytes(CHECKSUM_BYTES, "big")
