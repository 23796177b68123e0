"""Choosing parts that answer a version, page by page.

V5  A version is answered through parts that *tile* its blocks: each block lies in one of them, and all blocks
    of each are visible at V. So a version is the same before a merge and after it.
V6  A page is a range of blocks, in the order of partitions and then of the log. It begins after the last
    block of the page before, and is tiled for itself: a part that holds blocks of an earlier page is not
    used. So pages need no memory, may be asked of different replicas, and are of one version whatever is
    merged in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec

from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.history import BlockState, History
from motet.core.mergetree.names import Block, PartName, of_block
from motet.ids import PartId, Zxid


class HasBytes(Protocol):
    """A part as a replica has it."""

    header: PartHeader
    is_stored: bool


class Tiling(msgspec.Struct, frozen=True):
    """How some parts answer a version, or a page of it."""

    #: each block of the page is in one of them, but for those that are missing
    parts: tuple[PartName, ...]
    #: blocks that no part answers for
    missing: tuple[BlockState, ...]
    #: other blocks follow
    more: bool = False


class Tile(msgspec.Struct, frozen=True):
    """A part that was chosen, or a block that no part answers for, and where it begins."""

    low: Block
    part: PartName
    missing: BlockState | None = None


def tile(
    history: History,
    version: Zxid,
    held: Mapping[PartId, HasBytes],
    merged: Iterable[PartName] = (),
    after: PartName | None = None,
    most: int | None = None,
) -> Tiling:
    """Choose parts for a version: merged ones whose blocks are all of it, the widest first; then blocks.

    ``after`` is the last part of the page before, ``most`` how many parts and missing blocks a page has.
    """
    of_partition: dict[str, list[PartName]] = {}
    for part in merged:
        of_partition.setdefault(part.partition, []).append(part)
    tiles: list[Tile] = []
    for partition in partitions_from(history, after):
        room = None if most is None else most + 1 - len(tiles)
        if room == 0:
            break
        tiles += _tile_partition(
            *(history, version, held, of_partition.get(partition, [])),
            *(partition, after, room),
        )
    more = most is not None and len(tiles) > most
    return Tiling(
        tuple(each.part for each in tiles[:most] if each.missing is None),
        tuple(each.missing for each in tiles[:most] if each.missing is not None),
        more,
    )


def partitions_from(history: History, after: PartName | None) -> list[str]:
    """The partitions of a page and of those that follow, in order."""
    return sorted(each for each in history.partitions if after is None or each >= after.partition)


def is_after(after: PartName | None, partition: str, block: Block) -> bool:
    """Whether a block lies behind the page that ends with this part."""
    return after is None or partition > after.partition or block > after.high


def _tile_partition(
    history: History,
    version: Zxid,
    held: Mapping[PartId, HasBytes],
    merged: list[PartName],
    partition: str,
    after: PartName | None,
    room: int | None,
) -> list[Tile]:
    """So many tiles of a partition, in the order of the log."""
    start = after.high if after is not None and after.partition == partition else None
    left: dict[Block, BlockState] = {}
    for block in history.partitions[partition]:
        if start is not None and block <= start:
            continue
        state = history.blocks[block]
        if state.is_seen(version):
            left[block] = state
            if not merged and len(left) == room:
                break
    tiles: list[Tile] = []
    for part in sorted(merged, key=lambda each: (-each.level, each)):
        blocks = _blocks_in(history, part)
        if blocks and all(block in left for block in blocks):
            tiles.append(Tile(part.low, part))
            for block in blocks:
                del left[block]
    for block, state in left.items():
        own = held.get(state.header.id)
        is_here = own is not None and own.is_stored and own.header.hash == state.header.hash
        tiles.append(Tile(block, of_block(partition, block), None if is_here else state))
    if merged:
        tiles.sort(key=lambda each: each.low)
    return tiles[:room]


def _blocks_in(history: History, part: PartName) -> list[Block]:
    """The blocks in a part; failed ones in its range are not in it."""
    return [
        block
        for block in history.partitions.get(part.partition, ())
        if part.low <= block <= part.high and not history.blocks[block].has_failed
    ]
