"""What people ask of an operator: taken, refused, and answered when it is done.

Q1  An operator that is not active refuses, and names the active one if it knows.
Q2  Requests that wait are bounded in number and in time. Who has waited too long is told that the outcome is
    not known; what was begun goes on.
Q3  Each precondition has an error of its own, and a request that is refused by one has changed nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from motet.core.machine import NS_PER_MS
from motet.core.metadata.definitions import shard_name
from motet.core.operator.clock_visibility import enable_clock, settle_clock_visibility
from motet.core.operator.context import Core
from motet.core.operator.deletion import delete_stream, settle_deletion
from motet.core.operator.elections import start_election
from motet.core.operator.moves import drain_node, settle_drain
from motet.core.operator.reconfigurations import start_reconfiguration
from motet.core.operator.state import Phase, ShardControl, WaitingClient
from motet.core.operator.streams import create_stream, settle_creation
from motet.core.placement.choosing import addition, removal
from motet.core.shardlog.messages import ReconfigurationOp
from motet.core.streams.cluster_messages import (
    ContractShard,
    CreateStream,
    DeleteStream,
    DescribeShards,
    DrainNode,
    ElectLeader,
    EnableClock,
    ExpandShard,
    OperatorDone,
    OperatorRequest,
    ShardsDescribed,
    ShardStatus,
    SwapNode,
)
from motet.errors import MotetError, NoSuchShard, NoSuchStream, OutcomeUnknown, TooLarge
from motet.errors.operator import (
    AlreadyInEnsemble,
    ElectionUnderWay,
    LastReplica,
    NodeLeads,
    NoLeader,
    NoNodeToPlaceOn,
    NoSuchNode,
    NotActive,
    NotInEnsemble,
    OperatorBusy,
    ReconfigurationAborted,
    ReconfigurationUnderWay,
)
from motet.ids import Address, Epoch, NodeId, ShardId, StreamName
from motet.limits import shard_replicas_max

Start = Callable[[Core, WaitingClient, Any], None]


def on_request(core: Core, client: Address, message: OperatorRequest) -> None:
    """Begin it, or say why not."""
    state = core.state
    waiting = WaitingClient(client, message, core.now_ns)
    start = STARTS.get(type(message))
    try:
        if not state.is_active:
            raise NotActive(f"{state.own} is not the active operator")
        if not state.is_loaded:
            raise NotActive(f"{state.own} has only just become the active operator")
        if start is None:
            core.drop("unexpected")
            return
        if len(state.waiting) >= core.config.requests_max:
            raise OperatorBusy(f"{len(state.waiting)} requests wait already")
        state.waiting.append(waiting)
        start(core, waiting, message)
        if any(each is waiting for each in state.waiting):
            _settle(core, waiting)
    except MotetError as error:
        core.refuse(waiting, error)


def settle(core: Core) -> None:
    """Answer whoever can be answered."""
    for waiting in list(core.state.waiting):
        _settle(core, waiting)


def _settle(core: Core, waiting: WaitingClient) -> None:
    end = SETTLES.get(type(waiting.message))
    if end is not None and not is_overtaken(core, waiting):
        end(core, waiting, waiting.message)


def expire(core: Core) -> None:
    """Q2."""
    oldest_ns = core.now_ns - core.config.request_ms * NS_PER_MS
    for waiting in list(core.state.waiting):
        if waiting.asked_ns < oldest_ns:
            hint = "it goes on: ask again, or see how things stand"
            core.refuse(waiting, OutcomeUnknown("it is still under way", hint=hint))


def refuse_all(core: Core) -> None:
    """No longer active: what was begun may be finished by another operator, or not."""
    for waiting in list(core.state.waiting):
        hint = "ask the active operator how things stand"
        core.refuse(waiting, OutcomeUnknown(f"{core.state.own} is no longer active", hint=hint))


def describe_shards(core: Core, waiting: WaitingClient, message: DescribeShards) -> None:
    state = core.state
    names = sorted(state.definitions) if message.stream is None else [message.stream]
    if message.stream is not None and message.stream not in state.definitions:
        raise NoSuchStream(f"there is no stream {message.stream!r}")
    shards = [c for c in state.shards.values() if c.stream in names and c.metadata is not None]
    told = {control.shard: None for control in shards}
    reports = tuple(
        (node, tuple(each for each in state.nodes[node].reports.values() if each.shard in told))
        for node in sorted(state.nodes)
        if state.nodes[node].is_alive
    )
    described = ShardsDescribed(
        message.request,
        tuple(state.definitions[name].value for name in names),
        tuple(control.known for control in shards),
        reports,
    )
    core.answer(waiting, described)


def elect_leader(core: Core, waiting: WaitingClient, message: ElectLeader) -> None:
    control = shard_control(core, message.stream, message.shard)
    check_steady(control)
    if message.preferred is not None and message.preferred not in control.known.ensemble:
        raise NotInEnsemble(f"{message.preferred} holds no replica of {control.shard}")
    waiting.shard, waiting.epoch = control.shard, Epoch(control.epoch + 1)
    start_election(core, control, "asked for", preferred=message.preferred)


def settle_election(core: Core, waiting: WaitingClient, message: ElectLeader) -> None:
    control = None if waiting.shard is None else core.state.shards.get(waiting.shard)
    if control is None or control.metadata is None or control.epoch < waiting.epoch:
        return
    leader = control.metadata.leader
    if leader is not None:
        what = f"{leader} leads in epoch {control.epoch}"
        core.answer(waiting, OperatorDone(message.request, what))


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


Change = SwapNode | ExpandShard | ContractShard


def swap_node(core: Core, waiting: WaitingClient, message: SwapNode) -> None:
    control = shard_control(core, message.stream, message.shard)
    check_steady(control)
    check_follower(control, message.old_node)
    new_node = _new_node(core, control, message.new_node)
    _start(core, waiting, control, ReconfigurationOp.NODE_SWAP, message.old_node, new_node)


def expand_shard(core: Core, waiting: WaitingClient, message: ExpandShard) -> None:
    control = shard_control(core, message.stream, message.shard)
    check_steady(control)
    if len(control.known.ensemble) >= shard_replicas_max:
        raise TooLarge(f"{control.shard} has {shard_replicas_max} replicas, and that is the most")
    new_node = _new_node(core, control, message.new_node)
    _start(core, waiting, control, ReconfigurationOp.EXPAND, None, new_node)


def contract_shard(core: Core, waiting: WaitingClient, message: ContractShard) -> None:
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
    waiting: WaitingClient,
    control: ShardControl,
    op: ReconfigurationOp,
    old_node: NodeId | None,
    new_node: NodeId | None,
) -> None:
    waiting.shard, waiting.epoch = control.shard, Epoch(control.epoch + 1)
    waiting.old_node, waiting.new_node = old_node, new_node
    start_reconfiguration(core, control, op, old_node=old_node, new_node=new_node)


def is_overtaken(core: Core, waiting: WaitingClient) -> bool:
    """Somebody else has written the metadata before us, and our change was not begun; the client is told."""
    control = None if waiting.shard is None else core.state.shards.get(waiting.shard)
    if control is None or control.phase is not Phase.STEADY or control.epoch >= waiting.epoch:
        return False
    core.refuse(waiting, ReconfigurationAborted("another operator was quicker; nothing was done"))
    return True


def settle_change(core: Core, waiting: WaitingClient, message: Change) -> None:
    """Whatever became of it: the shard is steady again, and its ensemble tells."""
    control = None if waiting.shard is None else core.state.shards.get(waiting.shard)
    if control is None or control.phase is not Phase.STEADY or control.epoch < waiting.epoch:
        return
    ensemble = control.known.ensemble
    is_out = waiting.old_node not in ensemble
    is_in = waiting.new_node is None or waiting.new_node in ensemble
    told = f"{' '.join(ensemble)} in epoch {control.epoch}"
    if is_out and is_in:
        core.answer(waiting, OperatorDone(message.request, told))
    else:
        core.refuse(waiting, ReconfigurationAborted(f"the ensemble is {told}"))


STARTS: dict[type[OperatorRequest], Start] = {
    CreateStream: create_stream,
    DeleteStream: delete_stream,
    DescribeShards: describe_shards,
    ElectLeader: elect_leader,
    SwapNode: swap_node,
    ExpandShard: expand_shard,
    ContractShard: contract_shard,
    DrainNode: drain_node,
    EnableClock: enable_clock,
}

SETTLES: dict[type[OperatorRequest], Start] = {
    CreateStream: settle_creation,
    DeleteStream: settle_deletion,
    ElectLeader: settle_election,
    SwapNode: settle_change,
    ExpandShard: settle_change,
    ContractShard: settle_change,
    DrainNode: settle_drain,
    EnableClock: settle_clock_visibility,
}
