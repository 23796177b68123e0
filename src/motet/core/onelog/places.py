"""Where each record of a log is in time, and how many changes there are up to it.

A place is the *sequence* of a record. Sequences count from the first record that ever was; what a log no
longer keeps is forgotten here too, from its beginning, and the numbers of the others stay what they are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import msgspec

from motet.core.clock.hlc import ZERO, Clock


class Places(msgspec.Struct):
    """The records of a log, by sequence."""

    #: the sequence of the first record that is known
    first: int = 0
    #: clocks[i] is the clock of record first + i; they rise
    clocks: list[Clock] = msgspec.field(default_factory=list)
    #: totals[i] is how many changes there ever were up to record first + i and in it
    totals: list[int] = msgspec.field(default_factory=list)
    #: the same for the last record that was forgotten
    forgotten_total: int = 0
    forgotten_clock: Clock = ZERO

    @property
    def behind(self) -> int:
        """The sequence behind the last record."""
        return self.first + len(self.clocks)

    @property
    def newest(self) -> Clock:
        """The clock of the last record that ever was."""
        return self.clocks[-1] if self.clocks else self.forgotten_clock

    def add(self, clock: Clock, changes: int) -> None:
        """The next record."""
        self.totals.append(self.total_before(self.behind) + changes)
        self.clocks.append(clock)

    def clock_of(self, sequence: int) -> Clock:
        """The clock of a record."""
        at = sequence - self.first
        return self.clocks[at] if at >= 0 else self.forgotten_clock

    def first_after(self, clock: Clock | None) -> int:
        """The sequence of the first known record above a clock."""
        return self.first + (0 if clock is None else bisect_right(self.clocks, clock))

    def total_before(self, sequence: int) -> int:
        """How many changes there are before a record."""
        at = sequence - self.first
        return self.totals[at - 1] if at > 0 else self.forgotten_total

    def reaching(self, total: int, first: int, behind: int) -> int:
        """The first of some records up to which there are so many changes."""
        base = self.first
        return base + bisect_left(self.totals, total, first - base, behind - base)

    def exceeding(self, total: int, first: int, behind: int) -> int:
        """The first of some records up to which there are more changes."""
        base = self.first
        return base + bisect_right(self.totals, total, first - base, behind - base)

    def forget(self, before: int) -> None:
        """Nothing before this record is asked for any more."""
        gone = min(before, self.behind) - self.first
        if gone > 0:
            self.forgotten_clock, self.forgotten_total = (
                self.clocks[gone - 1],
                self.totals[gone - 1],
            )
            del self.clocks[:gone], self.totals[:gone]
            self.first += gone
