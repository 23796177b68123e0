"""What has to hold before an ensemble may be changed or a leader elected on demand, an error for each."""

from __future__ import annotations

from motet.core.metadata.definitions import shard_name
from motet.core.operator.context import Core
from motet.core.operator.state import Phase, ShardControl
from motet.core.streams.cluster_messages import ShardStatus
from motet.errors import NoSuchShard, NoSuchStream
from motet.errors.operator import (
    AlreadyInEnsemble,
    ElectionUnderWay,
    NodeLeads,
    NoLeader,
    NoNodeToPlaceOn,
    NoSuchNode,
    NotInEnsemble,
    ReconfigurationUnderWay,
)
from motet.ids import NodeId, ShardId, StreamName


def shard_control(core: Core, stream: StreamName, shard: ShardId) -> ShardControl:
    """The shard that is meant."""
    definition = core.state.definitions.get(stream)
    if definition is None or definition.value.is_deleted:
        raise NoSuchStream(f"there is no stream {stream!r}")
    if not 0 <= shard < definition.value.shards:
        raise NoSuchShard(f"{stream!r} has {definition.value.shards} shards, and no shard {shard}")
    control = core.state.shards.get(shard_name(definition.value.id, shard))
    if control is None or control.metadata is None:
        raise NoLeader(f"shard {shard} of {stream!r} is only just being founded")
    return control


def check_steady(control: ShardControl) -> None:
    """A leader, no election, no reconfiguration."""
    known, coming = control.known, control.writing
    statuses = [known.status] if coming is None else [known.status, coming.status]
    if ShardStatus.RECONFIGURATION in statuses:
        raise ReconfigurationUnderWay(f"{control.shard} is being reconfigured")
    if ShardStatus.ELECTION in statuses:
        raise ElectionUnderWay(f"{control.shard} is electing a leader")
    if known.leader is None or control.phase is not Phase.STEADY:
        raise NoLeader(f"{control.shard} has no leader that is known for certain now")


def check_follower(control: ShardControl, node: NodeId) -> None:
    """A node that is to leave is there, and does not lead."""
    if node not in control.known.ensemble:
        raise NotInEnsemble(f"{node} holds no replica of {control.shard}")
    if node == control.known.leader:
        raise NodeLeads(f"{node} leads {control.shard}")


def check_new_node(core: Core, control: ShardControl, node: NodeId) -> None:
    """A node that is to join is not there yet, and can take a replica."""
    if node in control.known.ensemble:
        raise AlreadyInEnsemble(f"{node} holds a replica of {control.shard} already")
    known = core.node(node)
    if known is None or known.entry is None or not known.has_data:
        raise NoSuchNode(f"there is no data node {node!r}")
    if not known.is_alive:
        raise NoNodeToPlaceOn(f"{node} does not answer")
    if node in core.state.drains:
        raise NoNodeToPlaceOn(f"{node} is to be emptied")
