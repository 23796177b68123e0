"""What a node tells about itself: the plain data of `/api/status`, and `/metrics`.

The plain counters of a node become Prometheus families when somebody reads them. Each node has a registry of
its own, so several nodes in one process do not mix. Names begin with ``motet_``; a counter ends in
``_total``; the unit stands before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Protocol

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from motet.core.mergetree.node import TableNode
from motet.ids import Address, NodeId
from motet.node.config import KEEPER_ROLE, Config
from motet.node.counters import Histogram
from motet.node.driver import Driver
from motet.node.table_status import table_families
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

    def clients(self) -> ClientCounts:
        """How it stands with clients at its ports."""


class ClientCounts(msgspec.Struct, frozen=True):
    """What the ports of a node say of clients; the defaults are for a port that there is not."""

    #: requests that wait for room for their answers
    waiting_requests: int = 0
    #: what ZooKeeper clients have not taken and not finished
    zookeeper_unsent_bytes: int = 0
    zookeeper_unfinished_bytes: int = 0
    #: connections that were cut off, by why: to the ZooKeeper port, and to the HTTP port
    refused: Mapping[str, int] = {}
    refused_http: Mapping[str, int] = {}


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


CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """One node's registry."""

    def __init__(self, node: NodeView) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_NodeCollector(node))

    def text(self) -> bytes:
        """Everything there is, in the text format of Prometheus."""
        return generate_latest(self._registry)


GAUGES = {
    "start_time_seconds": "When this incarnation of the node started, since 1970.",
    "ready": "1 when the node can serve, else 0.",
    "clock_drift_milliseconds": "How far the cluster clock is ahead of this node's time of day; "
    "negative when behind.",
    "time_synchronized": "1 when a majority of the nodes agrees on the time of day, else 0.",
    "wall_drift_milliseconds": "How far this node's time of day is ahead of the cluster's; "
    "0 when not synchronized.",
    "connections": "Open connections, in both directions.",
    "clients_unsent_bytes": "Answers that clients have not taken, of the native port.",
    "clients_unfinished_bytes": "Frames that clients have not finished, of the native port.",
    "client_requests_waiting": "Requests that wait because the answers of their clients, or of all, "
    "are enough.",
    "zookeeper_unsent_bytes": "Answers that ZooKeeper clients have not taken.",
    "zookeeper_unfinished_bytes": "Messages that ZooKeeper clients have not finished.",
}
COUNTERS = {
    "turns": "Turns of the node's loop.",
    "events": "Events the machines have stepped through.",
    "frames_received": "Frames taken from the network.",
    "frames_sent": "Frames given to the network.",
    "writes": "Changes to files.",
    "write_bytes": "Bytes written to files.",
    "writes_failed": "Changes the full disk refused.",
    "reads": "Reads from files.",
    "reads_failed": "Reads the disk could not do.",
    "works": "Pieces of work that the machines asked for, as storing or fetching a part.",
    "works_failed": "Pieces of work that ended without a result.",
    "network_in_bytes": "Bytes of frames that came in.",
    "network_out_bytes": "Bytes of frames that left.",
    "dials": "Connections tried.",
    "dials_failed": "Connections tried in vain.",
    "inbox_pauses": "How often a full inbox stopped all reading.",
}
COUNTERS_BY_WHY = {
    "frames_refused": "Frames that were no message of any machine here, by why.",
    "sends_dropped": "Messages that never left, by why.",
    "network_dropped": "Frames the network dropped, by why.",
    "connections_refused": "Connections closed by this node, by why.",
    "clients_refused": "Connections of ZooKeeper clients that were cut off, by why.",
    "http_refused": "Connections to the HTTP port that were cut off, by why.",
}
KEEPER_GAUGES = {
    "is_primary": "1 where the primary of the keeper is, else 0.",
    "view": "The view that the keeper's replica is in; it rises with each change of primary.",
    "op": "The newest operation in the log of the keeper's replica.",
    "commit_min": "The newest operation that the keeper's replica has applied.",
    "checkpoint_op": "The operation of its last durable checkpoint.",
    "zxid": "The newest write that the keeper's replica has applied, as clients count them.",
    "nodes": "Nodes in the keeper's tree.",
    "ephemerals": "Ephemeral nodes in the keeper's tree.",
    "tree_bytes": "Paths, data and permissions of the keeper's tree.",
    "client_sessions": "Sessions of the keeper's clients, all over the cluster.",
    "connections": "Connections of the keeper's clients to this node.",
    "watches": "Watches that the keeper's clients have set through this node.",
    "prepares_faulty": "Places of the keeper's log that are damaged and not repaired yet.",
    "blocks_faulty": "Blocks of the keeper's checkpoint that are damaged and not repaired yet.",
}
"""What the keeper says of itself in `/api/status` -> what that means."""


