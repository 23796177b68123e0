"""Electing a leader, in the steps of the text:

1. the store gets a higher epoch and the status election (an unfinished PREPARE is dropped with that);
2. fences go to the whole fencing ensemble, again and again to those that do not answer;
3. a majority has answered: the others are given a short grace, so that healthy nodes are in the first
   follower map; then the highest head wins;
4. the winner is told, with the heads of the others and the size of the final ensemble;
5. it answers; the store gets its name, the final ensemble and the status steady state;
6. who answers a fence only now is added to the leader (``followers``).

L1  Nothing of an epoch is sent before the store has it.
L2  A leader of a new shard is told only when the store says that the shard is no longer new: from then on
    only members count.
L3  A leader is told to expect as many replicas as the final ensemble has, whatever the store said before.

An election that comes to no end is begun anew, in a higher epoch, less and less often.

The first entry of a shard is above every clock that was handed out before. Somebody may have read the feed
of all streams up to a clock. A new stream with changes below it would be overlooked. So before a leader
without a log is told to lead, all data nodes are asked for the highest clock that they know of from a log,
and it is told the highest of all.

V1  Every clock that was handed out is in an entry that a majority of an ensemble has. So it is known when a
    majority of each ensemble has answered, to a heartbeat that was sent after the shard came to be known. A
    node that has lost its disk does not count: what it had acknowledged is gone with it.
    What is known for one shard is known for all that came to be known before it, as long as no other shard
    does so: those of one stream are not looked at one by one.
V2  A shard that has lost its majority does not keep streams from being created for ever: after a while those
    are believed that live.
"""

from __future__ import annotations

import msgspec

from motet.core.machine import NS_PER_MS
from motet.core.operator.context import Core
from motet.core.operator.ensembles import (
    Choice,
    candidates,
    choose,
    expanded_epoch,
    fencing_ensemble,
    final_ensemble,
    final_factor,
    is_decided,
    stalled,
)
from motet.core.operator.state import NodeState, Phase, ShardControl
from motet.core.operator.writing import confirm, save
from motet.core.placement.choosing import ranked_leaders
from motet.core.shardlog.messages import (
    RECOVERING,
    BecomeLeaderRequest,
    BecomeLeaderResponse,
    FenceRequest,
    FenceResponse,
    ReconfigurationOp,
)
from motet.core.streams.cluster_messages import (
    ReconfigurationPhase,
    ShardMetadata,
    ShardStatus,
)
from motet.ids import Epoch, LogName, NodeId, ShardName

_failures_without_pause = 3


def start_election(
    core: Core,
    control: ShardControl,
    why: str,
    *,
    preferred: NodeId | None = None,
    avoided: NodeId | None = None,
) -> None:
    """Step 1."""
    known = control.known
    change = known.reconfiguration
    dropped: tuple[NodeId, ...] = ()
    if change is not None and change.phase is ReconfigurationPhase.PREPARE:
        core.note_shard(f"election_drops_{change.op.value}", control)
        dropped = () if change.new_node is None else (change.new_node,)
    core.note_shard("election", control, why)
    control.preferred, control.avoided = preferred, avoided
    metadata = msgspec.structs.replace(
        known,
        epoch=Epoch(max(known.epoch, control.node_epoch) + 1),
        status=ShardStatus.ELECTION,
        leader=None,
        reconfiguration=stalled(known),
        removed_nodes=removed_nodes(known, known.ensemble, dropped),
    )
    save(core, control, metadata, Phase.FENCING)


def removed_nodes(
    metadata: ShardMetadata, ensemble: tuple[NodeId, ...], more: tuple[NodeId, ...]
) -> tuple[NodeId, ...]:
    """The nodes that may hold data they have no use for, when this is the ensemble."""
    removed = dict.fromkeys((*metadata.removed_nodes, *more))
    return tuple(sorted(node for node in removed if node not in ensemble))


def begin_fencing(core: Core, control: ShardControl) -> None:
    """Step 2; the store has the epoch (L1)."""
    config = core.config
    control.answers, control.choice, control.grace_ns = {}, None, None
    control.joins, control.prepared = {}, None
    control.until_ns = core.backoff_ns(config.election_ms, config.election_ms_max, control.failures)
    keep_fencing(core, control)


