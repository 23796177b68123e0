"""Small cases tried one by one: where a committed entry can be, whom an election has heard, who leads then.

One entry is enough. It is on some nodes and committed; an election then hears some nodes. Either the leader
it chooses has the entry, or the entry is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import msgspec

from motet.core.operator.ensembles import Choice, choose, fencing_ensemble, majority
from motet.core.shardlog.entry import NO_ENTRY, EntryId
from motet.core.shardlog.messages import FenceResponse, ReconfigurationOp
from motet.core.streams.cluster_messages import (
    Reconfiguration,
    ReconfigurationPhase,
    ShardMetadata,
    ShardStatus,
)
from motet.ids import Epoch, LogName, NodeId, Offset, ShardName

SHARD = LogName(ShardName("0000000000000001.0"))
ENTRY = EntryId(Epoch(1), Offset(1))


class Case(msgspec.Struct, frozen=True):
    """An entry that was committed, and the nodes that an election has heard."""

    holders: tuple[NodeId, ...]
    fenced: tuple[NodeId, ...]


def named(numbers: Iterator[int] | range) -> tuple[NodeId, ...]:
    return tuple(NodeId(f"n{number}") for number in numbers)


def stalled_in_commit(op: ReconfigurationOp, nodes: int) -> ShardMetadata:
    """n1 leads; the last node is to leave, and one more to join."""
    ensemble = named(range(1, nodes + 1))
    old = None if op is ReconfigurationOp.EXPAND else ensemble[-1]
    new = None if op is ReconfigurationOp.CONTRACT else NodeId(f"n{nodes + 1}")
    factor = nodes + (op is ReconfigurationOp.EXPAND) - (op is ReconfigurationOp.CONTRACT)
    change = Reconfiguration(op, ReconfigurationPhase.COMMIT, old, new, factor, ENTRY)
    return ShardMetadata(SHARD, Epoch(3), ShardStatus.ELECTION, None, ensemble, nodes, change)


def steady(nodes: int) -> ShardMetadata:
    ensemble = named(range(1, nodes + 1))
    return ShardMetadata(SHARD, Epoch(2), ShardStatus.ELECTION, None, ensemble, nodes)


def subsets(nodes: tuple[NodeId, ...], least: int) -> Iterator[tuple[NodeId, ...]]:
    for count in range(least, len(nodes) + 1):
        yield from combinations(nodes, count)


def committed(metadata: ShardMetadata) -> Iterator[tuple[NodeId, ...]]:
    """Where an entry can be that the leader n1 has committed, before, during and after the change."""
    ensemble, change = metadata.ensemble, metadata.reconfiguration
    leader = ensemble[0]
    before = [s for s in subsets(ensemble, majority(len(ensemble))) if leader in s]
    if change is None:
        yield from before
        return
    # What was committed before is in the snapshot that the new node has.
    extra = () if change.new_node is None else (change.new_node,)
    yield from ((*nodes, *extra) for nodes in before)
    counted = tuple(node for node in ensemble if node != change.old_node)
    yield from (s for s in subsets(counted, majority(len(ensemble))) if leader in s)
    after = (*counted, *extra)
    yield from (s for s in subsets(after, majority(change.replication_factor)) if leader in s)


def lost(metadata: ShardMetadata, asked: tuple[NodeId, ...] | None = None) -> list[Case]:
    """All cases in which the leader that is chosen does not have the entry."""
    asked = fencing_ensemble(metadata) if asked is None else asked
    found = []
    for holders in dict.fromkeys(committed(metadata)):
        for fenced in subsets(asked, majority(len(asked))):
            choice = elected(metadata, holders, fenced)
            if choice is not None and choice.leader not in holders:
                found.append(Case(holders, fenced))
    return found


def elected(
    metadata: ShardMetadata, holders: tuple[NodeId, ...], fenced: tuple[NodeId, ...]
) -> Choice | None:
    answers = {node: answer(ENTRY if node in holders else NO_ENTRY) for node in fenced}
    return choose(metadata, answers, [])


def split_brains(metadata: ShardMetadata, asked: tuple[NodeId, ...] | None = None) -> list[Case]:
    """All cases in which the old leader, which was not fenced, still has a majority of its own."""
    asked = fencing_ensemble(metadata) if asked is None else asked
    return [
        Case(majority_of_old, fenced)
        for majority_of_old in dict.fromkeys(committed_now(metadata))
        for fenced in subsets(asked, majority(len(asked)))
        if not any(node in fenced for node in majority_of_old)
    ]


def committed_now(metadata: ShardMetadata) -> Iterator[tuple[NodeId, ...]]:
    """Majorities with which the old leader can commit from now on: it has applied the change, or not."""
    change = metadata.reconfiguration
    ensemble = metadata.ensemble
    if change is None:
        yield from (s for s in subsets(ensemble, majority(len(ensemble))) if ensemble[0] in s)
        return
    counted = tuple(node for node in ensemble if node != change.old_node)
    extra = () if change.new_node is None else (change.new_node,)
    least = ((counted, len(ensemble)), ((*counted, *extra), change.replication_factor))
    for nodes, factor in least:
        yield from (s for s in subsets(nodes, majority(factor)) if ensemble[0] in s)


def answer(head: EntryId, *, is_member: bool = True) -> FenceResponse:
    return FenceResponse(SHARD, Epoch(3), head, head, is_member)
