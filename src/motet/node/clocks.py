"""The two machines every node hosts, whatever its roles: its clock, and its share of the cluster's time."""

from __future__ import annotations

from collections.abc import Mapping

from motet.core.clock.messages import (
    Adjust,
    Adopt,
    AskTime,
    PingClock,
    PongClock,
    ReadClock,
    Tick,
    TimeIs,
)
from motet.core.clock.node_clock import NodeClock
from motet.core.clock.time_peer import TimePeer
from motet.core.machine import Message
from motet.format.frame import FrameKind
from motet.ids import NodeId
from motet.node.hosting import Hosting
from motet.ports.disk import Disk
from motet.ports.time import Time

CLOCK_MACHINE = "clock"
TIME_MACHINE = "time"


def host_clock(node: NodeId, disk: Disk, time: Time) -> Hosting[NodeClock]:
    """This node's hybrid logical clock."""

    def describe(clock: NodeClock) -> Mapping[str, object]:
        return {
            "phase": clock.phase,
            "clock": str(clock.reservation.current),
            "bound": str(clock.reservation.bound),
            "drift_ms": clock.drift_ms(time.now().wall_ms),
            "waiting": len(clock.waiting),
        }

    return Hosting(
        name=CLOCK_MACHINE,
        kind=FrameKind.CLOCK,
        messages=ReadClock | Tick | Adjust | Adopt,
        machine=lambda: NodeClock(node),
        disk=disk,
        from_clients=frozenset((ReadClock, Tick, Adjust)),
        serving=_why_clock_does_not_serve,
        describe=describe,
    )


def host_time(
    node: NodeId, replicas: tuple[NodeId, ...], disk: Disk, time: Time
) -> Hosting[TimePeer]:
    """This node's part in agreeing on the time of day. It never holds up serving: it only informs."""

    def describe(peer: TimePeer) -> Mapping[str, object]:
        now = time.now()
        if peer.time is None:
            return {"synchronized": False, "drift_ms": None}
        return {
            "synchronized": peer.time.is_synchronized(now),
            "drift_ms": peer.time.drift_ms(now),
        }

    return Hosting(
        name=TIME_MACHINE,
        kind=FrameKind.TIME,
        messages=PingClock | PongClock | AskTime,
        machine=lambda: TimePeer(node, replicas),
        disk=disk,
        from_clients=frozenset(),
        describe=describe,
        routes=_machines_for,
    )


def _machines_for(message: Message) -> tuple[int, ...]:
    """Data nodes ask for the time themselves, and are told."""
    return (int(FrameKind.DATA_FIRST if isinstance(message, TimeIs) else FrameKind.TIME),)


def _why_clock_does_not_serve(clock: NodeClock) -> str | None:
    if clock.phase == "serving":
        return None
    if clock.broken is not None:
        return " ".join(clock.broken)
    return "reading its bound"