def keep_fencing(core: Core, control: ShardControl) -> None:
    """Fence those that have not answered yet; choose when it is time; give up when it is too late."""
    if not is_decided(control.known, control.answers):
        control.grace_ns = None  # somebody who had answered has begun a new life
    elif control.grace_ns is not None and core.now_ns >= control.grace_ns:
        _choose(core, control)
        return
    if core.now_ns >= control.until_ns:
        fail_election(core, control, "no majority")
        return
    if core.due(control.retry):
        missing = [n for n in fencing_ensemble(control.known) if n not in control.answers]
        if control.retry.attempts > 1 and missing:
            core.note_shard("fence_again", control, " ".join(missing))
        for node in missing:
            fence(core, control, node)


def fence(core: Core, control: ShardControl, node: NodeId) -> None:
    """Fence a node in the epoch that the store has. A life that we learnt of later is confirmed first."""
    known = control.known
    incarnation = control.incarnations.get(node, 0)
    core.send(node, FenceRequest(LogName(control.shard), known.epoch, incarnation, known.is_new))
    if core.incarnation(node) not in (0, incarnation):
        confirm(core, control)


def on_fence_response(
    core: Core, control: ShardControl, sender: NodeId, message: FenceResponse
) -> None:
    """Step 3, while the phase is FENCING; and later answers, which are kept."""
    if sender not in fencing_ensemble(control.known):
        core.drop("fence_of_a_stranger")
        return
    if not message.is_member:
        core.note_shard("not_a_member", control, sender)
    _note_wiped(core, control, sender, message)
    control.answers[sender] = message
    if control.phase is not Phase.FENCING:
        return
    if not is_decided(control.known, control.answers):
        return
    if control.grace_ns is None:
        control.grace_ns = core.in_ms(core.config.grace_ms)
    if all(n in control.answers or core.is_dead(n) for n in fencing_ensemble(control.known)):
        _choose(core, control)


def _note_wiped(core: Core, control: ShardControl, sender: NodeId, message: FenceResponse) -> None:
    """Remember who has lost its data: if there are too many of them, clients are told so (N5)."""
    was_lost = control.is_lost
    if message.is_member:
        control.wiped.pop(sender, None)
    else:
        control.wiped[sender] = None
    if control.is_lost != was_lost:
        what = "shard_found_again" if was_lost else "shard_lost"
        core.note_shard(what, control, f"without data: {' '.join(sorted(control.wiped))}")
        core.state.map_changed = True


def _choose(core: Core, control: ShardControl) -> None:
    """The end of step 3."""
    known = control.known
    choice = choose(known, _considered(control), _ranked(core, control))
    assert choice is not None, "the majority stays one"
    _note_choice(core, control, choice)
    control.choice, control.grace_ns = choice, None
    if known.is_new:
        save(core, control, msgspec.structs.replace(known, is_new=False), Phase.NOTIFY_LEADER)  # L2
        return
    core.enter(control, Phase.NOTIFY_LEADER)


def _considered(control: ShardControl) -> dict[NodeId, FenceResponse]:
    """All answers, or all but the one of a leader that is to be left: it counts as one that comes late."""
    others = {n: answer for n, answer in control.answers.items() if n != control.avoided}
    if is_decided(control.known, others) and candidates(control.known, others):
        return others
    return control.answers


def _ranked(core: Core, control: ShardControl) -> list[NodeId]:
    leads: dict[NodeId, int] = {}
    for other in core.state.shards.values():
        leader = None if other.metadata is None else other.metadata.leader
        if leader is None and other.choice is not None:
            leader = other.choice.leader
        if leader is not None and other is not control:
            leads[leader] = leads.get(leader, 0) + 1
    unwanted = [
        *core.state.drains,
        *core.drifting(),
        *([control.avoided] if control.avoided else []),
    ]
    ranked = ranked_leaders(final_ensemble(control.known), leads, unwanted)
    if control.preferred is not None:
        return [control.preferred, *ranked]
    return ranked


def _note_choice(core: Core, control: ShardControl, choice: Choice) -> None:
    heads = [f"{node}{answer.head_index}" for node, answer in sorted(control.answers.items())]
    asked = len(fencing_ensemble(control.known))
    text = f"fenced {' '.join(heads)} of {asked}; leader {choice.leader}"
    core.note_shard("leader_chosen", control, text)


