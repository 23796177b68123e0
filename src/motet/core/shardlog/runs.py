"""Which entry stands at which offset: a log's entry ids, as runs of one epoch each.

Ten million entries of a dozen epochs are a dozen runs. R1: epochs rise along the log, so two logs that have
the same entry at an offset have the same entries before it.
"""

from __future__ import annotations

from bisect import bisect_right

import msgspec

from motet.core.shardlog.entry import NO_ENTRY, EntryId
from motet.ids import Epoch, Offset


class EpochRuns(msgspec.Struct):
    """The ids of the entries from ``base``, the last one that is no longer kept, to ``head``."""

    base: EntryId = NO_ENTRY
    head: EntryId = NO_ENTRY
    #: epochs[i] begins at firsts[i]; the first run is the base's own
    epochs: list[Epoch] = msgspec.field(default_factory=lambda: [Epoch(0)])
    firsts: list[Offset] = msgspec.field(default_factory=lambda: [Offset(0)])

    @staticmethod
    def behind(base: EntryId) -> EpochRuns:
        """A log that is empty behind this entry."""
        return EpochRuns(base, base, [base.epoch], [base.offset])

    def id_at(self, offset: Offset) -> EntryId:
        """The entry at an offset between the base and the head."""
        if offset == self.head.offset:
            return self.head
        assert self.base.offset <= offset < self.head.offset, f"no entry {offset}"
        return EntryId(self.epochs[bisect_right(self.firsts, offset) - 1], offset)

    def has(self, entry: EntryId) -> bool:
        """Whether this very entry is in the log, or is its base."""
        if not self.base.offset <= entry.offset <= self.head.offset:
            return False
        return self.id_at(entry.offset) == entry

    def highest_of(self, epoch: Epoch) -> EntryId | None:
        """The highest entry of this epoch or an earlier one; None when that is no longer known."""
        run = bisect_right(self.epochs, epoch) - 1
        if run < 0:
            return None
        if run + 1 == len(self.epochs):
            return self.head
        return EntryId(self.epochs[run], Offset(self.firsts[run + 1] - 1))

    def add(self, entry: EntryId) -> None:
        """The next entry."""
        head = self.head
        assert entry.offset == head.offset + 1, "no gap"
        assert entry.epoch >= head.epoch, "R1"
        if entry.epoch != head.epoch:
            self.epochs.append(entry.epoch)
            self.firsts.append(entry.offset)
        self.head = entry

    def cut(self, keep: Offset) -> None:
        """Forget what is above this offset."""
        self.head = self.id_at(keep)
        while self.firsts[-1] > keep:
            self.epochs.pop()
            self.firsts.pop()

    def trim(self, base: Offset) -> None:
        """Forget what is below this offset, which becomes the base."""
        self.base = self.id_at(base)
        gone = bisect_right(self.firsts, base) - 1
        del self.epochs[:gone], self.firsts[:gone]
        self.firsts[0] = base
