"""What is committed, and where a follower's log has to be cut: pure functions.

A log is committed up to an entry when a majority of the replicas hold it and everything before it, and the
entry is of the leader's own epoch. Entries of earlier epochs are committed only with one of the present
epoch after them: a majority may hold such an entry and still lose it to a leader with a higher head.
"""

from __future__ import annotations

from collections.abc import Sequence

from motet.core.shardlog.entry import NO_ENTRY, EntryId, EpochRuns
from motet.ids import Epoch, Offset


def majority(replication_factor: int) -> int:
    """How many replicas of so many are more than half."""
    return replication_factor // 2 + 1


def held_by_majority(positions: Sequence[Offset], replication_factor: int) -> Offset:
    """The highest offset up to which a majority holds the log; 0 if too few are known.

    ``positions`` has the durable head of each replica that counts, the leader's own among them. A replica
    that is not there, or does not count, still is one of the replication factor.
    """
    needed = majority(replication_factor)
    if len(positions) < needed:
        return Offset(0)
    return sorted(positions, reverse=True)[needed - 1]


def committed(
    positions: Sequence[Offset], replication_factor: int, epoch: Epoch, runs: EpochRuns
) -> EntryId:
    """The highest entry that can be committed directly, or ``NO_ENTRY``."""
    offset = held_by_majority(positions, replication_factor)
    if offset < runs.base.offset:
        return NO_ENTRY
    entry = runs.id_at(offset)
    return entry if entry.epoch == epoch else NO_ENTRY


def truncation_point(runs: EpochRuns, follower_head: EntryId) -> EntryId | None:
    """Where to cut the log of a follower with this head before it can follow a leader with this log.

    The follower's own head when the leader has that very entry: the logs are the same up to there. Else the
    leader's highest entry of an epoch that is not above the follower's; its own head would keep what
    another leader left in the follower's log. None when the leader no longer knows that far back.
    """
    if runs.has(follower_head):
        return follower_head
    if follower_head.offset < runs.base.offset:
        return None
    return runs.highest_of(follower_head.epoch)
