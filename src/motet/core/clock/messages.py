"""What nodes and clients ask of a clock, and the answers.

A request carries an id of the sender's choice, and its answer carries the same. Each request gets one
answer, or a ``ClockRefused`` that says why and what to do; a refused request has changed nothing.
"""

from __future__ import annotations

from motet.core.clock.hlc import Clock
from motet.core.machine import Message
from motet.ids import RequestId


class ClockMessage(Message, frozen=True, tag=lambda name: f"clock.{name}"):
    """Above all messages about clocks."""


class ClockRequest(ClockMessage, frozen=True):
    """Above all that is asked of a node's clock."""

    request: RequestId


class ReadClock(ClockRequest, frozen=True):
    """Show the clock as it stands, without a tick. This promises nothing: it is for people and metrics."""


class Tick(ClockRequest, frozen=True):
    """Hand out the next value."""


class Adjust(ClockRequest, frozen=True):
    """Move up to a clock that a peer or a client offers; refused if it is too far ahead of the wall."""

    clock: Clock


class Adopt(ClockRequest, frozen=True):
    """Move up to a clock found in the node's own log, however far ahead; taken from this node alone."""

    clock: Clock


class ClockIs(ClockMessage, frozen=True):
    """How the clock stands."""

    request: RequestId
    clock: Clock
    #: how far the clock is ahead of this node's wall; negative when behind
    drift_ms: int
    #: durable: nothing above it has been handed out
    bound: Clock


class Ticked(ClockMessage, frozen=True):
    """A value that has never been handed out before, and never will be again."""

    request: RequestId
    clock: Clock


class Adjusted(ClockMessage, frozen=True):
    """The clock is at or above the one asked for, for good: all that is handed out later is above it."""

    request: RequestId
    clock: Clock


class ClockRefused(ClockMessage, frozen=True):
    """It was not done, and nothing was changed."""

    request: RequestId
    #: the code of an error in ``motet.errors``
    code: str
    what: str
    #: what to do about it
    advice: str


class PingClock(ClockMessage, frozen=True):
    """Ask a replica for its wall time. The answer carries both numbers back as they were."""

    #: tells the pings of this incarnation from those of an earlier one
    nonce: int
    sent_monotonic_ns: int


class PongClock(ClockMessage, frozen=True):
    """A replica's wall time, read between the ping's sending and this pong's arrival."""

    nonce: int
    sent_monotonic_ns: int
    wall_ns: int


class AskTime(ClockMessage, frozen=True):
    """A data node asks another node for its wall. The answer carries both numbers back as they were."""

    nonce: int
    sent_monotonic_ns: int


class TimeIs(ClockMessage, frozen=True):
    """The wall of a node, as it is, read between the question and the arrival of this answer."""

    nonce: int
    sent_monotonic_ns: int
    wall_ns: int
