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

from motet.ids import Address, NodeId
from motet.node.config import KEEPER_ROLE, Config
from motet.node.counters import Counters, Histogram
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


CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """One node's registry."""

    def __init__(self, node: NodeView) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_NodeCollector(node))

    def text(self) -> bytes:
        """Everything there is, in the text format of Prometheus."""
        return generate_latest(self._registry)


class _NodeCollector(Collector):
    def __init__(self, node: NodeView) -> None:
        self._node = node

    def collect(self) -> Iterator[Metric]:
        node = self._node
        config = node.config.node
        identity = {"version": __version__, "node": config.id, "cluster": config.cluster}
        yield InfoMetricFamily("motet_build", "Which version runs here, and as whom.", identity)
        yield GaugeMetricFamily(
            "motet_start_time_seconds",
            "When this incarnation of the node started, since 1970.",
            node.started_at.timestamp(),
        )
        yield GaugeMetricFamily(
            "motet_ready", "1 when the node can serve, else 0.", int(not node.driver.not_serving())
        )
        yield GaugeMetricFamily(
            "motet_clock_drift_milliseconds",
            "How far the cluster clock is ahead of this node's time of day; negative when behind.",
            node.clock_drift_ms(),
        )
        wall_drift_ms = node.wall_drift_ms()
        yield GaugeMetricFamily(
            "motet_time_synchronized",
            "1 when a majority of the nodes agrees on the time of day, else 0.",
            int(wall_drift_ms is not None),
        )
        yield GaugeMetricFamily(
            "motet_wall_drift_milliseconds",
            "How far this node's time of day is ahead of the cluster's; 0 when not synchronized.",
            wall_drift_ms or 0,
        )
        yield from _driver_families(node.driver.counters)
        yield from _network_families(node)
        unsent_bytes, unfinished_bytes = node.kept_for_zookeeper()
        yield GaugeMetricFamily(
            "motet_zookeeper_unsent_bytes",
            "Answers that ZooKeeper clients have not taken.",
            unsent_bytes,
        )
        yield GaugeMetricFamily(
            "motet_zookeeper_unfinished_bytes",
            "Messages that ZooKeeper clients have not finished.",
            unfinished_bytes,
        )
        yield _labelled(
            "motet_clients_refused",
            "Connections of ZooKeeper clients that were cut off, by why.",
            "why",
            node.refused_clients(),
        )
        yield _labelled(
            "motet_http_refused",
            "Connections to the HTTP port that were cut off, by why.",
            "why",
            node.refused_http(),
        )
        yield from _keeper_families(node)


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


def _driver_families(counters: Counters) -> Iterator[Metric]:
    yield _counter("motet_turns", "Turns of the node's loop.", counters.turns)
    yield _counter("motet_events", "Events the machines have stepped through.", counters.events)
    yield _counter(
        "motet_frames_received", "Frames taken from the network.", counters.frames_received
    )
    yield _counter("motet_frames_sent", "Frames given to the network.", counters.frames_sent)
    yield _labelled(
        "motet_frames_refused",
        "Frames that were no message of any machine here, by why.",
        "why",
        counters.frames_refused,
    )
    yield _labelled(
        "motet_sends_dropped", "Messages that never left, by why.", "why", counters.sends_dropped
    )
    yield _counter("motet_writes", "Changes to files.", counters.writes)
    yield _counter("motet_write_bytes", "Bytes written to files.", counters.write_bytes)
    yield _counter("motet_writes_failed", "Changes the full disk refused.", counters.writes_failed)
    yield _counter("motet_reads", "Reads from files.", counters.reads)
    yield _counter("motet_reads_failed", "Reads the disk could not do.", counters.reads_failed)
    yield _histogram(
        "motet_sync_seconds", "How long one sync of one file took.", counters.sync_seconds
    )
    notes = CounterMetricFamily(
        "motet_notes", "Facts noted by the machines, by name.", labels=["machine", "what"]
    )
    for (machine, what), count in counters.notes.items():
        notes.add_metric([machine, what], count)
    yield notes


def _network_families(node: NodeView) -> Iterator[Metric]:
    counters = node.network.counters
    yield GaugeMetricFamily(
        "motet_connections", "Open connections, in both directions.", counters.connections
    )
    yield GaugeMetricFamily(
        "motet_clients_unsent_bytes",
        "Answers that clients have not taken, of the native port.",
        counters.unsent_bytes,
    )
    yield GaugeMetricFamily(
        "motet_clients_unfinished_bytes",
        "Frames that clients have not finished, of the native port.",
        counters.unfinished_bytes,
    )
    yield GaugeMetricFamily(
        "motet_client_requests_waiting",
        "Requests that wait because the answers of their clients, or of all, are enough.",
        node.waiting_requests(),
    )
    yield _counter("motet_network_in_bytes", "Bytes of frames that came in.", counters.bytes_in)
    yield _counter("motet_network_out_bytes", "Bytes of frames that left.", counters.bytes_out)
    yield _counter("motet_dials", "Connections tried.", counters.dials)
    yield _counter("motet_dials_failed", "Connections tried in vain.", counters.dials_failed)
    yield _counter(
        "motet_inbox_pauses", "How often a full inbox stopped all reading.", counters.pauses
    )
    yield _labelled(
        "motet_network_dropped",
        "Frames the network dropped, by why.",
        "why",
        {
            "unknown": counters.dropped_unknown,
            "full": counters.dropped_full,
            "unreachable": counters.dropped_unreachable,
        },
    )
    yield _labelled(
        "motet_connections_refused",
        "Connections closed by this node, by why.",
        "why",
        {str(why): count for why, count in counters.refused.items()},
    )


def _counter(name: str, documentation: str, value: int) -> CounterMetricFamily:
    return CounterMetricFamily(name, documentation, value)


def _labelled(
    name: str, documentation: str, label: str, values: Mapping[str, int]
) -> CounterMetricFamily:
    family = CounterMetricFamily(name, documentation, labels=[label])
    for value, count in values.items():
        family.add_metric([value], count)
    return family


def _histogram(name: str, documentation: str, histogram: Histogram) -> HistogramMetricFamily:
    buckets, below = [], 0
    for bound, count in zip([*histogram.bounds, float("inf")], histogram.counts, strict=True):
        below += count
        buckets.append((str(bound) if bound != float("inf") else "+Inf", below))
    return HistogramMetricFamily(name, documentation, buckets, histogram.total)
