"""Moving replicas without being asked for each: away from nodes that are dead for long or are to be emptied.

For each shard one thing at a time, in this order:

1. the leader is on a node that is to be emptied, or whose wall clock is wrong: an election that prefers
   somebody else with an equal head. If the leader has been writing all the while and has the highest head, it
   wins again; after a few of those its answer is left out, which is as if it came late. A shard of one node
   is expanded first if that node is to be emptied. If only its wall is wrong it stays: it goes by the time
   of the others;
2. a follower is on a node that is to be emptied, or has been dead for the grace period: it is swapped for a
   node that has room. If the ensemble is larger than it should be, or follows the number of data nodes and
   there are fewer now, it is contracted instead;
3. nothing of that, all shards have been steady for a while, and one node leads at least two shards more than
   another of the same ensemble: a leadership is handed on, one at a time, by an election as in 1.

V1  At most ``moves_max`` changes that nobody asked for are under way at once.
V2  A follower that is dead is not contracted away: it may come back, and then nothing has to be copied.
V3  An ensemble is contracted only when most of those who stay live and have everything. Else the smaller
    one could commit nothing, would be given up by an election, and begun again, for ever: the elections
    would keep those who lack something from ever getting it.
"""

from __future__ import annotations

from motet.core.machine import NS_PER_MS
from motet.core.metadata.paths import drain_path
from motet.core.operator.context import Core
from motet.core.operator.elections import start_election
from motet.core.operator.reconfigurations import start_reconfiguration
from motet.core.operator.state import CallKind, Phase, ShardControl, StoreCall, WaitingClient
from motet.core.placement.choosing import addition, handover
from motet.core.shardlog.messages import ReconfigurationOp
from motet.core.streams.cluster_messages import DrainNode, OperatorDone
from motet.errors.operator import NoNodeToPlaceOn, NoSuchNode
from motet.ids import NodeId

_handovers_before_force = 3


def move_replicas(core: Core) -> None:
    """Begin what is to be done, as much as may be under way at once (V1)."""
    state = core.state
    if not state.is_loaded or not core.is_settled:
        return
    unwanted = _unwanted(core)
    if not unwanted and not core.drifting():
        _balance_leaders(core)
        return
    under_way = sum(control.is_move for control in state.shards.values())
    for control in state.shards.values():
        if under_way >= core.config.moves_max:
            return
        if control.phase is Phase.STEADY and core.now_ns >= control.move_ns:
            under_way += _move(core, control, unwanted)


def _unwanted(core: Core) -> dict[NodeId, None]:
    """Nodes that should hold nothing."""
    grace_ns = core.config.replace_after_ms * NS_PER_MS
    long_dead = [
        node.id
        for node in core.state.nodes.values()
        if node.is_dead and core.now_ns - node.heard_ns >= grace_ns
    ]
    return dict.fromkeys(sorted([*core.state.drains, *long_dead]))


def _move(core: Core, control: ShardControl, unwanted: dict[NodeId, None]) -> bool:
    known = control.known
    assert known.leader is not None
    if known.leader in core.state.drains:
        return _hand_over(core, control, known.leader)
    if known.leader in core.drifting():
        _leave_drifting(core, control, known.leader)
        return False
    control.handovers = 0
    for node in known.ensemble:
        if node in unwanted and node != known.leader:
            return _replace(core, control, node)
    return False


def _hand_over(core: Core, control: ShardControl, leader: NodeId) -> bool:
    """Somebody else is to lead."""
    known = control.known
    others = [n for n in known.ensemble if core.is_alive(n) and n not in core.state.drains]
    if not others:
        new_node = addition(core.load(), known.ensemble)
        if new_node is None:
            return False
        start_reconfiguration(
            core, control, ReconfigurationOp.EXPAND, new_node=new_node, is_move=True
        )
        return True
    control.move_ns = core.backoff_ns(core.config.retry_ms, core.config.retry_ms_max, 0)
    _elect_another(core, control, others[0], f"{leader} is to be emptied")
    return False


def _leave_drifting(core: Core, control: ShardControl, leader: NodeId) -> None:
    """Somebody else is to lead whose wall is right, if there is one."""
    unfit = [*core.state.drains, *core.drifting()]
    others = [
        node
        for node in control.known.ensemble
        if core.is_alive(node) and node not in unfit and _has_caught_up(core, control, node)
    ]
    if others:
        control.move_ns = core.backoff_ns(core.config.retry_ms, core.config.retry_ms_max, 0)
        _elect_another(core, control, others[0], f"the wall clock of {leader} is wrong")


def _elect_another(core: Core, control: ShardControl, wanted: NodeId, why: str) -> None:
    """An election that the leader wins again if it has the highest head, but not for ever."""
    leader = control.known.leader
    control.handovers += 1
    is_forced = control.handovers > _handovers_before_force
    if is_forced:
        control.handovers = 0
        core.note_shard("hands_over_by_force", control, leader or "")
    avoided = leader if is_forced else None
    start_election(core, control, why, preferred=wanted, avoided=avoided)


