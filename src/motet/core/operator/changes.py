"""Changes of ensembles that people ask for: checked, begun, and answered when they are complete."""

from __future__ import annotations

from motet.core.operator.answers import answer, refuse
from motet.core.operator.context import Core
from motet.core.operator.preconditions import (
    check_follower,
    check_new_node,
    check_steady,
    shard_control,
)
from motet.core.operator.reconfigurations import start_reconfiguration
from motet.core.operator.state import Phase, ShardControl, Waiting
from motet.core.placement.choosing import addition, removal
from motet.core.shardlog.messages import ReconfigurationOp
from motet.core.streams.cluster_messages import ContractShard, ExpandShard, OperatorDone, SwapNode
from motet.errors import TooLarge
from motet.errors.operator import LastReplica, NoNodeToPlaceOn, ReconfigurationAborted
from motet.ids import Epoch, NodeId
from motet.limits import shard_replicas_max

Change = SwapNode | ExpandShard | ContractShard


def swap_node(core: Core, waiting: Waiting, message: SwapNode) -> None:
    control = shard_control(core, message.stream, message.shard)
    check_steady(control)
    check_follower(control, message.old_node)
    new_node = _new_node(core, control, message.new_node)
    _start(core, waiting, control, ReconfigurationOp.NODE_SWAP, message.old_node, new_node)


def expand_shard(core: Core, waiting: Waiting, message: ExpandShard) -> None:
    control = shard_control(core, message.stream, message.shard)
    check_steady(control)
    if len(control.known.ensemble) >= shard_replicas_max:
        raise TooLarge(f"{control.shard} has {shard_replicas_max} replicas, and that is the most")
    new_node = _new_node(core, control, message.new_node)
    _start(core, waiting, control, ReconfigurationOp.EXPAND, None, new_node)


def contract_shard(core: Core, waiting: Waiting, message: ContractShard) -> None:
    control = shard_control(core, message.stream, message.shard)
    check_steady(control)
    known = control.known
    if len(known.ensemble) == 1:
        raise LastReplica(f"{known.ensemble[0]} has the last replica of {control.shard}")
    old_node = message.old_node
    if old_node is None:
        assert known.leader is not None
        dead = [node for node in known.ensemble if core.is_dead(node)]
        unwanted = [*core.state.drains, *dead]
        old_node = removal(known.ensemble, known.leader, core.load().replicas, unwanted)
        assert old_node is not None
    check_follower(control, old_node)
    _start(core, waiting, control, ReconfigurationOp.CONTRACT, old_node, None)


def _new_node(core: Core, control: ShardControl, wanted: NodeId | None) -> NodeId:
    if wanted is not None:
        check_new_node(core, control, wanted)
        return wanted
    chosen = addition(core.load(), control.known.ensemble)
    if chosen is None:
        raise NoNodeToPlaceOn(f"every data node that lives has a replica of {control.shard}")
    return chosen


def _start(
    core: Core,
    waiting: Waiting,
    control: ShardControl,
    op: ReconfigurationOp,
    old_node: NodeId | None,
    new_node: NodeId | None,
) -> None:
    waiting.shard, waiting.epoch = control.shard, Epoch(control.epoch + 1)
    waiting.old_node, waiting.new_node = old_node, new_node
    start_reconfiguration(core, control, op, old_node=old_node, new_node=new_node)


def is_overtaken(core: Core, waiting: Waiting) -> bool:
    """Somebody else has written the metadata before us, and our change was not begun; the client is told."""
    control = None if waiting.shard is None else core.state.shards.get(waiting.shard)
    if control is None or control.phase is not Phase.STEADY or control.epoch >= waiting.epoch:
        return False
    refuse(core, waiting, ReconfigurationAborted("another operator was quicker; nothing was done"))
    return True


def settle_change(core: Core, waiting: Waiting, message: Change) -> None:
    """Whatever became of it: the shard is steady again, and its ensemble tells."""
    control = None if waiting.shard is None else core.state.shards.get(waiting.shard)
    if control is None or control.phase is not Phase.STEADY or control.epoch < waiting.epoch:
        return
    ensemble = control.known.ensemble
    is_out = waiting.old_node not in ensemble
    is_in = waiting.new_node is None or waiting.new_node in ensemble
    told = f"{' '.join(ensemble)} in epoch {control.epoch}"
    if is_out and is_in:
        answer(core, waiting, OperatorDone(message.request, told))
    else:
        refuse(core, waiting, ReconfigurationAborted(f"the ensemble is {told}"))
