"""Blocks that are exactly what was referred to, and an allocator against one that looks at everything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.core.fingerprint import clone_plain
from motet.core.vsr.block_ref import BlockRef
from motet.core.vsr.grid import (
    BlockAllocator,
    block_bytes_min,
    block_offset,
    block_overhead_bytes,
    decode_block,
    encode_block,
    restored_allocator,
)
from motet.core.vsr.header import NO_CHECKSUM

BLOCK_BYTES = block_bytes_min


@given(st.binary(max_size=BLOCK_BYTES - block_overhead_bytes), st.binary(max_size=20))
def test_a_block_gives_back_its_data_whatever_is_behind_it(data: bytes, behind: bytes) -> None:
    raw, digest = encode_block(data, BLOCK_BYTES)
    assert len(raw) <= BLOCK_BYTES
    assert decode_block(raw + behind, BlockRef(3, digest)) == data


@given(
    st.binary(max_size=BLOCK_BYTES - block_overhead_bytes),
    st.integers(0, BLOCK_BYTES - 1),
    st.integers(1, 255),
)
def test_a_change_of_any_byte_is_seen(data: bytes, position: int, flip: int) -> None:
    raw, digest = encode_block(data, BLOCK_BYTES)
    changed = bytearray(raw)
    changed[position % len(raw)] ^= flip
    assert decode_block(bytes(changed), BlockRef(0, digest)) is None


@given(st.binary(max_size=200), st.binary(min_size=16, max_size=16))
def test_bytes_that_are_no_block(raw: bytes, digest: bytes) -> None:
    assert decode_block(raw, BlockRef(0, digest)) is None


def test_a_whole_block_that_is_not_the_one_referred_to() -> None:
    raw, digest = encode_block(b"a", BLOCK_BYTES)
    _, other = encode_block(b"b", BLOCK_BYTES)
    assert decode_block(raw, BlockRef(0, other)) is None
    assert decode_block(raw[:-1] + b"\1", BlockRef(0, digest)) is None
    assert decode_block(bytes(BLOCK_BYTES), BlockRef(0, NO_CHECKSUM)) is None


def test_blocks_lie_one_after_the_other() -> None:
    assert [block_offset(index, 8192) for index in range(3)] == [0, 8192, 16384]


class Naive:
    """Looks for the lowest block that is in neither checkpoint."""

    def __init__(self) -> None:
        self.durable: list[int] = []
        self.next: list[int] = []

    def allocate(self) -> int:
        index = 0
        while index in self.durable or index in self.next:
            index += 1
        self.next.append(index)
        return index


def ref(index: int) -> BlockRef:
    return BlockRef(index, NO_CHECKSUM)


@given(st.data())
def test_the_lowest_block_in_neither_checkpoint_and_the_same_after_a_restart(
    data: st.DataObject,
) -> None:
    allocator, naive = BlockAllocator(), Naive()
    for _ in range(data.draw(st.integers(1, 6))):
        allocator.begin()
        dropped = [index for index in naive.durable if data.draw(st.booleans())]
        naive.next = [index for index in naive.durable if index not in dropped]
        for index in dropped:
            allocator.release([ref(index)])
        for _ in range(data.draw(st.integers(0, 6))):
            assert allocator.allocate() == naive.allocate()
        naive.durable = naive.next
        allocator.checkpoint_durable()
        restored = restored_allocator(ref(index) for index in naive.durable)
        assert restored == allocator
        if data.draw(st.booleans()):
            allocator = restored


def test_blocks_of_the_durable_checkpoint_stay_until_the_next_is_durable() -> None:
    allocator = BlockAllocator()
    allocator.begin()
    assert [allocator.allocate() for _ in range(3)] == [0, 1, 2]
    allocator.checkpoint_durable()
    allocator.begin()
    allocator.release([ref(0), ref(1)])
    assert allocator.allocate() == 3
    twin = clone_plain(allocator)
    allocator.checkpoint_durable()
    allocator.begin()
    assert [allocator.allocate() for _ in range(3)] == [0, 1, 4]
    assert twin.allocate() == 4


def test_checkpoints_are_made_one_after_the_other() -> None:
    allocator = BlockAllocator()
    allocator.begin()
    with pytest.raises(AssertionError):
        allocator.begin()
