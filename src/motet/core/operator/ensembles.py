"""Who is fenced, who may lead, and who leads: what an election decides, as pure functions.

A change of the ensemble that stalled in its commit phase may or may not have been applied by the leader. So
an election asks more nodes than it may choose from:

========  =====================  =======================================
stalled   fencing ensemble       final ensemble
========  =====================  =======================================
nothing   ensemble               ensemble
swap      ensemble + new         ensemble - old + new
expand    ensemble + new         ensemble + new
contract  ensemble               ensemble: it is rolled back
========  =====================  =======================================

Without the new node among the fenced, two majorities could go on side by side. A contraction is rolled back
because the fenced majority is one of the old ensemble: of five nodes, a write on {1,4,5} and answers from
{2,3,5} would leave only {2,3} to choose from.

N1  Fences go to the whole fencing ensemble, and the majority is one of the fencing ensemble.
N2  Who has lost its disk may have acknowledged what it lost. So besides a majority that is fenced there have
    to be members among it that meet every majority by which something can have been committed: as many as
    the majority itself; or half of an even ensemble that is not being changed, once something is known to be
    committed that came after its last expansion. What was committed before that one may be on half of the
    nodes only: two of three that have become four.
N3  The leader is a member of the final ensemble with the highest head of those that answered, by epoch first.
    Whoever is preferred wins only among equals.
N4  Followers are those of the final ensemble that have answered.
N5  When so many nodes have lost what they acknowledged that no election can be decided, whoever of the others
    answers, the shard is *lost*: only the files of one of these nodes could bring it back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from motet.core.shardlog.entry import EntryId
from motet.core.shardlog.messages import FenceResponse, ReconfigurationOp
from motet.core.streams.cluster_messages import Reconfiguration, ReconfigurationPhase, ShardMetadata
from motet.ids import Epoch, NodeId

Answers = Mapping[NodeId, FenceResponse]


class Choice(msgspec.Struct, frozen=True):
    """What an election has come to."""

    leader: NodeId
    #: the other nodes of the final ensemble that have answered, and their heads
    follower_map: tuple[tuple[NodeId, EntryId], ...]


def majority(count: int) -> int:
    """How many of so many are more than half."""
    return count // 2 + 1


def stalled(metadata: ShardMetadata) -> Reconfiguration | None:
    """The change of the ensemble that an election has to resolve: one in its commit phase."""
    change = metadata.reconfiguration
    if change is None or change.phase is not ReconfigurationPhase.COMMIT:
        return None
    return change


def fencing_ensemble(metadata: ShardMetadata) -> tuple[NodeId, ...]:
    """Who has to be asked."""
    change = stalled(metadata)
    if change is None or change.new_node is None:
        return metadata.ensemble
    return (*metadata.ensemble, change.new_node)


def final_ensemble(metadata: ShardMetadata) -> tuple[NodeId, ...]:
    """Who may be chosen, and is the ensemble afterwards."""
    change = stalled(metadata)
    if change is None or change.op is ReconfigurationOp.CONTRACT:
        return metadata.ensemble
    return changed_ensemble(metadata.ensemble, change)


def final_factor(metadata: ShardMetadata) -> int:
    """How many replicas the leader is told to expect: as many as there are to choose from."""
    return len(final_ensemble(metadata))


def changed_ensemble(ensemble: tuple[NodeId, ...], change: Reconfiguration) -> tuple[NodeId, ...]:
    """The ensemble when a change is complete."""
    kept = tuple(node for node in ensemble if node != change.old_node)
    return kept if change.new_node is None else (*kept, change.new_node)


def is_decided(metadata: ShardMetadata, answers: Answers) -> bool:
    """Whether enough nodes have answered to choose a leader (N1, N2)."""
    asked = fencing_ensemble(metadata)
    fenced = [node for node in asked if node in answers]
    members = [node for node in fenced if answers[node].is_member]
    needed = majority(len(asked))
    if len(fenced) < needed:
        return False
    if stalled(metadata) or not _is_grown_into(metadata, [answers[node] for node in members]):
        return len(members) >= needed
    return len(members) >= len(asked) - needed + 1


def is_lost(metadata: ShardMetadata, wiped: Sequence[NodeId]) -> bool:
    """Whether the nodes that have lost their data are too many for any election to be decided (N5)."""
    asked = fencing_ensemble(metadata)
    needed = majority(len(asked))
    least = needed if stalled(metadata) else len(asked) - needed + 1
    return len(asked) - len([node for node in asked if node in wiped]) < least


def _is_grown_into(metadata: ShardMetadata, members: Sequence[FenceResponse]) -> bool:
    """Whether all that was ever committed is on a majority of the ensemble as it is."""
    expanded = metadata.expanded_epoch
    return expanded == 0 or any(answer.commit_index.epoch > expanded for answer in members)


def expanded_epoch(metadata: ShardMetadata) -> Epoch:
    """Of the ensemble when the change that is under way, if any, is complete."""
    change = metadata.reconfiguration
    is_expanded = change is not None and change.op is ReconfigurationOp.EXPAND
    return metadata.epoch if is_expanded else metadata.expanded_epoch


def candidates(metadata: ShardMetadata, answers: Answers) -> list[NodeId]:
    """Those with the highest head (N3), in the order of the ensemble."""
    members = [
        node for node in final_ensemble(metadata) if node in answers and answers[node].is_member
    ]
    highest = max((answers[node].head_index for node in members), default=None)
    return [node for node in members if answers[node].head_index == highest]


def choose(metadata: ShardMetadata, answers: Answers, ranked: Sequence[NodeId]) -> Choice | None:
    """The leader and its followers; ``ranked`` is who leads rather, among equals."""
    if not is_decided(metadata, answers):
        return None
    equals = candidates(metadata, answers)
    if not equals:
        return None
    leader = next((node for node in ranked if node in equals), equals[0])
    others = tuple(
        (node, answers[node].head_index)
        for node in final_ensemble(metadata)
        if node in answers and node != leader
    )
    return Choice(leader, others)
