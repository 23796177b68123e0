"""What a node tells about itself: the plain data of `/api/status`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

import msgspec

from motet.ids import Address, NodeId
from motet.node.config import Config
from motet.node.driver import Driver
from motet.real.network import TcpNetwork
from motet.version import __version__


class NodeView(Protocol):
    """What metrics and status need to see of a node."""

    @property
    def config(self) -> Config: ...

    @property
    def driver(self) -> Driver: ...

    @property
    def network(self) -> TcpNetwork: ...

    @property
    def started_at(self) -> datetime: ...

    def clock_drift_ms(self) -> int:
        """How far the cluster clock is ahead of the time of day; 0 while it does not serve."""

    def wall_drift_ms(self) -> int | None:
        """How far our time of day is ahead of the cluster's; None while that is not agreed on."""

    def waiting_requests(self) -> int:
        """Requests of clients that wait for room for their answers."""

    def kept_for_zookeeper(self) -> tuple[int, int]:
        """What ZooKeeper clients have not taken and not finished, in bytes."""

    def refused_http(self) -> Mapping[str, int]:
        """Connections to the HTTP port that were cut off, by why."""

    def refused_clients(self) -> Mapping[str, int]:
        """Connections to the ZooKeeper port that were cut off, by why."""


class MachineStatus(msgspec.Struct, frozen=True):
    """One machine of the node."""

    serving: bool
    #: why it does not serve
    reason: str | None
    #: what the machine says about itself
    detail: Mapping[str, object]


class PeerStatus(msgspec.Struct, frozen=True):
    """Another node of the cluster, as seen from here."""

    id: NodeId
    address: str
    connected: bool


CLOCK_FIELDS = ("clock", "bound", "drift_ms", "agreed", "wall_drift_ms")
"""What the machine that has the node's clock says of it."""


class NodeStatus(msgspec.Struct, frozen=True):
    """The answer of `/api/status`."""

    id: NodeId
    cluster: str
    roles: tuple[str, ...]
    version: str
    #: when this incarnation started
    started_at: datetime
    ready: bool
    #: nothing if the node has none: only the role data has a clock
    clock: Mapping[str, object]
    machines: dict[str, MachineStatus]
    peers: list[PeerStatus]


def node_status(node: NodeView, clock_machine: str) -> NodeStatus:
    """How the node is right now."""
    settings = node.config.node
    machines = _machines(node.driver)
    detail = machines[clock_machine].detail if clock_machine in machines else {}
    return NodeStatus(
        id=settings.id,
        cluster=settings.cluster,
        roles=settings.roles,
        version=__version__,
        started_at=node.started_at,
        ready=not node.driver.not_serving(),
        clock={field: detail[field] for field in CLOCK_FIELDS if field in detail},
        machines=machines,
        peers=_peers(node),
    )


def _machines(driver: Driver) -> dict[str, MachineStatus]:
    machines = {}
    for hosted in driver.hosted:
        reason = hosted.hosting.serving(hosted.machine)
        detail = hosted.hosting.describe(hosted.machine)
        machines[hosted.name] = MachineStatus(reason is None, reason, detail)
    return machines


def _peers(node: NodeView) -> list[PeerStatus]:
    settings = node.config.node
    return [
        PeerStatus(peer, address, node.network.is_connected(Address(peer)))
        for peer, address in settings.peers.items()
        if peer != settings.id
    ]
