"""Blocks and the names of parts.

B1  A block's number is the number of the log entry that commits it; parts of one entry are told apart by an
    index. Numbers, commits and zxids have one order, because the keeper draws the number in the commit
    itself: no number is ever in flight, and a late insert is above everything that a merge can name.
B2  A part's name says which blocks it holds: ``<partition>_<lowest>_<highest>_<level>``, a block as
    ``<entry>.<index>``. A part covers another of its partition when its blocks include the other's and its
    level is not lower.

A part is known by its id, which is minted before its number is drawn; its name is its place in the shard.
"""

from __future__ import annotations

import re

import msgspec

from motet.errors import BadInput

_NUMBER = r"(?:0|[1-9][0-9]{0,9})"
_BLOCK = rf"({_NUMBER})\.({_NUMBER})"
# A partition may hold what its expression yields; the blocks and the level are the last three fields.
_NAME = re.compile(rf"([^/\x00-\x1f]{{1,128}})_{_BLOCK}_{_BLOCK}_({_NUMBER})")

PARTITION = "p"
"""The one partition of a table without ``partition_by``."""


class Block(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """One part as it was inserted: the entry that committed it, and its place among that entry's parts."""

    entry: int
    index: int = 0

    def __str__(self) -> str:
        return f"{self.entry}.{self.index}"


class PartName(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """Which blocks of a partition a part holds, and how often they were merged."""

    partition: str
    low: Block
    high: Block
    level: int = 0

    def __str__(self) -> str:
        return f"{self.partition}_{self.low}_{self.high}_{self.level}"

    def covers(self, other: PartName) -> bool:
        """Whether all blocks of the other part are in this one (B2)."""
        return (
            self.partition == other.partition
            and self.low <= other.low
            and self.high >= other.high
            and self.level >= other.level
        )

    def holds(self, partition: str, block: Block) -> bool:
        """Whether the block lies in its range."""
        return self.partition == partition and self.low <= block <= self.high


def of_block(partition: str, block: Block) -> PartName:
    """The name of a part that was just inserted."""
    return PartName(partition, block, block)


def parse_part_name(text: str) -> PartName:
    """Read a name back; ``BadInput`` when it is none."""
    match = _NAME.fullmatch(text)
    if match is None:
        raise BadInput(
            f"{text[:80]!r} is not the name of a part",
            hint="partition_entry.index_entry.index_level",
        )
    partition, *numbers = match.groups()
    low_entry, low_index, high_entry, high_index, level = map(int, numbers)
    low, high = Block(low_entry, low_index), Block(high_entry, high_index)
    if low > high:
        raise BadInput(f"{text!r} ends before it begins")
    return PartName(partition, low, high, level)
