"""Hybrid logical clock values, and the arithmetic on them: pure functions, no state.

A clock is a pair: 42 bits of milliseconds since 1970 and 22 bits of counter. It is compared by its
milliseconds, then by its counter. A tick is one step up, or the wall clock when that is higher; so a
clock stays near the wall time, and what was caused has a higher clock than its cause.

A full counter carries into the milliseconds. The end of the range is ``ClockExhausted``, never a wrap.

A value that comes in from outside is checked on its way in: ``parse``, ``from_int`` and the decoder
refuse what does not fit. Building one inside checks nothing, because ticks have to be quick.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

import msgspec

from motet.errors import BadClock, ClockExhausted
from motet.limits import clock_counter_max, clock_logical_max

COUNTER_BITS = clock_counter_max.bit_length()
PACKED_MAX = (clock_logical_max << COUNTER_BITS) | clock_counter_max

# Digits are bounded, so that a text of a million of them costs nothing.
_TEXT = re.compile(r"\( *([0-9]{1,13}), *([0-9]{1,7})\)")


class Clock(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """One clock value; prints as ``(logical,counter)``."""

    #: milliseconds since 1970
    logical: Annotated[int, msgspec.Meta(ge=0, le=clock_logical_max)]
    #: events within that millisecond
    counter: Annotated[int, msgspec.Meta(ge=0, le=clock_counter_max)]

    def __str__(self) -> str:
        return f"({self.logical},{self.counter})"

    @property
    def is_in_range(self) -> bool:
        return 0 <= self.logical <= clock_logical_max and 0 <= self.counter <= clock_counter_max

    def to_int(self) -> int:
        """Packed into 64 unsigned bits, in the same order."""
        return (self.logical << COUNTER_BITS) | self.counter

    @staticmethod
    def from_int(packed: int) -> Clock:
        if not 0 <= packed <= PACKED_MAX:
            raise BadClock(f"{packed} is not a packed clock", hint="64 bits without a sign")
        return Clock(packed >> COUNTER_BITS, packed & clock_counter_max)

    @staticmethod
    def parse(text: str) -> Clock:
        """Read ``(l,c)``; spaces after the bracket and the comma are fine, and nothing else is."""
        match = _TEXT.fullmatch(text)
        clock = Clock(int(match[1]), int(match[2])) if match else None
        if clock is None or not clock.is_in_range:
            shown = text if len(text) <= 60 else text[:60] + "…"
            raise BadClock(f"{shown!r} is not a clock")
        return clock


ZERO = Clock(0, 0)
"""Below every clock that is ever handed out: a tick is always above something."""

END = Clock(clock_logical_max, clock_counter_max)
"""The last clock there is."""


def at_wall(wall_ms: int) -> Clock:
    """The first clock of a millisecond. A wall clock before 1970 counts as 1970."""
    if wall_ms > clock_logical_max:
        raise ClockExhausted(f"the wall clock is at {wall_ms} ms, beyond the range of the clock")
    return Clock(max(0, wall_ms), 0)


def tick(last: Clock, wall_ms: int) -> Clock:
    """The next clock: one step up from ``last``, or the wall clock if that is higher."""
    if wall_ms > last.logical:
        return at_wall(wall_ms)
    if last.counter < clock_counter_max:
        return Clock(last.logical, last.counter + 1)
    if last.logical < clock_logical_max:
        return Clock(last.logical + 1, 0)
    raise ClockExhausted(f"the clock is at {last}, the end of its range")


def adjust(local: Clock, remote: Clock) -> Clock:
    """The local clock after it has heard of a remote one: raised exactly to it, and never lowered."""
    return max(local, remote)


def maximum(clocks: Iterable[Clock]) -> Clock:
    """The highest of one or more clocks."""
    return max(clocks)


def is_after(a: Clock, b: Clock) -> bool:
    """Whether ``a`` is strictly after ``b``."""
    return a > b


def plus(clock: Clock, ticks: int) -> Clock:
    """So many steps up, carried over; stops at the end of the range."""
    packed = clock.to_int() + ticks
    return END if packed > PACKED_MAX else Clock.from_int(packed)


def ticks_between(low: Clock, high: Clock) -> int:
    """How many steps lead from one clock to the other; negative when they are the other way round."""
    return high.to_int() - low.to_int()


def drift_ms(clock: Clock, wall_ms: int) -> int:
    """How far a clock is ahead of the wall; negative when behind."""
    return clock.logical - wall_ms
