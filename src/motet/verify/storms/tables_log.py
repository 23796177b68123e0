"""The logs of tables as the keeper of a simulation has them, folded once more by code of its own."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from motet.core.mergetree.context import ReplicaKey
from motet.core.mergetree.entries import (
    DoneEntry,
    DropEntry,
    Entry,
    FailedEntry,
    InsertEntry,
    PartHeader,
    PublishEntry,
)
from motet.ids import PartId, Zxid
from motet.verify.storms.tables_parts import rows_of


class BlockTruth(msgspec.Struct):
    """One block, as the log tells it."""

    number: int
    index: int
    header: PartHeader
    zxid: Zxid
    quorum: int
    #: or the number of its producer
    token: str | None = None
    content: str | None = None
    #: the entry of the publication that it is of
    publication: int | None = None
    visible: Zxid | None = None
    has_failed: bool = False
    dropped: Zxid | None = None

    @property
    def rows(self) -> tuple[str, ...]:
        return rows_of(self.header)

    def is_seen(self, version: Zxid) -> bool:
        is_visible = self.visible is not None and self.visible <= version
        return is_visible and not self.is_dropped(version)

    def is_dropped(self, version: Zxid) -> bool:
        return self.dropped is not None and self.dropped <= version


class Acknowledged(msgspec.Struct, frozen=True):
    """An insert, as its client was told."""

    block: BlockTruth
    version: Zxid


class ShardTruth:
    """One shard: what the log says, and what clients were told."""

    def __init__(self, key: ReplicaKey) -> None:
        self.key = key
        self.blocks: list[BlockTruth] = []
        self.by_number: dict[tuple[int, int], BlockTruth] = {}
        self.by_part: dict[PartId, BlockTruth] = {}
        self.next_number = 0
        self.acknowledged: list[Acknowledged] = []
        self.newest_acknowledged = Zxid(0)

    def append(self, number: int, zxid: Zxid, entry: Entry) -> Iterator[str]:
        """Take the next entry; say what is wrong with it."""
        assert number == self.next_number, "numbers rise by one"
        self.next_number += 1
        match entry:
            case InsertEntry(part=part, quorum=quorum, token=token, number=counted):
                told = token if counted is None else f"number {counted}"
                self._add(BlockTruth(number, 0, part, zxid, quorum, told, entry.dedup))
            case PublishEntry(parts=parts, replace=replace):
                self._drop(replace, number, zxid)
                for index, part in enumerate(parts):
                    self._add(BlockTruth(number, index, part, zxid, 1, publication=number))
            case DoneEntry(number=ended):
                block = self.by_number[ended, 0]
                if block.visible is not None or block.has_failed:
                    yield f"{ended} has ended, and is done"
                block.visible = zxid
            case FailedEntry(number=ended):
                block = self.by_number[ended, 0]
                if block.visible is not None or block.has_failed:
                    yield f"{ended} has ended, and fails"
                block.has_failed = True
            case DropEntry(partitions=partitions):
                self._drop(partitions, number, zxid)

    def _add(self, block: BlockTruth) -> None:
        if block.quorum == 1:
            block.visible = block.zxid
        self.blocks.append(block)
        self.by_number[block.number, block.index] = block
        self.by_part[block.header.id] = block

    def _drop(self, partitions: tuple[str, ...] | None, number: int, zxid: Zxid) -> None:
        for block in self.blocks:
            is_meant = partitions is None or block.header.partition in partitions
            if is_meant and block.number < number and block.dropped is None:
                block.dropped = zxid

    def of_entry(self, number: int) -> list[BlockTruth]:
        """The blocks that an entry has brought."""
        return [block for block in self.blocks[-publication_max:] if block.number == number]

    def same_rows(self, block: BlockTruth) -> list[BlockTruth]:
        """Other blocks that are there and have its content."""
        return [
            other
            for other in self.blocks
            if other is not block
            and (other.content, other.header.partition) == (block.content, block.header.partition)
            and not other.has_failed
            and other.dropped is None
        ]

    def has_failed(self, part: PartId) -> bool:
        """Whether nobody wants it: its block has failed, or no entry names it."""
        block = self.by_part.get(part)
        return block is None or block.has_failed

    @property
    def wanted(self) -> list[PartId]:
        """Parts of the blocks that are visible now."""
        return [block.header.id for block in self.blocks if block.visible and not block.dropped]


publication_max = 64
"""So many parts has one publication at most."""
