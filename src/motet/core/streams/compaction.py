"""Compaction: what is pruned goes from the log of a shard, and the latest change of each key is said again.

::

    pruned ──▶ worth it? ──▶ read some ──▶ an entry that says it again ──▶ applied ──┐
                   ▲             ▲                                                  │
                   │             └──────── while there is something before the bound ┤
                   └─────────────────────────────── the log is trimmed (H2) ◀────────┘

A leader reads a bounded range of the log at a time, writes an entry of bounded size, and the next one when
that is applied: others are served all the while. Nothing of this has to be remembered. What was compacted is
in the log, the rest is where it was, and the next leader goes on from there; what two leaders compact is in
it twice, which changes nothing (K1). Nothing is trimmed because a leader says so: what is applied tells how
far the log can go.

A compacted change is logged as a transaction with this one change in the shard, with the clock, the
name, the place and the time of day that it has always had; a raw record, too. Who reads the feed or the
records of a shard passes over it: only who asks for its key gets to see it.

K1  What is compacted is a committed change, and it says what it has always said. So it does not matter
    how often it is compacted, or by whom.

H1  Nothing is trimmed from the oldest transaction on that is not decided, or not logged everywhere; nor what
    a named cursor has not read.
H2  What is pruned goes, but not where the latest change of a key lies: that is compacted first. So a leader
    that has applied what is committed finds it in its log.
H3  Where index points are closer than files end, the last one stays: a reader of the feed begins at one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from motet.core.clock.hlc import ZERO, plus
from motet.core.machine import Effect, Note
from motet.core.shardlog import applying
from motet.core.shardlog.applying import piece_of, worth_compacting
from motet.core.shardlog.entry import Entry, EntryKind
from motet.core.shardlog.replica import ShardReplica
from motet.core.streams import reads
from motet.core.streams.change import Branch, Run
from motet.core.streams.entries import (
    KINDS,
    SAYS_NOTHING,
    Committed,
    Compacted,
    decode_compacted,
    run_of,
    unbatched,
)
from motet.core.streams.latest import LatestChanges
from motet.core.streams.pending import Compaction, PendingRequest, ShardTransactions, Turn
from motet.core.streams.reads import Readings
from motet.core.streams.shard import machine_of
from motet.ids import Address, Offset, ShardId, ShardName, StreamName


def is_due(ours: ShardTransactions | None, replica: ShardReplica) -> bool:
    """Whether somebody should look for something to compact: something was pruned, or a file has ended."""
    if ours is not None and (ours.compaction is not None or ours.is_sealed):
        return False
    found = _ends(replica)
    if found is None or (ours is not None and ours.looked_for == found):
        return False
    return _oldest(replica) <= found[0]


def begin(ours: ShardTransactions, replica: ShardReplica) -> None:
    """Look how much is worth compacting."""
    found = _ends(replica)
    assert found is not None, "it is due"
    ours.looked_for = found
    machine, first = machine_of(replica), replica.first_offset
    latest = machine.state.latest
    bounds = [Offset(end + 1) for end in applying.closed_ends(replica.core) if end <= found[0]]
    held = list(takewhile(lambda entry: entry <= found[0], latest.entries(first)))
    before = machine.records_before(first)

    def total_before(bound: int) -> int:
        compacted = sum(count for at, count in latest.compacted.items() if first <= at < bound)
        return machine.records_before(Offset(bound)) - before + compacted

    bound = worth_compacting(bounds, held, total_before)
    if bound is not None and held[0] < bound:
        ours.compaction = Compaction(Offset(bound))


def go_on(turn: Turn, readings: Readings) -> list[Effect]:
    """Do what can be done now."""
    ours, replica = turn.ours, turn.replica
    effects: list[Effect] = []
    while (compaction := ours.compaction) is not None:
        if compaction.is_out:
            if any(
                isinstance(pending.message, Compacted) for pending in (*ours.waiting, *ours.pending)
            ):
                break
            effects.append(_give_up(ours, replica, "the log does not take it"))
        elif compaction.ready:
            _write(turn, compaction)
        elif compaction.reading is None:
            effects += _read(ours, compaction, replica, readings)
        elif (done := readings.take_own(replica.shard)) is None:
            break
        elif done.error is not None:
            effects.append(_give_up(ours, replica, done.error[1]))
        else:
            latest = machine_of(replica).state.latest
            entries = [each for each in done.entries if each.id.offset < compaction.bound]
            compaction.ready = needed(latest, replica.shard, entries)
            if not compaction.ready and _oldest(replica) == compaction.reading:
                effects.append(_give_up(ours, replica, f"nothing is in entry {compaction.reading}"))
            compaction.reading = None
    return effects


def _read(
    ours: ShardTransactions, compaction: Compaction, replica: ShardReplica, readings: Readings
) -> list[Effect]:
    """Read where the oldest of what is needed lies; if that is after the bound, all is compacted."""
    oldest = _oldest(replica)
    if oldest >= compaction.bound:
        ours.compaction = None
        return [Note("transaction_compacted", f"{replica.shard} {compaction.count}")]
    compaction.reading = oldest
    return reads.read_own(readings, replica, Offset(oldest - 1))


def _write(turn: Turn, compaction: Compaction) -> None:
    """Have some of what was read put into the log."""
    count = piece_of(map(size_bytes, compaction.ready), turn.config.compaction_bytes)
    piece = Compacted(tuple(compaction.ready[:count]), turn.replica.first_offset)
    del compaction.ready[:count]
    compaction.count += count
    compaction.is_out = True
    turn.ours.waiting.append(PendingRequest(Address(""), piece, turn.now.monotonic_ns))
    turn.ours.looked_at = Offset(-1)


def _give_up(ours: ShardTransactions, replica: ShardReplica, why: str) -> Note:
    """For now: it is looked at again."""
    ours.compaction = ours.looked_for = None
    return Note("transaction_not_compacted", f"{replica.shard}: {why}")


def _oldest(replica: ShardReplica) -> Offset:
    """The first entry that holds the latest change of a key, or the one after all."""
    latest: LatestChanges = machine_of(replica).state.latest
    return next(latest.entries(replica.first_offset), Offset(replica.head.offset + 1))


def _ends(replica: ShardReplica) -> tuple[Offset, Offset] | None:
    """Where the last file ends that pruning lets go, and the last of all; None if none can go."""
    pruned, ends = pruned_before(replica), applying.closed_ends(replica.core)
    gone = [] if pruned is None else [end for end in ends if end < pruned]
    return (gone[-1], ends[-1]) if gone else None


NOWHERE = StreamName("")
"""A log does not know what its stream is called."""


def needed(latest: LatestChanges, shard: ShardName, entries: Sequence[Entry]) -> list[Committed]:
    """The changes in some entries that are the latest of their keys, to be compacted."""
    if not entries:
        return []
    last = entries[-1].id.offset
    held = takewhile(lambda at: at <= last, latest.entries(entries[0].id.offset))
    holding = dict.fromkeys(held)  # only these are looked into
    found: list[Committed] = []
    for entry in entries:
        if entry.id.offset in holding:
            for each in unbatched(entry):
                found += _needed(latest, shard, each)
    return found


def size_bytes(change: Committed) -> int:
    """What it takes in an entry, roughly."""
    only = change.branch.changes[0]
    return len(only.key) + len(only.row or b"") + len(only.before or b"")


def _needed(latest: LatestChanges, shard: ShardName, entry: Entry) -> list[Committed]:
    """Of an entry, or of one in a batch, in which no key is twice (U2)."""

    def is_latest(key: bytes, place: int) -> bool:
        known = latest.keys.get(key)
        return known is not None and (known.entry, known.place) == (entry.id.offset, place)

    if entry.kind == EntryKind.COMPACTED:
        changes = enumerate(decode_compacted(entry.body).changes)
        return [
            change for place, change in changes if is_latest(change.branch.changes[0].key, place)
        ]
    if KINDS.get(entry.kind, SAYS_NOTHING).run is None:
        return []
    run = run_of(NOWHERE, ShardId(0), shard, entry)
    return [_alone(run, at) for at, each in enumerate(run.changes) if is_latest(each.key, at)]


def _alone(run: Run, place: int) -> Committed:
    """One change of a run."""
    branch = Branch(run.transaction, ZERO, ZERO, run.count, run.changes[place : place + 1])
    offset = Offset(run.first_offset + place)
    return Committed(branch, run.clock, run.at_ms, offset, (), run.has_clock)


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
    low_watermark = machine.state.rules.low_watermark
    if low_watermark == ZERO:
        return None
    pruned, kept = machine.entry_above(low_watermark)[0], _kept_from(replica)
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
    if machine.state.sparse_index_step_bytes <= replica.core.config.segment_bytes:
        kept += machine.state.index_entries[-1:]
    return min(kept, default=None)
