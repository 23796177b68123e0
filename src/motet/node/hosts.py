"""What a node hosts, by its roles: its share of the cluster's time (always), shards, an operator."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Any, get_args

from motet.client.cluster.refusals import readable
from motet.client.link import Link
from motet.core.clock.cluster_time import AskTime, PingClock, PongClock, TimeIs
from motet.core.clock.hlc import drift_ms
from motet.core.clock.time_peer import TimePeer
from motet.core.keeper.acl import NODES_ACL
from motet.core.machine import Message, Now
from motet.core.metadata.paths import MAPS, OPERATORS, SHARDS
from motet.core.operator.context import OperatorConfig
from motet.core.operator.loading import WATCHED
from motet.core.operator.operator import Operator
from motet.core.shardlog import messages as shardlog
from motet.core.streams.cluster_messages import (
    DescribeShards,
    Heartbeat,
    HeartbeatAnswer,
    OperatorAnswer,
    OperatorCall,
    ShardMapPushed,
    ShardsGone,
)
from motet.core.streams.messages import (
    AskMany,
    DataCall,
    DataRequests,
    GetLatestChange,
    ReadRecords,
    ReadShardFeed,
)
from motet.core.streams.node import DataNode
from motet.core.streams.pending import TransactionConfig
from motet.errors import MotetError, OutcomeUnknown
from motet.format.frame import FrameKind
from motet.ids import Address, NodeId, RequestId, StreamName
from motet.limits import KIB, asked_together_bytes_max, page_bytes_max
from motet.node.hosting import Hosting, LocalPort
from motet.node.metadata_port import MetadataPort
from motet.node.registry import KeeperAccess, close_tree
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
        routes=_time_routes,
    )


DATA_MACHINE = "data"

_around_bytes = 16 * KIB

_TO_DATA = (int(FrameKind.DATA),)
_TO_OPERATOR = (int(FrameKind.OPERATOR),)
_TO_DATA_FIRST = (int(FrameKind.DATA_FIRST),)
_TO_TIME = (int(FrameKind.TIME),)

FOR_OPERATORS = (
    HeartbeatAnswer,
    shardlog.FenceResponse,
    shardlog.BecomeLeaderResponse,
    shardlog.AddFollowerResponse,
    shardlog.PrepareReconfigurationResponse,
    shardlog.CommitReconfigurationResponse,
    shardlog.AbortReconfigurationResponse,
    shardlog.DeleteShardResponse,
)
"""What a data node answers to operators alone."""

BETWEEN_NODES = ("AddEntryRequest", "TruncateRequest", "PieceRequest")
"""What a data node asks of another; a snapshot is offered by leaders and by operators."""


_ROUTES: dict[type[Message], tuple[int, ...]] = {
    **dict.fromkeys(FOR_OPERATORS, _TO_OPERATOR),
    AskTime: _TO_TIME,  # every node answers, whatever its roles
    shardlog.SnapshotResponse: _TO_DATA + _TO_OPERATOR,  # whoever did not ask drops it
}


def _time_routes(message: Message) -> tuple[int, ...]:
    """Data nodes ask for the time themselves, and are told."""
    return _TO_DATA_FIRST if isinstance(message, TimeIs) else _TO_TIME


def data_routes(message: Message) -> tuple[int, ...]:
    """For which machine of the node that it goes to a message is."""
    if type(message) is shardlog.Refused:
        return _TO_DATA if message.request in BETWEEN_NODES else _TO_DATA + _TO_OPERATOR
    return _ROUTES.get(type(message), _TO_DATA)


def host_data(
    own: NodeId, nodes: tuple[NodeId, ...], disk: Disk, time: Time, vote_key: bytes
) -> Hosting[DataNode]:
    """This node's replicas, with these files; ``nodes`` are all of the cluster.

    They seal votes about transactions with ``vote_key``.
    """
    transactions = TransactionConfig(vote_key=vote_key)

    def describe(machine: DataNode) -> Mapping[str, object]:
        return {**_describe_clock(machine, time.now()), **_describe_data(machine)}

    return Hosting(
        name=DATA_MACHINE,
        kind=FrameKind.DATA,
        messages=DataCall,
        machine=lambda: DataNode(own, transactions=transactions, nodes=nodes),
        disk=disk,
        from_clients=frozenset(get_args(DataRequests)),
        serving=_why_data_does_not_serve,
        describe=describe,
        readable=lambda machine, text: readable(text, machine.state.map),
        routes=data_routes,
        answer_bytes=_answer_bytes,
        is_bulk=True,
        first_kind=FrameKind.DATA_FIRST,
        hears_who_left=True,
    )


def _answer_bytes(message: Message) -> int:
    if isinstance(message, ReadRecords | ReadShardFeed):
        return min(max(message.bytes_max, 0), page_bytes_max) + _around_bytes
    if isinstance(message, AskMany):
        return min(sum(map(_answer_bytes, message.requests)), asked_together_bytes_max)
    if isinstance(message, GetLatestChange):
        return _around_bytes
    return 0


def _why_data_does_not_serve(machine: DataNode) -> str | None:
    if machine.state.broken is not None:
        return " ".join(machine.state.broken)
    if machine.state.clock.reservation is None:
        return "it is starting"
    if not machine.state.time.is_known:
        return "it does not know the time yet"
    return _why_shards_do_not_serve(machine)


def _why_shards_do_not_serve(machine: DataNode) -> str | None:
    """A disk without room, or shards of this node that have no leader."""
    held = {
        report.shard: machine.shards.replica(report.shard) for report in machine.shards.reports()
    }
    if any(replica is not None and replica.core.state.is_disk_full for replica in held.values()):
        return "its disk is full"
    shard_map = machine.state.map
    leaderless = [
        f"{stream.definition.name}/{number}"
        for stream in (() if shard_map is None else shard_map.streams)
        for number, place in enumerate(stream.places)
        if place.leader is None and place.shard in held and machine.own in place.ensemble
    ]
    if not leaderless:
        return None
    more = f" and {len(leaderless) - 3} more" if len(leaderless) > 3 else ""
    return f"no leader: {', '.join(leaderless[:3])}{more}"


def _describe_clock(machine: DataNode, now: Now) -> Mapping[str, object]:
    """The clock; ``drift_ms`` is how far it is ahead of the time that the node goes by."""
    clock, time = machine.state.clock, machine.state.time
    reservation = clock.reservation
    is_known = reservation is not None and time.is_known
    return {
        "clock": str(clock.current),
        "bound": None if reservation is None else str(reservation.bound),
        "drift_ms": drift_ms(clock.current, time.corrected(now).wall_ms) if is_known else None,
        "agreed": time.is_agreed or not time.peers,
        "wall_drift_ms": time.drift_ms,
    }


def _describe_data(machine: DataNode) -> Mapping[str, object]:
    reports = machine.shards.reports()
    shard_map = machine.state.map
    return {
        "shards": len(reports),
        "leads": sum(report.status == "leader" for report in reports),
        "waiting": machine.waiting,
        "stalled": sum(len(report.stalled) for report in reports),
        "map_version": 0 if shard_map is None else shard_map.version,
        "operator": None if shard_map is None else shard_map.operator,
    }


ask_every_seconds = 0.2
ask_again_seconds = 0.5
"""How often it is asked; and one that has just answered in time."""

gone_seconds = 0.6
"""Nothing listens there for so long: its process is gone."""

silent_seconds = 2.0
"""It is there and says nothing for so long."""

late_seconds, late_times = 0.5, 3
"""So late an answer is, and so often in a row, from one that stalls."""

depose_every_seconds = 30.0
"""Two that cannot hear each other, but the keeper, do not take the office from each other all the time."""

NOTHING = StreamName("-")
"""No stream is called that, so the question is answered at once and costs nothing."""


class OperatorWatch:
    """Asks the operators of a cluster, by their names, whether they are there.

    They are asked directly, since the keeper learns of a death late. A session in the keeper ends some
    seconds after its holder, and for so long no shard whose leader died with the operator would get a new
    one. So whoever is next asks the one before now and then, and removes its entry when it does not answer:
    the keeper then tells everybody at once. That may be wrong, as when only the link between the two is cut.
    Then two operators are at work for a moment, which the compare-and-set of each write makes harmless; and
    nobody does it often to the same one that is only silent. One whose process is gone is removed each time:
    it may have been started again and killed again, and each time shards wait for it.

    An operator that answers late, several times in a row, counts as silent, too: its node stalls, on a disk
    that takes a second for a sync, say, and so does every election that it holds.
    """

    def __init__(self, peers: Mapping[NodeId, str], cluster: str) -> None:
        self._peers, self._cluster = peers, cluster
        #: operator -> when it was last found to be silent
        self._silent_at: dict[str, float] = {}

    async def until_silent(self, name: str) -> None:
        """Come back when this operator does not answer; never of one that is not known."""
        endpoint = self._peers.get(NodeId(name))
        loop = asyncio.get_running_loop()
        if endpoint is None:
            await loop.create_future()
            return
        counts_at = self._silent_at.get(name, -depose_every_seconds) + depose_every_seconds
        await until_silent(endpoint, self._cluster, counts_at=counts_at)
        self._silent_at[name] = loop.time()


async def until_silent(endpoint: str, cluster: str, *, counts_at: float = 0.0) -> None:
    """Come back when no operator answers at this endpoint any more.

    Silence counts from a time of the loop on; that nothing listens there counts always.
    """
    node, loop = Address("before"), asyncio.get_running_loop()
    link: Link[OperatorAnswer] = Link({node: endpoint}, FrameKind.OPERATOR, OperatorAnswer, cluster)
    async with link:
        heard_at, late = loop.time(), 0
        while True:
            asked_at, pause_seconds = loop.time(), ask_every_seconds
            try:
                await link.ask(
                    node, lambda n: DescribeShards(RequestId(n), NOTHING), silent_seconds
                )
                heard_at = loop.time()
                late = late + 1 if heard_at - asked_at >= late_seconds else 0
                if late >= late_times and heard_at >= counts_at:
                    return
                if not late:
                    pause_seconds = ask_again_seconds
            except OutcomeUnknown:
                if loop.time() - asked_at >= silent_seconds and loop.time() >= counts_at:
                    return
            except MotetError:
                if loop.time() - heard_at >= gone_seconds:
                    return
            await asyncio.sleep(pause_seconds)


OPERATOR_MACHINE = "operator"
session_ms = 4_000
"""Of its session with the keeper."""

OperatorInbox: Any = reduce(
    or_, (OperatorCall, *FOR_OPERATORS, shardlog.SnapshotResponse, shardlog.Refused)
)
"""Everything that comes to an operator over the network."""


def operator_routes(message: Message) -> tuple[int, ...]:
    """Orders and heartbeats are for data nodes, answers for clients.

    A node that has much to do is not dead: a heartbeat does not wait for it.
    """
    if isinstance(message, Heartbeat):
        return _TO_DATA_FIRST
    if isinstance(message, shardlog.ShardMessage | ShardMapPushed | ShardsGone):
        return _TO_DATA
    assert isinstance(message, OperatorAnswer)
    return _TO_OPERATOR  # clients take this kind


def operator_metadata(access: KeeperAccess, watch: OperatorWatch) -> MetadataPort:
    """An operator's way to the keeper."""
    return MetadataPort(
        lambda: access.session(session_ms),
        acl=NODES_ACL,
        roots=(*WATCHED, SHARDS, OPERATORS, MAPS),
        prepare=close_tree,
        until_silent=watch.until_silent,
    )


def host_operator(own: NodeId, disk: Disk, metadata: LocalPort) -> Hosting[Operator]:
    """This node's operator; it keeps nothing on disk."""
    return Hosting(
        name=OPERATOR_MACHINE,
        kind=FrameKind.OPERATOR,
        messages=OperatorInbox,
        machine=lambda: Operator(OperatorConfig(), own),
        disk=disk,
        from_clients=frozenset(get_args(OperatorCall)) - {HeartbeatAnswer},
        describe=_describe_operator,
        readable=lambda machine, text: readable(text, machine.core.state.map),
        local=metadata,
        routes=operator_routes,
    )


def _describe_operator(machine: Operator) -> Mapping[str, object]:
    core = machine.core
    drifting = {node: core.state.nodes[node].drift_ms for node in core.drifting()}
    return {
        "active": core.state.is_active,
        "bad_definitions": sorted(core.state.bad_definitions),
        "drifting": drifting if core.state.is_active else {},
    }
