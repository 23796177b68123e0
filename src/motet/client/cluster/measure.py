"""Where to cut the feed of a cluster: by counting the changes after a clock, shard by shard.

Entries are fetched and counted, not looked into, and what has been counted is remembered: whoever asks for a
slice, then for its splits, then for the slice after it has every entry counted once.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import msgspec

from motet.client.cluster.feed import ClusterFeed, Places
from motet.core.clock.hlc import Clock
from motet.core.onelog.messages import FeedSplit, SplitFeed
from motet.core.streams.entries import record_range
from motet.core.streams.feed_merge import entries_in_order
from motet.ids import StreamName
from motet.limits import page_changes_max

marks_max = 1 << 17
"""Beyond it every second mark is dropped: a cut is then not as fine, and as right."""

measured_max = 8
"""Sets of streams whose counts are remembered."""


class Measured(msgspec.Struct):
    """Counts after one clock and through another."""

    after: Clock
    through: Clock
    #: totals[i] changes are above ``after`` and not above clocks[i], which rises
    clocks: list[Clock] = msgspec.field(default_factory=list)
    totals: list[int] = msgspec.field(default_factory=list)

    @property
    def total(self) -> int:
        return self.totals[-1] if self.totals else 0

    def add(self, clock: Clock, changes: int) -> None:
        """An entry, in the order of the clocks."""
        if self.clocks and self.clocks[-1] == clock:
            self.totals[-1] += changes
            return
        if len(self.clocks) >= marks_max:
            del self.clocks[-2::-2], self.totals[-2::-2]
        self.clocks.append(clock)
        self.totals.append(self.total + changes)

    def beginning(self, after: Clock) -> Measured:
        """The same, counted from a later clock."""
        first = bisect_right(self.clocks, after)
        base = self.totals[first - 1] if first else 0
        return Measured(
            after, self.through, self.clocks[first:], [each - base for each in self.totals[first:]]
        )

    def split(self, message: SplitFeed, target: Clock) -> tuple[tuple[Clock, ...], int, int]:
        """The bounds of the slice, the changes in it, and how many more are known up to the target."""
        count = known = bisect_right(self.clocks, target)
        if message.changes_max is not None:
            # What goes beyond the bound is left out, unless it is all there is of the first clock.
            count = min(count, max(bisect_right(self.totals, message.changes_max), 1))
        if not count:
            return (self.after,), 0, 0
        changes = self.totals[count - 1]
        bounds: list[Clock] = []
        for number in range(1, message.splits + 1):
            wanted = changes * number // message.splits
            if wanted:
                clock = self.clocks[bisect_left(self.totals, wanted, 0, count)]
                if not bounds or clock > bounds[-1]:
                    bounds.append(clock)
        return tuple(bounds), changes, self.totals[known - 1] - changes


class FeedMeasure:
    """Counts the changes of a cluster."""

    def __init__(self, feed: ClusterFeed) -> None:
        self._feed = feed
        self._known: dict[tuple[StreamName, ...], Measured] = {}

    async def split(self, message: SplitFeed, cluster: int) -> FeedSplit:
        """The slice after a clock, cut into splits of about the same size."""
        visible = await self._feed.visible(message.streams, wait=False)
        target = visible if message.up_to is None else min(visible, message.up_to)
        places = await self._feed.places(message.streams)
        begin = await self._feed.begin(places, message.after)
        measured = self._measured(message.streams, begin)
        await self._count(measured, places, message, target)
        bounds, changes, left = measured.split(message, target)
        return FeedSplit(message.request, cluster, visible, bounds, changes, left)

    def _measured(self, streams: tuple[StreamName, ...], after: Clock) -> Measured:
        known = self._known.pop(streams, None)
        if known is None or not known.after <= after <= known.through:
            known = Measured(after, after)
        elif after > known.after:
            known = known.beginning(after)
        self._known[streams] = known
        if len(self._known) > measured_max:
            del self._known[next(iter(self._known))]
        return known

    async def _count(
        self, measured: Measured, places: Places, message: SplitFeed, target: Clock
    ) -> None:
        """Count up to the target, or until there is more than the slice may have."""
        while measured.through < target:
            if message.changes_max is not None and measured.total > message.changes_max:
                return
            begin = measured.through
            pages = await self._feed.pages(places, begin, target, page_changes_max)
            if measured.through != begin:
                continue  # somebody else has counted on meanwhile
            through = min(page.through for page in pages)
            for _, entry in entries_in_order(pages, through):
                place = record_range(entry)
                if place is not None:
                    measured.add(entry.clock, place[1])
            measured.through = through
