"""Restores that get wrong bytes, bytes twice, bytes in any order, and whole blocks full of nonsense."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.core.fingerprint import clone_plain
from motet.core.vsr.block_ref import NO_BLOCK, BlockRef
from motet.core.vsr.checkpoint import (
    PageTable,
    Root,
    RootBlock,
    begin_build,
    build_more,
    chunk_pages,
)
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.grid import BlockAllocator, encode_block
from motet.core.vsr.restore import Restore, RestorePhase, begin_restore
from motet.ids import Address, ClusterId

CONFIG = VsrConfig(ClusterId(1), (Address("n1"),), block_bytes=128)
CHANGED: dict[int, bytes | None] = {
    number: bytes([number % 256]) * (number // 2) for number in range(3, 700, 60)
}
EXTRA = b"extra" * 100
encode = msgspec.msgpack.encode


def checkpoint() -> tuple[PageTable, dict[int, bytes], BlockRef]:
    """Where everything of it is, its blocks, and its root."""
    table, allocator = PageTable(), BlockAllocator()
    building = begin_build(CONFIG, allocator, CHANGED, EXTRA)
    build_more(CONFIG, table, allocator, building, CHANGED.__getitem__, 1_000)
    assert building.root is not None
    return table, dict(building.writes), building.root


@settings(deadline=None)
@given(st.data())
def test_blocks_come_in_any_order_twice_and_damaged(data: st.DataObject) -> None:
    table, disk, root = checkpoint()
    restore = begin_restore(CONFIG, root)
    random = data.draw(st.randoms(use_true_random=False))
    while not restore.is_done:
        wanted = restore.wanted(random.randint(1, 9))
        assert wanted == restore.wanted(len(wanted))
        random.shuffle(wanted)
        for ref in wanted:
            other = disk[random.choice(list(disk))]
            assert restore.give(ref, other) is (other == disk[ref.index])
            assert not restore.give(ref, b"") or other == disk[ref.index]
            assert restore.give(ref, disk[ref.index])
            assert restore.give(ref, b"it is here already")
        if random.random() < 0.3:
            restore = clone_plain(restore)
    pages, extra, found = restore.result()
    assert pages == sorted(CHANGED.items())
    assert (extra, found) == (EXTRA, table)


def test_an_empty_state_is_there_at_once() -> None:
    restore = begin_restore(CONFIG, NO_BLOCK)
    assert restore.is_done
    assert restore.wanted(10) == []
    assert restore.result() == ([], b"", PageTable())


def test_a_block_that_is_too_large_is_turned_down() -> None:
    raw, digest = encode_block(encode(RootBlock(0, encode(Root((), b"")))), 256)
    restore = begin_restore(CONFIG, BlockRef(0, digest))
    assert not restore.give(BlockRef(0, digest), raw.ljust(CONFIG.block_bytes + 1, b"\0"))
    assert restore.wanted(5) == [BlockRef(0, digest)]


class Liar:
    """Writes whole blocks with any content."""

    def __init__(self) -> None:
        self.disk: dict[BlockRef, bytes] = {}

    def put(self, content: object, index: int | None = None) -> BlockRef:
        data = content if isinstance(content, bytes) else encode(content)
        raw, digest = encode_block(data, CONFIG.block_bytes)
        ref = BlockRef(len(self.disk) + 10 if index is None else index, digest)
        self.disk[ref] = raw
        return ref

    def root(self, content: object, depth: int = 0) -> Restore:
        return self.read(self.put(RootBlock(depth, encode(content))))

    def read(self, root: BlockRef) -> Restore:
        restore = begin_restore(CONFIG, root)
        while wanted := restore.wanted(4):
            for ref in wanted:
                assert restore.give(ref, self.disk[ref])
        return restore


def chunk_of(*pages: tuple[BlockRef, ...]) -> bytes:
    # too long for one small block on purpose: most of a chunk is empty tuples
    return encode([*pages, *[()] * (chunk_pages - len(pages))])


def put_chunk(liar: Liar, chunk: bytes) -> tuple[BlockRef, ...]:
    return tuple(liar.put(chunk[start : start + 100]) for start in range(0, len(chunk), 100))


def test_the_liar_can_tell_the_truth() -> None:
    liar = Liar()
    chunk = put_chunk(liar, chunk_of((), (liar.put(b"page"),)))
    restore = liar.root(Root(((2, chunk),), b"e"))
    assert restore.result()[:2] == ([(2 * chunk_pages + 1, b"page")], b"e")


def test_nonsense_in_the_root() -> None:
    ref = BlockRef(1, bytes(16))
    contents: list[object] = [
        b"",
        7,
        Root(((0, ()),), b""),
        Root(((-1, (ref,)),), b""),
        Root(((0, (ref,)), (0, (BlockRef(2, bytes(16)),))), b""),
        Root(((0, (ref, ref)),), b""),
        Root(((0, (BlockRef(-1, bytes(16)),)),), b""),
        Root(((0, (BlockRef(1 << 40, bytes(16)),)),), b""),
        Root(((0, (BlockRef(1, b"short"),)),), b""),
    ]
    for content in contents:
        assert is_nonsense(Liar().root(content)), content


@pytest.mark.parametrize("depth", [-1, 17, 1 << 62])
def test_a_root_of_a_depth_that_cannot_be(depth: int) -> None:
    assert is_nonsense(Liar().root([], depth))


def test_nonsense_in_the_lists_of_a_root() -> None:
    assert is_nonsense(Liar().root([], depth=1))
    liar = Liar()
    assert is_nonsense(liar.root([liar.put(b"no root")], depth=1))
    liar = Liar()
    assert is_nonsense(liar.root([liar.put(b"no list")], depth=2))
    assert is_nonsense(liar.read(liar.put(b"\x91" * 90)))
    liar = Liar()
    twice = liar.put(b"", index=11)
    assert is_nonsense(liar.root([twice, twice], depth=1))


def test_nonsense_in_a_chunk() -> None:
    def lie(chunk: bytes) -> Restore:
        liar = Liar()
        return liar.root(Root(((0, put_chunk(liar, chunk)),), b""))

    assert is_nonsense(lie(b"no chunk"))
    assert is_nonsense(lie(chunk_of()))
    assert is_nonsense(lie(encode([(BlockRef(99, bytes(16)),)])))
    assert is_nonsense(lie(chunk_of((BlockRef(10, bytes(16)),))))


@given(st.binary(max_size=100))
def test_a_root_block_of_any_bytes(data: bytes) -> None:
    liar = Liar()
    restore = begin_restore(CONFIG, root := liar.put(data))
    assert restore.give(root, liar.disk[root])


def is_nonsense(restore: Restore) -> bool:
    assert not restore.is_done
    return (
        restore.phase is RestorePhase.NONSENSE and bool(restore.failure) and restore.wanted(1) == []
    )
