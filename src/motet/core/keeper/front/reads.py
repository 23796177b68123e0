"""Reads: how new this replica must be before it may answer them.

The primary is asked for a *read point*, the op up to which a state must have come. One question is under way
at a time, and all reads that came before it was asked share it; those that come while it is under way share
the next.

R1  A question that counts for a read was asked after the read had arrived: what was answered to anybody
    before the read was sent is at or below its point.
R2  A read that has its point waits for that op and no later one: a replica that always lags a little answers
    all the same.
"""

from __future__ import annotations

import msgspec

from motet.ids import Address


class Reads(msgspec.Struct):
    """Who waits for a read point, as (connection, number of its entry)."""

    #: for the question that is under way
    asking: list[tuple[Address, int]] = []
    #: for the next one
    gathered: list[tuple[Address, int]] = []

    def wait(self, address: Address, number: int) -> None:
        self.gathered.append((address, number))

    def begin(self) -> None:
        """A question is asked now (R1)."""
        assert not self.asking, "one question at a time"
        self.asking, self.gathered = self.gathered, []

    def take_answered(self) -> list[tuple[Address, int]]:
        """Whom the answer is for."""
        answered, self.asking = self.asking, []
        return answered

    def lose(self) -> None:
        """There will be no answer: it has to be asked again."""
        self.asking, self.gathered = [], self.asking + self.gathered