def _keeper_families(node: NodeView) -> Iterator[Metric]:
    for hosted in node.driver.hosted:
        if hosted.name != KEEPER_ROLE:  # the machine has the name of its role
            continue
        described = hosted.hosting.describe(hosted.machine)
        for name, meaning in KEEPER_GAUGES.items():
            value = described[name]
            assert isinstance(value, int)
            yield GaugeMetricFamily(f"motet_keeper_{name}", meaning, int(value))


def _table_families(node: NodeView) -> Iterator[Metric]:
    for hosted in node.driver.hosted:
        if isinstance(hosted.machine, TableNode):
            yield from table_families(hosted.machine)


class _NodeCollector(Collector):
    def __init__(self, node: NodeView) -> None:
        self._node = node

    def collect(self) -> Iterator[Metric]:
        node, counters = self._node, self._node.driver.counters
        config = node.config.node
        identity = {"version": __version__, "node": config.id, "cluster": config.cluster}
        yield InfoMetricFamily("motet_build", "Which version runs here, and as whom.", identity)
        for name, gauge in _gauges(node).items():
            yield GaugeMetricFamily(f"motet_{name}", GAUGES[name], gauge)
        for name, count in _counters(node).items():
            yield CounterMetricFamily(f"motet_{name}", COUNTERS[name], count)
        for name, counts in _counters_by_why(node).items():
            by_why = CounterMetricFamily(f"motet_{name}", COUNTERS_BY_WHY[name], labels=["why"])
            for why, count in counts.items():
                by_why.add_metric([why], count)
            yield by_why
        yield _histogram(
            "motet_sync_seconds", "How long one sync of one file took.", counters.sync_seconds
        )
        notes = CounterMetricFamily(
            "motet_notes", "Facts noted by the machines, by name.", labels=["machine", "what"]
        )
        for (machine, what), count in counters.notes.items():
            notes.add_metric([machine, what], count)
        yield notes
        yield from _keeper_families(node)
        yield from _table_families(node)


def _gauges(node: NodeView) -> dict[str, float]:
    network, wall_drift_ms = node.network.counters, node.wall_drift_ms()
    clients = node.clients()
    return {
        "start_time_seconds": node.started_at.timestamp(),
        "ready": int(not node.driver.not_serving()),
        "clock_drift_milliseconds": node.clock_drift_ms(),
        "time_synchronized": int(wall_drift_ms is not None),
        "wall_drift_milliseconds": wall_drift_ms or 0,
        "connections": network.connections,
        "clients_unsent_bytes": network.unsent_bytes,
        "clients_unfinished_bytes": network.unfinished_bytes,
        "client_requests_waiting": clients.waiting_requests,
        "zookeeper_unsent_bytes": clients.zookeeper_unsent_bytes,
        "zookeeper_unfinished_bytes": clients.zookeeper_unfinished_bytes,
    }


def _counters(node: NodeView) -> dict[str, int]:
    driver, network = node.driver.counters, node.network.counters
    of_network = {
        "network_in_bytes": network.bytes_in,
        "network_out_bytes": network.bytes_out,
        "dials": network.dials,
        "dials_failed": network.dials_failed,
        "inbox_pauses": network.pauses,
    }
    return {n: getattr(driver, n) for n in COUNTERS if n not in of_network} | of_network


def _counters_by_why(node: NodeView) -> dict[str, Mapping[str, int]]:
    driver, network = node.driver.counters, node.network.counters
    dropped = {
        "unknown": network.dropped_unknown,
        "full": network.dropped_full,
        "unreachable": network.dropped_unreachable,
    }
    return {
        "frames_refused": driver.frames_refused,
        "sends_dropped": driver.sends_dropped,
        "network_dropped": dropped,
        "connections_refused": {str(why): count for why, count in network.refused.items()},
        "clients_refused": node.clients().refused,
        "http_refused": node.clients().refused_http,
    }


def _histogram(name: str, documentation: str, histogram: Histogram) -> HistogramMetricFamily:
    buckets, below = [], 0
    for bound, count in zip([*histogram.bounds, float("inf")], histogram.counts, strict=True):
        below += count
        buckets.append((str(bound) if bound != float("inf") else "+Inf", below))
    return HistogramMetricFamily(name, documentation, buckets, histogram.total)
