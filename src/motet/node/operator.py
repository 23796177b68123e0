"""The role operator: elections and changes of ensembles, as a node hosts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from motet.client.cluster.refusals import readable
from motet.core.keeper.acl import NODES_ACL
from motet.core.machine import Message
from motet.core.metadata.paths import MAPS, OPERATORS, SHARDS
from motet.core.operator.config import OperatorConfig
from motet.core.operator.loading import WATCHED
from motet.core.operator.operator import Operator
from motet.core.shardlog import messages as shardlog
from motet.core.streams.cluster_messages import (
    Heartbeat,
    HeartbeatAnswer,
    OperatorAnswer,
    OperatorCall,
    ShardMapPushed,
    ShardsGone,
)
from motet.format.frame import FrameKind
from motet.ids import NodeId
from motet.node.hosting import Hosting, LocalPort
from motet.node.keeper_access import KeeperAccess, close_tree
from motet.node.metadata_port import MetadataPort
from motet.node.operator_watch import OperatorWatch
from motet.ports import Disk

OPERATOR_MACHINE = "operator"
session_ms = 4_000
"""Of its session with the keeper."""

_TO_DATA = (int(FrameKind.DATA),)
_TO_DATA_FIRST = (int(FrameKind.DATA_FIRST),)
_TO_CLIENT = (int(FrameKind.OPERATOR),)

OperatorInbox = (
    OperatorCall
    | shardlog.FenceResponse
    | shardlog.BecomeLeaderResponse
    | shardlog.AddFollowerResponse
    | shardlog.SnapshotResponse
    | shardlog.PrepareReconfigurationResponse
    | shardlog.CommitReconfigurationResponse
    | shardlog.AbortReconfigurationResponse
    | shardlog.DeleteShardResponse
    | shardlog.Refused
)
"""Everything that comes to an operator over the network."""


def machines_for(message: Message) -> tuple[int, ...]:
    """Orders and heartbeats are for data nodes, answers for clients.

    A node that has much to do is not dead: a heartbeat does not wait for it.
    """
    if isinstance(message, Heartbeat):
        return _TO_DATA_FIRST
    if isinstance(message, shardlog.ShardMessage | ShardMapPushed | ShardsGone):
        return _TO_DATA
    assert isinstance(message, OperatorAnswer)
    return _TO_CLIENT


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
        describe=_describe,
        readable=lambda machine, text: readable(text, machine.core.state.map),
        local=metadata,
        routes=machines_for,
    )


def _describe(machine: Operator) -> Mapping[str, object]:
    core = machine.core
    drifting = {node: core.state.nodes[node].drift_ms for node in core.drifting()}
    return {
        "active": core.state.is_active,
        "bad_definitions": sorted(core.state.bad_definitions),
        "drifting": drifting if core.state.is_active else {},
    }
