"""What nodes ask each other about the time, and the answers."""

from __future__ import annotations

from motet.core.machine import Message


class ClockMessage(Message, frozen=True, tag=lambda name: f"clock.{name}"):
    """Above all messages about the time."""


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
