"""The role data: replicas of shards, as a node hosts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from motet.client.cluster.refusals import readable
from motet.core.clock.hlc import drift_ms
from motet.core.clock.messages import AskTime
from motet.core.machine import Message, Now
from motet.core.shardlog import messages as shardlog
from motet.core.streams.cluster_messages import HeartbeatAnswer
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
from motet.format.frame import FrameKind
from motet.ids import NodeId
from motet.limits import KIB, asked_together_bytes_max, page_bytes_max
from motet.node.hosting import Hosting
from motet.ports import Disk, Time

DATA_MACHINE = "data"

_around_bytes = 16 * KIB

_TO_DATA = (int(FrameKind.DATA),)
_TO_OPERATOR = (int(FrameKind.OPERATOR),)
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


def machines_for(message: Message) -> tuple[int, ...]:
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
        return {**_describe_clock(machine, time.now()), **_describe(machine)}

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
        routes=machines_for,
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


def _describe(machine: DataNode) -> Mapping[str, object]:
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
