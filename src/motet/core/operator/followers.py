"""The steady state: late followers join, nodes that have left are cleaned up, and a leader that is none goes.

Step 6 of an election, and the same for whoever comes back later: a node of the ensemble that the leader may
not know of is fenced in the present epoch, and its head is handed to the leader. Both are repeated, less and
less often, until the leader says that the node has a cursor, or another election begins.

How it is known who has to join: whoever was not in the follower map; and whoever says in a heartbeat answer
that it is fenced, has an older epoch, or nothing at all. Only answers to heartbeats that were sent after the
shard became steady say anything about that.

J1  Only nodes of the ensemble are added, never one that has left it.
J2  A node that has left is told to delete the shard, in the present epoch, and that it lives on: so an order
    from this epoch or an earlier one cannot hurt if it comes late. The store names it until it has done so.
J3  It is told so only when the leader has committed something in the present epoch: then all that the leader
    began with is on a majority without that node.
J4  An order that comes late can make a node hold something of the shard again that has left and was cleaned
    up. Who says so in a heartbeat answer is written down among those that have left, and cleaned up again.
J5  That a follower says of itself that it follows is not enough: the leader says which ones lack something
    and get nothing new. Nothing is done about it but to tell.
"""

from __future__ import annotations

import msgspec

from motet.core.operator.context import Core
from motet.core.operator.elections import fence, start_election
from motet.core.operator.state import Join, NodeState, Phase, Retry, ShardControl
from motet.core.operator.writing import look_again, overtaken, save
from motet.core.shardlog.messages import (
    FENCED,
    LEADER,
    RECOVERING,
    AddFollowerRequest,
    AddFollowerResponse,
    DeleteShardRequest,
    DeleteShardResponse,
    FenceResponse,
    ShardReport,
)
from motet.ids import LogName, NodeId


def begin_steady(core: Core, control: ShardControl) -> None:
    """The store says steady state. Deal with the late answers, and fence again who is missing."""
    known, choice = control.known, control.choice
    control.failures = 0
    control.is_move = False
    control.preferred = control.avoided = None
    if control.steady_epoch == known.epoch:
        return  # only the nodes that have left were written down
    control.steady_epoch, control.steady_round = known.epoch, core.state.round
    control.joins, control.deletions = {}, {}
    if choice is not None and choice.leader == known.leader:
        told = dict(choice.follower_map)
        for node in known.ensemble:
            if node != known.leader and node not in told:
                _join(core, control, node)
    control.answers, control.choice = {}, None
    core.note_shard("steady", control, f"{known.leader} leads {' '.join(known.ensemble)}")
    keep_steady(core, control)


def _join(core: Core, control: ShardControl, node: NodeId) -> None:
    answer = control.answers.get(node)
    if answer is not None:
        core.note_shard("late_fence", control, f"{node} {answer.head_index}")
    join = Join(Retry(core.now_ns), None if answer is None else answer.head_index)
    control.joins[node] = join


def keep_steady(core: Core, control: ShardControl) -> None:
    """What has to be said again."""
    known = control.known
    if control.node_epoch > known.epoch:
        start_election(core, control, f"a node is in epoch {control.node_epoch}")  # W6
        return
    for node, join in control.joins.items():
        if join.is_added or not core.due(join.retry):
            continue
        if join.head_index is None:
            core.note_shard("fence_again", control, node)
            fence(core, control, node)
        elif known.leader is not None:
            request = AddFollowerRequest(LogName(control.shard), known.epoch, node, join.head_index)
            core.send(known.leader, request)
    if known.removed_nodes and _has_committed(core, control):
        _delete_leftovers(core, control)
    look_again(core, control)


def is_at_rest(core: Core, control: ShardControl) -> bool:
    """Nobody has to join or to be cleaned up who could."""
    if any(not join.is_added for join in control.joins.values()):
        return False
    return not any(core.is_alive(node) for node in control.known.removed_nodes)


def _has_committed(core: Core, control: ShardControl) -> bool:
    """J3, as far as the leader has said so after the shard became steady."""
    known = control.known
    leader = None if known.leader is None else core.node(known.leader)
    if leader is None or leader.round <= control.steady_round:
        return False
    report = leader.reports.get(control.shard)
    return report is not None and report.commit_index.epoch == known.epoch


