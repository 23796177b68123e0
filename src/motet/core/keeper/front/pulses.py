"""Keeping sessions alive, and letting time pass.

Sessions live by logical time, which moves only by pulses in the log. A front end's clock decides when
something is said, and never that a session is over.

U1  Every ``pulse_ms`` a front end logs a touch of the sessions it has heard of since the last time. A new
    round begins when all touches of the last one are answered.
U2  The primary logs a pulse: how long it is since its own last pulse in this view, and at most ``pulse_ms``.
    The next one is logged when the last is answered. Where there are no sessions nothing has to pass.
U3  A client that was heard of, but whose touch is not answered although most of its timeout has passed since
    the last that was, is hung up: this replica is cut off, others may be about to end the session, and the
    client must not believe that all is well because somebody answers its pings.
"""

from __future__ import annotations

import msgspec

from motet.core.keeper.ids import Generation
from motet.core.keeper.operations import Pulse, Touch
from motet.core.machine import NS_PER_MS
from motet.ids import Address, SessionId, View

touch_sessions_max = 1_000
"""In one operation, however much room there is."""

_touch_bytes_max = 24  # of one session, in the request and in the reply
_touch_bytes_least = 64


class Touching(msgspec.Struct):
    """A round of touches that is not answered yet."""

    begun_monotonic_ns: int
    operations_left: int
    connections: dict[Address, None]


class Pulses(msgspec.Struct):
    """What a front end knows of the time."""

    #: connections that were heard of since the last round; a dict for its order
    heard: dict[Address, None] = {}
    touching: Touching | None = None
    is_pulsing: bool = False
    #: of the last pulse
    pulse_monotonic_ns: int = 0
    pulse_view: View | None = None

    # Touches

    def begin_touching(
        self, heard: dict[Address, tuple[SessionId, Generation]], now_ns: int, at_once: int
    ) -> list[Touch]:
        """The operations of a new round, about those that were heard of (U1)."""
        assert self.touching is None, "U1"
        self.heard = {}
        if not heard:
            return []
        named = list(heard.values())
        pieces = range(0, len(named), at_once)
        touches = [Touch(tuple(named[start : start + at_once])) for start in pieces]
        self.touching = Touching(now_ns, len(touches), dict.fromkeys(heard))
        return touches

    def end_touch(self) -> int:
        """One operation of the round is answered, or lost; when the round was begun."""
        touching = self.touching
        assert touching is not None, "U1"
        touching.operations_left -= 1
        if not touching.operations_left:
            self.touching = None
        return touching.begun_monotonic_ns

    def unsure(self) -> list[Address]:
        """Who was heard of, and has a round that is under way to wait for (U3)."""
        if self.touching is None:
            return []
        return list(self.touching.connections | self.heard)

    # Pulses

    def begin_pulse(self, view: View, now_ns: int, pulse_ms: int) -> Pulse | None:
        """What the primary of this view has to say; None while the last was not answered (U2)."""
        if self.is_pulsing:
            return None
        elapsed_ms = 0
        if self.pulse_view == view:
            elapsed_ms = min((now_ns - self.pulse_monotonic_ns) // NS_PER_MS, pulse_ms)
        self.pulse_view, self.pulse_monotonic_ns, self.is_pulsing = view, now_ns, True
        return Pulse(elapsed_ms, view)


def sessions_at_once(request_bytes_max: int, reply_bytes_max: int) -> int:
    """How many one touch can name."""
    room_bytes = min(request_bytes_max, reply_bytes_max) - _touch_bytes_least
    return max(1, min(touch_sessions_max, room_bytes // _touch_bytes_max))


def is_unsure_too_long(touched_ns: int, now_ns: int, timeout_ms: int) -> bool:
    """Two thirds of a timeout: clients do not wait longer for an answer either (U3)."""
    return 3 * (now_ns - touched_ns) > 2 * timeout_ms * NS_PER_MS
