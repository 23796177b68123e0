"""A checkpoint: the whole state at one op, as blocks that refer to each other.

::

    root ──▶ chunks, each for 128 pages in a row ──▶ pages, which hold the state
      └────▶ extra: what else the replica wants to keep, for instance the client sessions

Who refers to a block says its checksum, so the reference to the root says what the whole state is, to
the byte. Anything may be longer than a block: pages and chunks are then kept as several, and the root as
a list of blocks, or a list of lists, whose depth it says first.

A chunk whose pages all fit into its own block has them there, and refers to nothing: a small state, of
which much changes, takes a tenth of the blocks. A chunk that has outgrown its block once has its pages
elsewhere until the last of them is gone.

A new checkpoint writes the pages that changed, their chunks, and a root; all else it shares with the
last. Chunks come in the order of their numbers, each behind its pages, and the root last: together with
G2 that makes the blocks of replicas with one history equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

import msgspec

from motet.core.vsr.block_ref import BlockRef
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.grid import BlockAllocator, block_bytes_min, block_overhead_bytes, encode_block

chunk_pages = 128
"""Pages to a chunk; with short pages a chunk is about 3 KB."""

Refs = tuple[BlockRef, ...]
"""The blocks of one page or chunk, in order."""

NO_PAGE: Refs = ()

Page = Refs | bytes
"""Where a page is, or the page itself; ``NO_PAGE`` for one that does not exist."""

TakePage = Callable[[int], bytes | None]
"""Gives a page that changed; None for one that is gone."""

_envelope_bytes = 8
"""A root block around its content: an array, the depth, the length."""


class Root(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What the root says."""

    #: chunk number and where it is, in order
    chunks: tuple[tuple[int, Refs], ...]
    extra: bytes


class RootBlock(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The first block of a checkpoint. At depth 0 the content is the root, else refs of what is one less."""

    depth: int
    content: bytes


class PageTable(msgspec.Struct):
    """Where everything of a checkpoint is."""

    #: chunk number -> its pages
    pages: dict[int, list[Page]] = {}
    #: chunk number -> where the chunk itself is; the same keys as ``pages``
    chunks: dict[int, Refs] = {}
    #: the root block, and those it lists
    root: Refs = ()

    def refs(self) -> Iterator[BlockRef]:
        """Every block of the checkpoint, once."""
        yield from self.root
        for number in sorted(self.chunks):
            yield from self.refs_of(number)

    def refs_of(self, number: int) -> Refs:
        """The blocks of a chunk and of its pages."""
        apart = (page for page in self.pages[number] if isinstance(page, tuple))
        return (*self.chunks[number], *chain.from_iterable(apart))


class Building(msgspec.Struct):
    """A checkpoint in the making, and when it is made, ready to be written."""

    #: chunks that are still to be put, the next one last, and which of their pages changed
    touched: list[tuple[int, list[int]]]
    extra: bytes
    #: index and bytes of each block so far
    writes: list[tuple[int, bytes]] = []
    #: once all is there
    root: BlockRef | None = None


class _Writer(msgspec.Struct):
    """The blocks of a checkpoint in the making."""

    block_bytes: int
    allocator: BlockAllocator
    writes: list[tuple[int, bytes]] = []

    @property
    def room_bytes(self) -> int:
        """What goes into one block."""
        return self.block_bytes - block_overhead_bytes

    def put(self, data: bytes) -> Refs:
        """Data of any length; the blocks it takes."""
        room_bytes = self.room_bytes
        if len(data) <= room_bytes:
            return (self._put_block(data),)
        starts = range(0, len(data), room_bytes)
        return tuple([self._put_block(data[start : start + room_bytes]) for start in starts])

    def _put_block(self, data: bytes) -> BlockRef:
        index = self.allocator.allocate()
        raw, digest = encode_block(data, self.block_bytes)
        self.writes.append((index, raw))
        return BlockRef(index, digest)


_encode = msgspec.msgpack.Encoder().encode


def begin_build(
    config: VsrConfig, allocator: BlockAllocator, changed: Iterable[int], extra: bytes
) -> Building:
    """The next checkpoint, in which these pages are others; ``checkpoint_durable`` ends it."""
    assert config.block_bytes >= block_bytes_min
    allocator.begin()
    touched: dict[int, list[int]] = {}
    for number in sorted(changed):
        touched.setdefault(number // chunk_pages, []).append(number)
    return Building(list(reversed(touched.items())), extra)


def build_more(
    config: VsrConfig,
    table: PageTable,
    allocator: BlockAllocator,
    building: Building,
    take_page: TakePage,
    blocks: int,
) -> bool:
    """So many blocks more, or a few more than that; at the end the root, and then True. Not all at once: with
    many changes that would take longer than anybody who waits for an answer should notice. ``table`` is that
    of the new checkpoint as far as it is built, and else of the last."""
    assert building.root is None
    writer = _Writer(config.block_bytes, allocator, building.writes)
    enough = len(building.writes) + blocks
    while building.touched and len(building.writes) < enough:
        chunk, numbers = building.touched.pop()
        if _change_pages(table, allocator, chunk, {each: take_page(each) for each in numbers}):
            _put_chunk(table, writer, chunk)
    if not building.touched:
        root = Root(tuple(sorted(table.chunks.items())), building.extra)
        allocator.release(table.root)
        table.root = _put_root(writer, _encode(root))
        building.root = table.root[0]
    return building.root is not None


def _change_pages(
    table: PageTable, allocator: BlockAllocator, chunk: int, changed: dict[int, bytes | None]
) -> bool:
    """Have the pages of a chunk as they are now; False if there is no such chunk, and none is needed."""
    pages = table.pages.get(chunk)
    if pages is None:
        if all(data is None for data in changed.values()):
            return False  # they came and went between two checkpoints
        pages = table.pages[chunk] = [NO_PAGE] * chunk_pages
    for number, data in changed.items():
        place = number % chunk_pages
        before = pages[place]
        if isinstance(before, tuple):
            allocator.release(before)
        pages[place] = NO_PAGE if data is None else data
    return True


def _put_chunk(table: PageTable, writer: _Writer, number: int) -> None:
    writer.allocator.release(table.chunks.pop(number, ()))
    pages = table.pages[number]
    if all(page == NO_PAGE for page in pages):
        del table.pages[number]
        return
    is_apart = any(page and isinstance(page, tuple) for page in pages)
    if is_apart or len(_encode(pages)) > writer.room_bytes:
        pages[:] = [page if isinstance(page, tuple) else writer.put(page) for page in pages]
    table.chunks[number] = writer.put(_encode(pages))


def _put_root(writer: _Writer, content: bytes) -> Refs:
    """The root block, followed by those it takes to get at the content."""
    room_bytes = writer.block_bytes - block_overhead_bytes - _envelope_bytes
    depth = 0
    listed: Refs = ()
    while len(content) > room_bytes:
        refs = writer.put(content)
        listed = refs + listed
        content = _encode(refs)
        depth += 1
    return writer.put(_encode(RootBlock(depth, content))) + listed
