"""What a shard's log says, entry by entry: which blocks are open, visible, failed or dropped.

V1  Numbers rise by one from entry to entry, and zxids rise with them. An entry is applied once.
V2  A block is *visible* from the zxid of its entry; one with a quorum from that of the entry ``done``. It is
    *open* until then, or until ``failed``. What comes first of the two stands: the other one changes nothing.
V3  A drop takes all blocks of its partitions with lower numbers, open ones too, from its own zxid on. If
    ``done`` comes after it, the block was ordered before the drop and was never seen.
V4  A *version* is a zxid. At version V a reader sees the blocks that are visible at or below V and that no
    drop at or below V has taken. It is a set, not a frontier: no plain block is hidden by a quorum in flight.

This is kept apart from the parts that a replica has: executing ``done`` without the part is allowed.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from motet.core.mergetree.entries import (
    DoneEntry,
    DropEntry,
    Entry,
    FailedEntry,
    InsertEntry,
    PartHeader,
    PublishEntry,
    parts_of,
)
from motet.core.mergetree.names import Block, PartName, of_block
from motet.ids import NodeId, PartId, Zxid


class BlockStanding(StrEnum):
    """What became of a block, as far as the log has been read."""

    OPEN = "open"
    VISIBLE = "visible"
    FAILED = "failed"
    DROPPED = "dropped"


class BlockState(msgspec.Struct):
    """One block."""

    block: Block
    header: PartHeader
    #: on how many replicas it has to be
    quorum: int
    #: who has brought it, and who had it then: hints for whoever fetches it
    holders: tuple[NodeId, ...]
    token: str | None
    #: or which number of which producer it is
    producer: str | None = None
    number: int | None = None
    #: the hash of its rows, where content is told apart by that
    dedup: str | None = None
    #: from this version on it is visible; None: it is open, or failed
    visible: Zxid | None = None
    has_failed: bool = False
    #: from this version on it is dropped
    dropped: Zxid | None = None

    @property
    def name(self) -> PartName:
        return of_block(self.header.partition, self.block)

    @property
    def is_open(self) -> bool:
        return self.visible is None and not self.has_failed

    @property
    def standing(self) -> BlockStanding:
        if self.has_failed:
            return BlockStanding.FAILED
        if self.visible is None:
            return BlockStanding.OPEN
        return BlockStanding.VISIBLE if self.dropped is None else BlockStanding.DROPPED

    def is_seen(self, version: Zxid) -> bool:
        """Whether a reader at this version sees it (V4)."""
        is_visible = self.visible is not None and self.visible <= version
        return is_visible and (self.dropped is None or self.dropped > version)


class History(msgspec.Struct):
    """All that the log says up to an entry."""

    #: the number of the next entry, and the zxid of the last one
    next_number: int = 0
    zxid: Zxid = Zxid(0)
    #: in the order of the log
    blocks: dict[Block, BlockState] = msgspec.field(default_factory=dict)
    by_part: dict[PartId, Block] = msgspec.field(default_factory=dict)
    #: the same blocks by their partitions, and those that are open
    partitions: dict[str, dict[Block, None]] = msgspec.field(default_factory=dict)
    open: dict[Block, None] = msgspec.field(default_factory=dict)
    #: the last drop of a partition, and the last one of all
    drops: dict[str, Zxid] = msgspec.field(default_factory=dict)
    dropped_all: Zxid = Zxid(0)

    def apply(self, number: int, zxid: Zxid, entry: Entry) -> None:
        """Take the next entry (V1)."""
        assert number == self.next_number, "V1"
        assert zxid > self.zxid, "V1"
        self.next_number, self.zxid = number + 1, zxid
        if isinstance(entry, DoneEntry):
            self._end(entry.number, zxid)
        elif isinstance(entry, FailedEntry):
            self._end(entry.number, None)
        elif isinstance(entry, DropEntry):
            self._drop(entry.partitions, number, zxid)
        else:
            if isinstance(entry, PublishEntry):
                self._drop(entry.replace, number, zxid)
            self._add(number, zxid, entry)

    def _add(self, number: int, zxid: Zxid, entry: InsertEntry | PublishEntry) -> None:
        producer, counted, dedup = None, None, None
        if isinstance(entry, InsertEntry):
            quorum, token = entry.quorum, entry.token
            producer, counted, dedup = entry.producer, entry.number, entry.dedup
            holders: tuple[NodeId, ...] = (entry.replica,)
        else:
            quorum, token = 1, None
            holders = entry.holders
        for index, header in enumerate(parts_of(entry)):
            block = Block(number, index)
            state = BlockState(block, header, quorum, holders, token, producer, counted, dedup)
            state.visible = zxid if quorum <= 1 else None
            self.blocks[block] = state
            self.by_part[header.id] = block
            self.partitions.setdefault(header.partition, {})[block] = None
            if state.is_open:
                self.open[block] = None

    def _end(self, number: int, visible: Zxid | None) -> None:
        """V2."""
        state = self.blocks.get(Block(number))
        if state is not None and state.is_open:
            state.visible, state.has_failed = visible, visible is None
            del self.open[state.block]

    def _drop(self, partitions: tuple[str, ...] | None, number: int, zxid: Zxid) -> None:
        """V3."""
        if partitions is None:
            self.dropped_all = zxid
        for partition in self.partitions if partitions is None else partitions:
            self.drops[partition] = zxid
            for block in self.partitions.get(partition, ()):
                state = self.blocks[block]
                if block.entry < number and state.dropped is None:
                    state.dropped = zxid

    def last_drop(self, partition: str) -> Zxid:
        """The version from which on everything older in a partition is dropped; 0: nothing is."""
        return max(self.drops.get(partition, Zxid(0)), self.dropped_all)

    def of_part(self, part: PartId) -> BlockState | None:
        """The block that was inserted as this part, if its entry has been read."""
        block = self.by_part.get(part)
        return None if block is None else self.blocks[block]

    def seen_at(self, version: Zxid) -> list[BlockState]:
        """The blocks of a version, in the order of the log (V4)."""
        return [state for state in self.blocks.values() if state.is_seen(version)]

    def open_below(self, number: int, partitions: tuple[str, ...] | None) -> list[BlockState]:
        """What a drop of this number has to end (V3)."""
        return [
            self.blocks[block]
            for block in self.open
            if block.entry < number
            and (partitions is None or self.blocks[block].header.partition in partitions)
        ]
