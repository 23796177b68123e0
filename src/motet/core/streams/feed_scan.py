"""A range of a shard's log, read as the feed: changes by the clocks of their transactions.

A log is in the order of its entries, and a transaction over several shards has a commit clock below that of
the entry that holds its changes: it was decided elsewhere, before. So a scan begins at the first entry above
the clock that it starts from, which misses nothing, since no commit clock is above its entry's; and it gives
out only what is closed *at the place it has reached* (X6), since nothing below that comes after it.

A prepare that is open there holds back what is not below it. But a replica knows what became of those that
were open for long (T4): one that was aborted holds nothing back, and of one that was committed nothing comes
below its commit clock. So only the page with that transaction itself has to reach its outcome.

N1  A page holds every change above ``after`` and up to ``through``, each once: what has one clock is never
    on two pages, whatever fits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

import msgspec

from motet.core.clock.hlc import ZERO, Clock, plus
from motet.core.shardlog.entry import Entry
from motet.core.streams.entries import read, unbatched
from motet.core.streams.messages import FoundEntry, ReadShardFeed
from motet.core.streams.transactions import Outcome
from motet.ids import Offset, TransactionId

Known = Mapping[TransactionId, Outcome | None]
"""What became of prepares that were open for long; None for one that still is."""

NOTHING: Known = MappingProxyType({})


class FeedScan(msgspec.Struct):
    """A reader of the feed on its way through the log."""

    after: Clock
    #: nothing above this is wanted, or closed
    up_to: Clock
    limit: int
    bytes_max: int
    #: prepares that are open at the place that was reached: nothing of them comes up to these clocks
    opens: dict[TransactionId, Clock]
    #: closed, as of that place
    closed: Clock = ZERO
    #: what belongs on the page, and how many changes each has
    found: list[tuple[FoundEntry, int]] = msgspec.field(default_factory=list)
    #: of all that is found
    changes: int = 0
    size_bytes: int = 0
    #: the last entry that was taken in
    reached: Offset = Offset(0)
    #: the lowest of ``opens``, unless these have changed
    held: Clock | None = None
    is_held_known: bool = False
    #: how far it was closed when it was last asked whether that is enough
    judged: Clock = ZERO

    @staticmethod
    def of(
        message: ReadShardFeed,
        closed: Clock,
        opens: Iterable[tuple[TransactionId, Clock]],
        after: Clock,
        known: Known = NOTHING,
    ) -> FeedScan:
        up_to = closed if message.up_to is None else min(closed, message.up_to)
        scan = FeedScan(
            after=after, up_to=up_to, limit=message.limit, bytes_max=message.bytes_max, opens={}
        )
        for transaction, clock in opens:
            scan._open(transaction, clock, known)
        return scan

    def take(self, entries: Iterable[Entry], known: Known = NOTHING) -> bool:
        """Take in the next entries of the log; True when that is enough."""
        for entry in entries:
            for each in unbatched(entry):
                self._take(each, known)
            self.reached = entry.id.offset
            if not self.is_held_known:
                self.held, self.is_held_known = min(self.opens.values(), default=None), True
            self.closed = entry.clock if self.held is None else min(entry.clock, self.held)
            if self.closed >= self.up_to or self._is_full():
                return True
        return False

    def _open(self, transaction: TransactionId, clock: Clock, known: Known) -> None:
        outcome = known.get(transaction)
        if outcome is None:
            self.opens[transaction] = plus(clock, -1)
        elif outcome.clock is not None:
            self.opens[transaction] = plus(outcome.clock, -1)
        self.is_held_known = False

    def _end(self, transaction: TransactionId) -> None:
        if self.opens.pop(transaction, None) is not None:
            self.is_held_known = False

    def _take(self, entry: Entry, known: Known) -> None:
        seen = read(entry)
        if seen is None:
            return
        if seen.opened is not None:
            self._open(seen.opened, entry.clock, known)
        if seen.ended is not None:
            self._end(seen.ended)
        if seen.changes:
            self._add(entry, seen.clock, seen.changes)

    def _add(self, entry: Entry, clock: Clock, changes: int) -> None:
        if self.after < clock <= self.up_to:
            found = FoundEntry(entry.id.epoch, clock, entry.kind, entry.body)
            self.found.append((found, changes))
            self.changes += changes
            self.size_bytes += len(entry.body)

    def _is_full(self) -> bool:
        if self.changes < self.limit and self.size_bytes < self.bytes_max:
            return False
        if not self.opens:
            return True  # all of it is closed
        if self.closed == self.judged:
            return False
        self.judged = self.closed
        closed = [found for found in self.found if found[0].clock <= self.closed]
        return (
            sum(changes for _, changes in closed) >= self.limit
            or sum(len(entry.body) for entry, _ in closed) >= self.bytes_max
        )

    def page(self) -> tuple[tuple[FoundEntry, ...], Clock]:
        """What is closed, as much as fits, by clock; and the clock that it is complete up to (N1)."""
        through = min(self.closed, self.up_to)
        closed = [found for found in self.found if found[0].clock <= through]
        closed.sort(key=lambda found: found[0].clock)
        page: list[FoundEntry] = []
        changes, size_bytes = 0, 0
        for entry, count in closed:
            is_full = changes >= self.limit or size_bytes >= self.bytes_max
            if page and is_full and page[-1].clock != entry.clock:
                return tuple(page), page[-1].clock
            page.append(entry)
            changes += count
            size_bytes += len(entry.body)
        return tuple(page), max(through, self.after)
