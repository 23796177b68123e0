"""What clients of tables were told while nodes died, and what therefore has to be in every version.

A *change* puts blocks of rows into tables, and may drop a partition before. It ends as done, refused or
unknown. A done one has the version that was told, exactly; a repetition that was told of as a duplicate took
effect somewhere between what was known when it began and what was told. A *read* is what the tables had at a
version. From that follows for each block and read whether it must be there, may be there, or must not:

L1  Done at a version: there from that version on, until a drop of its partition. A block whose quorum ends
    after a drop has its place in the log before that, and may have been taken by it (T32).
L2  Refused: in no version. Unknown: at most once, and not before it began.
L3  A block is whole wherever it is, with the values that were inserted.
L4  A version that is read again is the same.
L5  Whoever begins after somebody was told of a version reads and writes above it.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from motet.client.publication import Publication
from motet.core.mergetree.version import Version
from motet.ids import Zxid

NOTHING, FOREVER = Zxid(0), Zxid(1 << 62)
BLOCK_ROWS = 8

Outcome = Literal["open", "done", "refused", "unknown"]
Sums = Mapping[str, tuple[int, int]]
"""Of each block how many rows there are, and the sum of their values."""


def value_of(block: str, row: int) -> int:
    """What a row of a block says."""
    return zlib.crc32(block.encode()) + row * row


def sums_of(block: str) -> tuple[int, int]:
    """What a whole block adds up to."""
    return BLOCK_ROWS, sum(value_of(block, row) for row in range(BLOCK_ROWS))


@dataclass
class Change:
    """Something that a client wants done once."""

    block: str
    #: where its rows go: table -> partition
    into: Mapping[str, str]
    #: what it drops: table -> partition
    drops: Mapping[str, str]
    #: versions between which it takes its place in the log, both included
    earliest: Zxid
    latest: Zxid = FOREVER
    #: nobody sees it before
    visible: Zxid = NOTHING
    outcome: Outcome = "open"

    def may_be_done(self) -> bool:
        return self.outcome != "refused"


@dataclass(frozen=True)
class TableRead:
    """What a table had at a version."""

    table: str
    version: Zxid
    found: Sums


@dataclass
class Ledger:
    """All that was told."""

    changes: list[Change] = field(default_factory=list)
    reads: list[TableRead] = field(default_factory=list)
    #: the highest version that anybody was told
    newest: Zxid = NOTHING
    refusals: Counter[str] = field(default_factory=Counter)

    def begin(
        self, block: str, into: Mapping[str, str], drops: Mapping[str, str] | None = None
    ) -> Change:
        change = Change(block, into, drops or {}, Zxid(self.newest + 1))
        self.changes.append(change)
        return change

    def done(self, change: Change, told: Publication, *, is_own: bool = False) -> None:
        """``is_own``: the client made the token, and does not tell what it has repeated (T22)."""
        zxid = told.version.zxid
        assert zxid >= change.earliest, f"L5: {change.block} at {zxid}, {change.earliest} was told"
        if not told.duplicate and not is_own:
            change.visible = zxid
            if change.drops:  # a publication is visible from its own entry on
                change.earliest = zxid
        change.latest, change.outcome = zxid, "done"
        self.told(told.version)

    def told(self, version: Version) -> None:
        self.newest = max(self.newest, version.zxid)

    def read(self, table: str, version: Version, found: Sums) -> TableRead:
        """A table was read at a version: its blocks are whole."""
        for block, sums in found.items():
            assert sums == sums_of(block), f"L3: {table} at {version} has {block} with {sums}"
        read = TableRead(table, version.zxid, found)
        self.reads.append(read)
        return read

    # What has to be

    def check(self) -> None:
        """Everything that was read is what was told; once all changes have ended."""
        assert not [change for change in self.changes if change.outcome == "open"]
        by_table: dict[str, list[Change]] = {}
        drops: dict[tuple[str, str], list[Change]] = {}
        for change in self.changes:
            for table in change.into:
                by_table.setdefault(table, []).append(change)
            for table, partition in change.drops.items():
                drops.setdefault((table, partition), []).append(change)
        for read in self.reads:
            for wrong in self._wrong(read, by_table.get(read.table, []), drops):
                raise AssertionError(f"{read.table} at {read.version}: {wrong}")

    def _wrong(
        self,
        read: TableRead,
        changes: list[Change],
        drops: Mapping[tuple[str, str], list[Change]],
    ) -> Iterator[str]:
        known = {change.block for change in changes}
        yield from (f"L2: {block} was never inserted" for block in read.found if block not in known)
        for change in changes:
            own = drops.get((read.table, change.into[read.table]), [])
            others = [each for each in own if each is not change]
            is_there = change.block in read.found
            if is_there and not _may_be_there(change, read.version, others):
                yield f"{change} is there"
            if not is_there and _must_be_there(change, read.version, others):
                yield f"L1: {change} is missing"


def _must_be_there(change: Change, at: Zxid, drops: list[Change]) -> bool:
    if change.outcome != "done" or change.latest > at:
        return False
    return not any(
        each.may_be_done() and each.latest >= change.earliest and each.earliest <= at
        for each in drops
    )


def _may_be_there(change: Change, at: Zxid, drops: list[Change]) -> bool:
    if not change.may_be_done() or max(change.earliest, change.visible) > at:
        return False
    return not any(
        each.outcome == "done" and each.earliest > change.latest and each.latest <= at
        for each in drops
    )