def _delete_leftovers(core: Core, control: ShardControl) -> None:
    known = control.known
    for node in known.removed_nodes:
        retry = control.deletions.setdefault(node, Retry(core.now_ns))
        if core.is_alive(node) and core.due(retry):
            core.send(node, DeleteShardRequest(LogName(control.shard), known.epoch))  # J2


def on_late_fence(
    core: Core, control: ShardControl, sender: NodeId, message: FenceResponse
) -> None:
    """Who answers now becomes a follower (J1)."""
    known = control.known
    join = control.joins.get(sender)
    if sender not in known.ensemble or sender == known.leader or known.leader is None:
        core.drop("fence_of_a_stranger")
        return
    if join is None or join.is_added:
        return  # the leader has it already
    core.note_shard("late_fence", control, f"{sender} {message.head_index}")
    join.head_index = message.head_index
    join.retry = Retry(core.now_ns)
    keep_steady(core, control)


def on_add_follower_response(
    core: Core, control: ShardControl, sender: NodeId, message: AddFollowerResponse
) -> None:
    if control.phase is Phase.STEADY and sender == control.known.leader:
        join = control.joins.get(message.follower)
        if join is not None and not join.is_added:
            core.note_shard("follower_added", control, message.follower)
            join.is_added = True
    else:
        core.drop("not_waiting_for_a_follower")


def on_delete_shard_response(
    core: Core, control: ShardControl, sender: NodeId, _message: DeleteShardResponse
) -> None:
    """Nothing of the shard is left there, so it need not be remembered."""
    known = control.known
    if control.phase is not Phase.STEADY or sender not in known.removed_nodes:
        core.drop("not_waiting_for_a_deletion")
        return
    core.note_shard("cleaned_up", control, sender)
    kept = tuple(node for node in known.removed_nodes if node != sender)
    save(core, control, msgspec.structs.replace(known, removed_nodes=kept), Phase.STEADY)


def look_at_reports(core: Core, control: ShardControl, node: NodeState) -> None:
    """A node of the ensemble has answered a heartbeat. Is it what the store says it is?"""
    known = control.known
    if control.phase is not Phase.STEADY or node.round <= control.steady_round:
        return
    report = node.reports.get(control.shard)
    if report is not None and report.epoch > known.epoch:
        overtaken(core, control, node.id, report.epoch)
    elif node.id == known.leader:
        _look_at_leader(core, control, report)
    elif node.id in known.ensemble:
        _look_at_follower(core, control, node.id, report)


def look_at_stranger(core: Core, control: ShardControl, node: NodeState) -> None:
    """A node outside the ensemble has answered a heartbeat. Does it hold something of the shard (J4)?"""
    known = control.known
    report = node.reports.get(control.shard)
    if control.phase is not Phase.STEADY or node.round <= control.steady_round or report is None:
        return
    if report.epoch > known.epoch:
        overtaken(core, control, node.id, report.epoch)
    elif node.id not in known.removed_nodes:
        core.note_shard("stranger", control, node.id)
        removed = tuple(sorted((*known.removed_nodes, node.id)))
        save(core, control, msgspec.structs.replace(known, removed_nodes=removed), Phase.STEADY)


def _look_at_leader(core: Core, control: ShardControl, report: ShardReport | None) -> None:
    known = control.known
    if report is not None and report.status == LEADER and report.epoch == known.epoch:
        _note_stalled(core, control, report)
        return
    status = "holds nothing" if report is None else f"is {report.status}"
    start_election(core, control, f"{known.leader} {status}")


def _note_stalled(core: Core, control: ShardControl, report: ShardReport) -> None:
    """Who does not get on is told once, and once more when it does (J5)."""
    before, control.stalled = control.stalled, dict(report.stalled)
    for node, state in control.stalled.items():
        if node not in before:
            core.note_shard("follower_stalled", control, f"{node} {state}")
    for node in before:
        if node not in control.stalled and node in control.known.ensemble:
            core.note_shard("follower_recovered", control, node)


def _look_at_follower(
    core: Core, control: ShardControl, node: NodeId, report: ShardReport | None
) -> None:
    join = control.joins.get(node)
    if report is not None and report.status != FENCED and report.epoch == control.epoch:
        if report.status != RECOVERING:
            control.joins.pop(node, None)  # it follows this leader, which so has a cursor for it
    elif join is None:
        core.note_shard("fence_missing", control, node)
        _join(core, control, node)
        keep_steady(core, control)
    elif join.is_added and core.now_ns >= join.retry.next_ns:
        join.head_index, join.is_added = None, False  # less and less often
