"""The name of a part: ``partition_min_max_level``, the block numbers it holds and how often it was merged.

Block numbers count up per table and shard. A part *covers* another one of its partition when its blocks
include the other's and its level is not lower: then the other is not needed any more. The name is a
place in the history of the table; the files of a part are found by its id, which is never used again.
"""

from __future__ import annotations

import re

import msgspec

from motet.errors import BadInput

PARTITION = "all"
"""The one partition of a table that has no others."""

# One text for each name: no signs, no leading zeros, no digits of other scripts.
_NUMBER = r"(0|[1-9][0-9]{0,17})"
_NAME = re.compile(rf"([A-Za-z0-9-]{{1,64}})_{_NUMBER}_{_NUMBER}_(0|[1-9][0-9]{{0,8}})")


class PartName(msgspec.Struct, frozen=True, order=True, array_like=True):
    """Blocks ``min_block`` to ``max_block`` of a partition."""

    partition: str
    min_block: int
    max_block: int
    level: int

    def __str__(self) -> str:
        return f"{self.partition}_{self.min_block}_{self.max_block}_{self.level}"

    def covers(self, other: PartName) -> bool:
        """Whether everything in the other part is in this one."""
        return (
            self.partition == other.partition
            and self.min_block <= other.min_block
            and self.max_block >= other.max_block
            and self.level >= other.level
        )


def of_block(block: int) -> PartName:
    """The name of a part that was just inserted."""
    return PartName(PARTITION, block, block, 0)


def parse_part_name(text: str) -> PartName:
    """Read a name back; ``BadInput`` when it is none."""
    match = _NAME.fullmatch(text)
    if match is None:
        raise BadInput(f"{text[:80]!r} is not the name of a part", hint="partition_min_max_level")
    partition, low, high, level = match.groups()
    if int(low) > int(high):
        raise BadInput(f"{text!r} ends before it begins")
    return PartName(partition, int(low), int(high), int(level))
