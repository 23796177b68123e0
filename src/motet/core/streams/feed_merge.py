"""The feeds of several shards, merged into one: whole transactions, by (clock, transaction, index).

What several shards have of one transaction has one clock, and each shard's page is complete up to a clock of
its own. Up to the lowest of these nothing is missing: so far goes the merged page, or less if it is full. It
never ends within a clock: two transactions of different shards may share one, and a cursor is a clock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.streams.change import Run, count_in
from motet.core.streams.entries import run_of
from motet.core.streams.messages import FoundEntry
from motet.ids import Offset, ShardId, ShardName, StreamName


class ShardPage(msgspec.Struct, frozen=True):
    """All entries of a shard after one clock and through another, by their clocks."""

    stream: StreamName
    number: ShardId
    shard: ShardName
    entries: Sequence[FoundEntry]
    through: Clock
    after: Clock = ZERO

    @property
    def size_bytes(self) -> int:
        return sum([len(entry.body) for entry in self.entries])

    def between(self, after: Clock, target: Clock) -> ShardPage:
        """What of it is after one clock, and not above another."""
        first, last = self._place_after(after), self._place_after(target)
        through = min(self.through, target)
        return self._with(self.entries[first:last], through, after)

    def next_page(self, entries: Sequence[FoundEntry], through: Clock) -> ShardPage:
        """The one that begins where this one ends."""
        return self._with(entries, through, self.through)

    def followed_by(self, more: ShardPage) -> ShardPage:
        """With the page that begins where this one ends."""
        return self._with([*self.entries, *more.entries], more.through, self.after)

    def at_most(self, count: int) -> ShardPage:
        """Its first entries; what has one clock stays together."""
        entries = self.entries
        while count < len(entries) and entries[count].clock == entries[count - 1].clock:
            count += 1
        if count >= len(entries):
            return self
        return self._with(entries[:count], entries[count - 1].clock, self.after)

    def _with(self, entries: Sequence[FoundEntry], through: Clock, after: Clock) -> ShardPage:
        return ShardPage(self.stream, self.number, self.shard, entries, through, after)

    def _place_after(self, clock: Clock) -> int:
        return bisect_right(self.entries, clock, key=lambda entry: entry.clock)


def merge(
    pages: Sequence[ShardPage], limit: int, key: bytes | None = None
) -> tuple[list[Run], Clock, bool]:
    """One page out of those of all shards: at most ``limit`` changes, but what has one clock is whole.

    The changes in their order, the clock they are complete up to, and whether more is at hand. With a key,
    its changes alone. An entry is looked into when its turn comes: what does not fit costs nothing.
    """
    if key is None:
        pages = [page.at_most(limit + 1) for page in pages]  # an entry has one change at least
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
            return found, last, True
        found += some
        total += size
        last = clock
    return found, through, False


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
    offset = Offset(run.first_offset + first)
    return msgspec.structs.replace(run, first_offset=offset, changes=run.changes[first:last])


def entries_in_order(
    pages: Sequence[ShardPage], through: Clock
) -> list[tuple[ShardPage, FoundEntry]]:
    """The entries of all pages up to a clock, by their clocks."""
    found = [(page, entry) for page in pages for entry in page.entries if entry.clock <= through]
    found.sort(key=_clock_of)
    return found


def _clock_of(found: tuple[ShardPage, FoundEntry]) -> Clock:
    return found[1].clock
