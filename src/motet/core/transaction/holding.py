"""What of a shard's log has to stay, and what can go because it is pruned.

H1  Nothing is trimmed from the oldest transaction on that is not decided, or not logged everywhere; nor what
    a named cursor has not read.
H2  What is pruned goes, but not where the latest change of a key lies:
    that is carried on first (:mod:`motet.core.transaction.carrying`). So a leader that has applied what is
    committed finds it in its log.
H3  Where milestones are closer than files end, the last one stays: a reader of the feed begins at one.
"""

from __future__ import annotations

from motet.core.clock.hlc import ZERO, plus
from motet.core.datanode.stream_shard import machine_of
from motet.core.shardlog.replica import ShardReplica
from motet.ids import Offset


def hold_retention(replica: ShardReplica) -> None:
    """Tell the log what it has to keep, and what it need not keep any more."""
    pruned = pruned_before(replica)
    if pruned is not None:
        needed = next(machine_of(replica).state.latest.entries(replica.first_offset), pruned)
        pruned = min(pruned, needed)  # H2
    replica.keep_from(_kept_from(replica), pruned)


def pruned_before(replica: ShardReplica) -> Offset | None:
    """What is before this entry can go, but for the latest changes of keys; None if nothing was pruned."""
    machine = machine_of(replica)
    horizon = machine.state.rules.horizon
    if horizon == ZERO:
        return None
    pruned, kept = machine.entry_above(horizon)[0], _kept_from(replica)
    return pruned if kept is None else min(pruned, kept)


def _kept_from(replica: ShardReplica) -> Offset | None:
    """What is needed by all but keys is from this entry on (H1, H3); None for nothing."""
    machine = machine_of(replica)
    state, rules = machine.state.transactions, machine.state.rules
    clocks = [decision.asked for decision in state.decisions.values()]
    clocks += [plus(opened.clock, -1) for opened in state.prepared.values()]
    if rules.kept_from is not None:
        clocks.append(rules.kept_from)
    kept = [] if not clocks else [machine.entry_above(min(clocks))[0]]
    if machine.state.milestone_step_bytes <= replica.core.config.segment_bytes:
        kept += machine.state.milestone_entries[-1:]
    return min(kept, default=None)
