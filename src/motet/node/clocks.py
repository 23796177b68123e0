"""The machine every node hosts, whatever its roles: its share of the cluster's time."""

from __future__ import annotations

from collections.abc import Mapping

from motet.core.clock.messages import AskTime, PingClock, PongClock, TimeIs
from motet.core.clock.time_peer import TimePeer
from motet.core.machine import Message
from motet.format.frame import FrameKind
from motet.ids import NodeId
from motet.node.hosting import Hosting
from motet.ports import Disk, Time

TIME_MACHINE = "time"


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