def _balance_leaders(core: Core) -> None:
    """Hand one leadership on, if all is steady for long."""
    state = core.state
    controls = list(state.shards.values())
    is_steady = all(control.phase is Phase.STEADY for control in controls)
    if is_steady and core.now_ns < state.balance_ns:
        return
    is_due = is_steady and state.balance_ns != 0
    state.balance_ns = core.in_ms(core.config.balance_after_ms)
    if not is_due:
        return
    shards = [(control.known.ensemble, control.known.leader) for control in controls]
    led = [(ensemble, leader) for ensemble, leader in shards if leader is not None]
    assert len(led) == len(controls), "a steady shard has a leader"
    found = handover(led, core.load().leads)
    if found is not None and _has_caught_up(core, controls[found[0]], found[1]):
        number, node = found
        core.note_shard("balances_leaders", controls[number], node)
        _elect_another(core, controls[number], node, f"{node} leads less than others")


def _has_caught_up(core: Core, control: ShardControl, node: NodeId) -> bool:
    """Whether a node has all that is committed: an election would interrupt one that is being brought up."""
    leader = None if control.known.leader is None else core.node(control.known.leader)
    report = None if leader is None else leader.reports.get(control.shard)
    return report is not None and node in report.caught_up


def _replace(core: Core, control: ShardControl, old_node: NodeId) -> bool:
    """A follower goes, and another node comes in its place if there should be one."""
    known = control.known
    is_drained = old_node in core.state.drains
    found = core.state.definitions.get(control.stream)
    if found is None:
        return False  # what stands in the store cannot be read: nothing is moved before it can
    definition = found.value
    new_node = addition(core.load(), known.ensemble)
    wanted = definition.replicas or core.config.replicas
    is_too_large = len(known.ensemble) > wanted
    follows_nodes = definition.replicas is None and new_node is None
    if is_drained and (is_too_large or follows_nodes):
        if not _can_do_without(core, control, old_node):
            return False
        op, new_node = ReconfigurationOp.CONTRACT, None
    elif new_node is not None:
        op = ReconfigurationOp.NODE_SWAP
    else:
        return False
    start_reconfiguration(core, control, op, old_node=old_node, new_node=new_node, is_move=True)
    return True


def _can_do_without(core: Core, control: ShardControl, old_node: NodeId) -> bool:
    """Whether most of the others live and have all that is committed, as the leader has last said (V3)."""
    known = control.known
    leader = None if known.leader is None else core.state.nodes.get(known.leader)
    report = None if leader is None else leader.reports.get(control.shard)
    if report is None or report.epoch != known.epoch:
        return False
    staying = [node for node in known.ensemble if node != old_node]
    has_all = (known.leader, *report.caught_up)
    fit = [node for node in staying if node in has_all and core.is_alive(node)]
    return len(fit) > len(staying) // 2


# Draining


def drain_node(core: Core, waiting: WaitingClient, message: DrainNode) -> None:
    """Check whether it can be done; the rest is done by ``settle_drain``."""
    node = core.state.nodes.get(message.node)
    if node is None or not node.has_data:
        raise NoSuchNode(f"there is no data node {message.node!r}")
    if message.is_drained:
        _check_room(core, message.node)
    settle_drain(core, waiting, message)


def _check_room(core: Core, node: NodeId) -> None:
    load = core.load()
    load.replicas.pop(node, None)
    for control in core.state.shards.values():
        if control.metadata is None or node not in control.metadata.ensemble:
            continue
        definition = core.state.definitions.get(control.stream)
        is_flexible = definition is not None and definition.value.replicas is None
        can_shrink = is_flexible and len(control.metadata.ensemble) > 1
        if not can_shrink and addition(load, control.metadata.ensemble) is None:
            raise NoNodeToPlaceOn(f"{control.shard} could go nowhere else")


def settle_drain(core: Core, waiting: WaitingClient, message: DrainNode) -> None:
    """Write it down, if it is not yet; answer when it has come true."""
    state, node = core.state, message.node
    is_there = node in state.drains
    if message.is_drained and not is_there:
        if not core.is_asked(CallKind.PUT_DRAIN, node):
            call = StoreCall(CallKind.PUT_DRAIN, core.now_ns, about=node)
            core.put(drain_path(node), b"", None, call)
    elif message.is_drained and not any(_holds(control, node) for control in state.shards.values()):
        core.answer(waiting, OperatorDone(message.request, f"{node} is empty"))
    elif not message.is_drained and is_there:
        if not core.is_asked(CallKind.FORGET_DRAIN, node):
            call = StoreCall(CallKind.FORGET_DRAIN, core.now_ns, about=node)
            core.delete(drain_path(node), state.drains[node], call)
    elif not message.is_drained:
        core.answer(waiting, OperatorDone(message.request, f"{node} takes replicas"))


def _holds(control: ShardControl, node: NodeId) -> bool:
    known, coming = control.metadata, control.writing
    return any(
        node in (*each.ensemble, *each.removed_nodes)
        for each in (known, coming)
        if each is not None
    )


def on_drain_written(core: Core, node: NodeId, version: int) -> None:
    core.note("drains", node)
    core.state.drains[node] = version
    core.state.map_changed = True


def on_drain_forgotten(core: Core, node: NodeId) -> None:
    core.state.drains.pop(node, None)
    core.state.map_changed = True
