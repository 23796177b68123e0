"""The file of blocks that checkpoints are kept in, and which of its blocks are free.

A block is ``checksum | length | data`` in a place of one size for all; what is behind the data is whatever
was there before, and nobody looks at it. Blocks are never changed: a new checkpoint writes to free ones what
differs from the last, and shares the rest with it.

G1  A block of the durable checkpoint is not written to. So a crash at any moment leaves a whole one.
G2  The next block is the lowest free one. So replicas with one history have equal blocks in equal
    places, and can repair a block from each other; and the file stays as short as it can.
G3  What is free follows from what the durable checkpoint refers to, and is kept nowhere else: a replica
    that read its checkpoint back, or got another's, goes on exactly as one that never stopped.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from motet.core.vsr.block_ref import BlockRef
from motet.core.vsr.header import Checksum, checksum

_checksum_bytes = 16
_length_bytes = 4
block_overhead_bytes = _checksum_bytes + _length_bytes
block_bytes_min = 128
"""So that a block has room for a few references, and lists of lists come to an end."""


def block_offset(index: int, block_bytes: int) -> int:
    """Where in the file a block is."""
    return index * block_bytes


def encode_block(data: bytes, block_bytes: int) -> tuple[bytes, Checksum]:
    """The block as on disk, and its checksum for whoever refers to it."""
    assert len(data) <= block_bytes - block_overhead_bytes, "a block outgrew its place"
    body = len(data).to_bytes(_length_bytes, "little") + data
    digest = checksum(body)
    return digest + body, digest


def decode_block(raw: bytes, ref: BlockRef) -> bytes | None:
    """The data of the block that is referred to; None if these bytes do not begin with that block."""
    length_bytes = int.from_bytes(raw[_checksum_bytes:block_overhead_bytes], "little")
    end = block_overhead_bytes + length_bytes
    if end > len(raw) or raw[:_checksum_bytes] != ref.checksum:
        return None
    if checksum(raw[_checksum_bytes:end]) != ref.checksum:
        return None
    return raw[block_overhead_bytes:end]


class BlockAllocator(msgspec.Struct):
    """Which blocks are free."""

    #: no block from here on is in use
    end: int = 0
    #: the free blocks below ``end``, the lowest last, where a list is quick
    free: list[int] = []
    #: of the durable checkpoint, not of the one being made
    released: list[int] = []
    #: a checkpoint is being made, and the last one is still the durable one
    is_making: bool = False

    def begin(self) -> None:
        """Blocks are for the next checkpoint from here on."""
        assert not self.is_making, "G3: checkpoints are made one after the other"
        self.is_making = True

    def allocate(self) -> int:
        """A block for the checkpoint being made (G2)."""
        assert self.is_making
        if self.free:
            return self.free.pop()
        self.end += 1
        return self.end - 1

    def release(self, refs: Iterable[BlockRef]) -> None:
        """The checkpoint being made does without these; the durable one does not (G1)."""
        assert self.is_making
        self.released += [ref.index for ref in refs]

    def checkpoint_durable(self) -> None:
        """The checkpoint being made is the durable one now, and the last one is history."""
        assert self.is_making
        free = sorted(self.free + self.released, reverse=True)
        beyond = 0
        while beyond < len(free) and free[beyond] == self.end - 1 - beyond:
            beyond += 1
        self.end -= beyond
        self.free, self.released, self.is_making = free[beyond:], [], False


def restored_allocator(refs: Iterable[BlockRef]) -> BlockAllocator:
    """The allocator of a durable checkpoint that refers to these blocks (G3)."""
    used = dict.fromkeys(ref.index for ref in refs)
    end = max(used, default=-1) + 1
    free = [index for index in range(end - 1, -1, -1) if index not in used]
    return BlockAllocator(end, free)
