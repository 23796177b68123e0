"""The feeds of several shards, merged into one: whole transactions, by (clock, transaction, index).

What several shards have of one transaction has one clock, and each shard's page is complete up to a clock of
its own. Up to the lowest of these nothing is missing: so far goes the merged page, or less if it is full. It
never ends within a clock: two transactions of different shards may share one, and a cursor is a clock.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.streams.change import FeedChange, Run, changes_in, count_in
from motet.core.streams.entries import Logged, run_of
from motet.core.streams.messages import FoundEntry
from motet.ids import Offset, ShardId, ShardName, StreamName


class ShardPage(msgspec.Struct, frozen=True):
    """What one shard has said of its feed."""

    stream: StreamName
    number: ShardId
    shard: ShardName
    entries: tuple[FoundEntry, ...]
    through: Clock


class MergedPage(msgspec.Struct, frozen=True):
    """Changes in their order, complete up to ``through``."""

    runs: tuple[Run, ...]
    through: Clock
    #: there is more behind it that is at hand already
    more: bool
    #: in all runs
    count: int

    @property
    def changes(self) -> tuple[FeedChange, ...]:
        """One by one."""
        return changes_in(self.runs)


def merge(pages: Sequence[ShardPage], limit: int, key: bytes | None = None) -> MergedPage:
    """One page out of those of all shards: at most ``limit`` changes, but what has one clock is whole.

    With a key, its changes alone. An entry is looked into when its turn comes: what does not fit costs
    nothing.
    """
    if key is None:
        pages = [_shortened(page, limit) for page in pages]
    through = min(page.through for page in pages)
    entries = entries_in_order(pages, through)
    found: list[Run] = []
    last, place, count, total = through, 0, len(entries), 0
    while place < count:
        page, entry = entries[place]
        clock = entry.clock
        some = [run_of(page.stream, page.number, page.shard, entry)]
        size = len(some[0].changes)
        place += 1
        begin = place
        while place < count and entries[place][1].clock == clock:
            place += 1
        if place > begin or key is not None:
            some = _together(some, entries[begin:place], key)
            size = count_in(some)
        if total and total + size > limit:
            return MergedPage(tuple(found), last, more=True, count=total)
        found += some
        total += size
        last = clock
    return MergedPage(tuple(found), through, more=False, count=total)


def _together(
    some: list[Run], others: Sequence[tuple[ShardPage, FoundEntry]], key: bytes | None
) -> list[Run]:
    """What has one clock, by transaction and index; an entry by itself has its changes in order."""
    runs = some + [run_of(page.stream, page.number, page.shard, each) for page, each in others]
    placed = [
        (run.transaction, change.index, number, place)
        for number, run in enumerate(runs)
        for place, change in enumerate(run.changes)
        if key is None or change.key == key
    ]
    placed.sort()
    found: list[Run] = []
    begin = 0
    for end in range(1, len(placed) + 1):
        if end == len(placed) or placed[end][2:] != (placed[end - 1][2], placed[end - 1][3] + 1):
            *_, number, first = placed[begin]
            found.append(_piece(runs[number], first, first + end - begin))
            begin = end
    return found


def _piece(run: Run, first: int, last: int) -> Run:
    """Some changes of a run that follow each other."""
    if first == 0 and last == len(run.changes):
        return run
    return Run(
        run.clock,
        run.transaction,
        run.count,
        run.stream,
        run.shard,
        run.at_ms,
        Offset(run.first_offset + first),
        run.changes[first:last],
        run.has_clock,
    )


def _shortened(page: ShardPage, limit: int) -> ShardPage:
    """As much of a page as can be of use: an entry has one change at least."""
    entries = page.entries
    end = limit + 1
    while end < len(entries) and entries[end].clock == entries[end - 1].clock:
        end += 1  # what has one clock stays together
    if end >= len(entries):
        return page
    return ShardPage(page.stream, page.number, page.shard, entries[:end], entries[end - 1].clock)


def entries_in_order(
    pages: Sequence[ShardPage], through: Clock
) -> list[tuple[ShardPage, FoundEntry]]:
    """The entries of all pages up to a clock, by their clocks."""
    found = [(page, entry) for page in pages for entry in page.entries if entry.clock <= through]
    found.sort(key=_clock_of)
    return found


def _clock_of(found: tuple[ShardPage, FoundEntry]) -> Clock:
    return found[1].clock


def changes_of(
    stream: StreamName, number: ShardId, shard: ShardName, entry: Logged
) -> list[FeedChange]:
    """The records or changes of an entry, as readers see them."""
    return run_of(stream, number, shard, entry).expanded()
