"""Who lives: data nodes are asked at a steady pace, and taken for dead when they do not answer for long.

H1  Only answers of this operator's present life count: heartbeats are numbered from a number of its own.
H2  Being taken for dead decides nothing about data. A dead leader is replaced by an election, which needs a
    majority, and a dead follower by a swap, after a grace period.
H3  Whether a node's wall is wrong is what the node says itself, which compares it with the time that a
    majority of the nodes agrees on; the wall of the operator counts for nothing.
"""

from __future__ import annotations

from motet.core.machine import NS_PER_MS
from motet.core.operator.clock_visibility import take_turned
from motet.core.operator.context import Core
from motet.core.operator.deletion import find_leftovers, find_missing, take_sealed
from motet.core.operator.elections import start_election
from motet.core.operator.followers import look_at_reports, look_at_stranger
from motet.core.operator.loading import HEARTBEAT
from motet.core.operator.state import NodeState, Phase
from motet.core.streams.cluster_messages import HeartbeatAnswer
from motet.ids import NodeId
from motet.limits import clock_drift_ms_max

_rounds_per_life = 1 << 32


def first_round(nonce: int) -> int:
    """H1."""
    return (nonce % (1 << 30)) * _rounds_per_life


def on_heartbeat_timer(core: Core) -> None:
    """Ask everybody, and see who has been silent for too long."""
    state = core.state
    core.timer(HEARTBEAT, core.config.heartbeat_ms, in_step=True)
    core.ask_nodes()
    silent_ns = core.config.dead_after_ms * NS_PER_MS
    for node in state.nodes.values():
        if not node.has_data:
            continue
        if not node.is_dead and core.now_ns - node.heard_ns >= silent_ns:
            node.is_dead = True
            core.note("node_dead", node.id)
    for control in state.shards.values():
        if control.phase is Phase.STEADY:
            leader = control.known.leader
            if leader is not None and core.is_dead(leader):
                start_election(core, control, f"{leader} is dead")


def on_heartbeat_answer(core: Core, sender: NodeId, message: HeartbeatAnswer) -> None:
    state = core.state
    node = state.nodes.get(sender)
    if node is None or not max(node.round, first_round(state.nonce)) < message.round <= state.round:
        core.drop("heartbeat_answer")
        return
    is_back = node.is_dead or node.incarnation != message.incarnation
    if node.is_dead:
        core.note("node_back", node.id)
    elif node.incarnation not in (0, message.incarnation):
        core.note("node_restarted", node.id)
    node.heard_ns, node.round = core.now_ns, message.round
    node.is_heard, node.is_dead = True, False
    node.incarnation, node.map_version = message.incarnation, message.map_version
    node.reports = {report.shard: report for report in message.shards}
    _look_at_drift(core, node, message.drift_ms)
    state.clock = max(state.clock, message.clock)
    state.found = max(state.found, message.found)
    state.logged = max(state.logged, message.logged)
    for control in state.shards.values():
        if control.metadata is None:
            continue
        if sender in control.metadata.ensemble:
            look_at_reports(core, control, node)
        else:
            look_at_stranger(core, control, node)
    find_leftovers(core, node)
    find_missing(core, node, message.missing)
    if message.sealed:
        take_sealed(core, sender, message.sealed)
    take_turned(core, message.turned)
    if is_back:
        _welcome(core, node)


def _look_at_drift(core: Core, node: NodeState, drift_ms: int | None) -> None:
    """Who drifts loses its leaderships (``moves``), until it has been right for a while (H3)."""
    node.drift_ms = drift_ms
    if drift_ms is not None and abs(drift_ms) > clock_drift_ms_max:
        if node.drifted_ns is None:
            core.note("node_drifts", f"{node.id}: its wall clock is off by {drift_ms} ms")
        node.drifted_ns = core.now_ns
    elif node.drifted_ns is not None:
        hold_ns = core.config.drift_hold_ms * NS_PER_MS
        if core.now_ns - node.drifted_ns >= hold_ns:
            core.note("node_drifts_no_more", node.id)
            node.drifted_ns = None


def _welcome(core: Core, node: NodeState) -> None:
    """What was said to it before was lost: say it again now."""
    for control in core.state.shards.values():
        if control.phase is Phase.FENCING:
            if control.incarnations.get(node.id, 0) not in (0, node.incarnation):
                control.answers.pop(node.id, None)  # of an earlier life
            control.retry.next_ns, control.retry.attempts = core.now_ns, 0
        join = control.joins.get(node.id)
        if join is not None:
            join.retry.next_ns, join.retry.attempts = core.now_ns, 0