def begin_notifying(core: Core, control: ShardControl) -> None:
    """Step 4."""
    control.until_ns = core.in_ms(core.config.step_ms)
    keep_notifying(core, control)


def keep_notifying(core: Core, control: ShardControl) -> None:
    choice, known = control.choice, control.known
    assert choice is not None
    if core.is_dead(choice.leader) or core.now_ns >= control.until_ns:
        fail_election(core, control, f"{choice.leader} does not answer")
    elif _is_newborn(control) and not may_begin(core, control):
        control.until_ns = core.in_ms(core.config.step_ms)
    elif core.due(control.retry, doubles=False):
        factor, clock = final_factor(known), core.state.logged  # L3
        request = BecomeLeaderRequest(
            LogName(control.shard), known.epoch, factor, choice.follower_map, clock
        )
        core.send(choice.leader, request)


def _is_newborn(control: ShardControl) -> bool:
    """Whether whoever is to lead has never had an entry."""
    assert control.choice is not None
    return control.answers[control.choice.leader].head_index.is_none


def on_become_leader_response(
    core: Core, control: ShardControl, sender: NodeId, _message: BecomeLeaderResponse
) -> None:
    """Step 5."""
    choice = control.choice
    if control.phase is not Phase.NOTIFY_LEADER or choice is None or sender != choice.leader:
        core.drop("not_waiting_for_a_leader")
        return
    known = control.known
    change = stalled(known)
    final = final_ensemble(known)
    control.wiped = {}
    if change is not None:
        does = "rolls_back" if change.op is ReconfigurationOp.CONTRACT else "completes"
        core.note_shard(f"election_{does}_{change.op.value}", control)
    metadata = msgspec.structs.replace(
        known,
        status=ShardStatus.STEADY_STATE,
        leader=sender,
        ensemble=final,
        replication_factor=len(final),
        reconfiguration=None,
        removed_nodes=removed_nodes(known, final, known.ensemble),
        expanded_epoch=expanded_epoch(known),
    )
    save(core, control, metadata, Phase.STEADY)


def fail_election(core: Core, control: ShardControl, why: str) -> None:
    """Begin anew in a higher epoch; if that happens again and again, after a pause."""
    config = core.config
    core.note_shard("election_failed", control, why)
    control.failures += 1
    if control.failures < _failures_without_pause:
        start_election(core, control, why, preferred=control.preferred, avoided=control.avoided)
        return
    control.left_alone = control.version  # nobody else is at it, as far as we know
    core.enter(control, Phase.WAITING)
    pauses = control.failures - _failures_without_pause
    control.until_ns = core.backoff_ns(config.retry_ms, config.election_ms_max, pauses)


# When a new shard may begin


def may_begin(core: Core, control: ShardControl) -> bool:
    """Whether all clocks are known that were handed out before the shard came to be known."""
    state = core.state
    for node in state.nodes.values():
        if node.has_data and not node.is_dead and node.round < control.creation_round:
            return False
    if core.now_ns - control.since_ns >= core.config.creation_ms * NS_PER_MS:
        return True  # V2
    if control.creation_round <= state.created_round:
        return True
    unknown = [
        other
        for other in state.shards.values()
        if other is not control and not _is_known(core, other, control.creation_round)
    ]
    if not unknown:
        state.created_round = control.creation_round
    return not unknown


def _is_known(core: Core, other: ShardControl, since_round: int) -> bool:
    """V1, for one shard. One that is new has handed out nothing, and one that is deleted has no readers.

    Nor has one that was founded with the new shard, or after it, handed out anything before.
    """
    known = other.metadata
    if known is None or known.is_new or known.status is ShardStatus.DELETING:
        return True
    if other.is_founded and other.creation_round >= since_round:
        return True
    told = [node for node in known.ensemble if _has_told(core.node(node), other.shard, since_round)]
    return 2 * len(told) > len(known.ensemble)


def _has_told(node: NodeState | None, shard: ShardName, since_round: int) -> bool:
    if node is None or not node.is_alive or node.round < since_round:
        return False
    report = node.reports.get(shard)
    return report is not None and report.is_whole and report.status != RECOVERING
