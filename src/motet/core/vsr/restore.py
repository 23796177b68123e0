"""Getting a checkpoint back, block by block, from the own disk or from others.

::

    root ──▶ chunks ──▶ pages ──▶ done
      └────────┴──────────┴─────▶ nonsense

A phase begins when the last block of the one before is there: then its blocks are known, with their
checksums, and may come in any order and from anybody. A block that is not what was referred to is turned
down, and stays wanted. Blocks that are what was referred to, and still make no sense, mean that somebody
once wrote nonsense: no other copy can be better, and the restore stands still and says so.
"""

from __future__ import annotations

from enum import StrEnum
from itertools import islice
from typing import TypeVar

import msgspec

from motet.core.vsr.block_ref import NO_BLOCK, BlockRef
from motet.core.vsr.checkpoint import (
    NO_PAGE,
    Page,
    PageTable,
    Refs,
    Root,
    RootBlock,
    chunk_pages,
)
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.grid import decode_block

T = TypeVar("T")

_depth_max = 16
_checksum_bytes = 16


class RestorePhase(StrEnum):
    """What is being read."""

    ROOT = "root"
    CHUNKS = "chunks"
    PAGES = "pages"
    DONE = "done"
    NONSENSE = "nonsense"


class _Nonsense(Exception):
    """The blocks are as they were written, and mean nothing."""


_decode_root_block = msgspec.msgpack.Decoder(RootBlock)
_decode_root = msgspec.msgpack.Decoder(Root)
_decode_refs = msgspec.msgpack.Decoder(Refs)
_decode_chunk = msgspec.msgpack.Decoder(list[Page])


class Restore(msgspec.Struct):
    """A checkpoint that is being read. Make one with ``begin_restore``."""

    block_bytes: int
    blocks_max: int
    table: PageTable = msgspec.field(default_factory=PageTable)
    phase: RestorePhase = RestorePhase.ROOT
    #: blocks that are wanted, in order, by their places
    missing: dict[int, BlockRef] = {}
    #: those of them that nobody has taken to read, the lowest place last
    unread: list[BlockRef] = []
    #: blocks of this phase that are here, by their places
    blocks: dict[int, bytes] = {}
    #: places that are taken: a checkpoint has no block twice
    indexes: dict[int, None] = {}
    #: how many lists are between the blocks of this phase and the root; None before the root block
    depth: int | None = None
    #: the blocks that make up the next level of the root
    listed: Refs = ()
    pages: list[tuple[int, bytes]] = []
    extra: bytes = b""
    #: why it cannot be done
    failure: str = ""

    @property
    def is_done(self) -> bool:
        return self.phase is RestorePhase.DONE

    def wanted(self, limit: int) -> list[BlockRef]:
        """What to read or fetch next: the same until it is given."""
        return list(islice(self.missing.values(), limit))

    def take_unread(self, limit: int) -> list[BlockRef]:
        """What to read next from the own disk: each block once, in the order of their places."""
        taken = self.unread[-limit:]
        del self.unread[-limit:]
        return taken[::-1]

    def give(self, ref: BlockRef, raw: bytes) -> bool:
        """A block came in. False: it is not what was referred to, try another copy."""
        index = ref.index
        if self.missing.get(index) != ref:
            return True  # it came twice, or was asked for by somebody else
        if len(raw) > self.block_bytes:
            return False
        data = decode_block(raw, ref)
        if data is None:
            return False
        del self.missing[index]
        self.blocks[index] = data
        if not self.missing:
            self._advance()
        return True

    def result(self) -> tuple[list[tuple[int, bytes]], bytes, PageTable]:
        """The pages in order, what else was kept, and where it all is."""
        assert self.is_done
        return self.pages, self.extra, self.table

    # Phases

    def _advance(self) -> None:
        """All blocks of a phase are here; go on until there is something to wait for."""
        try:
            while not self.missing and self.phase is not RestorePhase.DONE:
                self._finish_phase()
        except _Nonsense as nonsense:
            self.phase, self.failure = RestorePhase.NONSENSE, str(nonsense)
            self.missing, self.unread, self.blocks = {}, [], {}

    def _finish_phase(self) -> None:
        if self.phase is RestorePhase.ROOT:
            self._finish_root_level()
        elif self.phase is RestorePhase.CHUNKS:
            self._finish_chunks()
        else:
            self._finish_pages()
        self.unread.sort(key=_place, reverse=True)

    def _finish_root_level(self) -> None:
        content = self._take(self.listed)
        if self.depth is None:
            block = _decode(_decode_root_block, content, "the root block")
            if not 0 <= block.depth <= _depth_max:
                raise _Nonsense("the root is too deep")
            self.depth, content = block.depth, block.content
        else:
            self.depth -= 1
        if self.depth > 0:
            self.listed = _decode(_decode_refs, content, "a list of the root")
            self._want(self.listed)
            self.table.root += self.listed
        else:
            self._begin_chunks(_decode(_decode_root, content, "the root"))

    def _begin_chunks(self, root: Root) -> None:
        last = -1
        for number, refs in root.chunks:
            if number <= last:
                raise _Nonsense("chunks are out of order")
            last = number
            self._want(refs)
        self.table.chunks = dict(root.chunks)
        self.extra, self.phase = root.extra, RestorePhase.CHUNKS

    def _finish_chunks(self) -> None:
        for number, refs in self.table.chunks.items():
            pages = _decode(_decode_chunk, self._take(refs), f"chunk {number}")
            if len(pages) != chunk_pages or all(page == NO_PAGE for page in pages):
                raise _Nonsense(f"chunk {number} has {len(pages)} pages, or none")
            for page in pages:
                if page and isinstance(page, tuple):
                    self._want(page)
            self.table.pages[number] = pages
        self.phase = RestorePhase.PAGES

    def _finish_pages(self) -> None:
        for chunk, pages in self.table.pages.items():
            for place, page in enumerate(pages):
                if page != NO_PAGE:
                    data = page if isinstance(page, bytes) else self._take(page)
                    self.pages.append((chunk * chunk_pages + place, data))
        self.phase = RestorePhase.DONE

    # Blocks

    def _want(self, refs: Refs) -> None:
        if not refs:
            raise _Nonsense("something takes no blocks")
        for ref in refs:
            if not 0 <= ref.index < self.blocks_max or len(ref.checksum) != _checksum_bytes:
                raise _Nonsense("a reference to no block")
            if ref.index in self.indexes:
                raise _Nonsense(f"block {ref.index} is referred to twice")
            self.indexes[ref.index] = None
            self.missing[ref.index] = ref
            self.unread.append(ref)

    def _take(self, refs: Refs) -> bytes:
        if len(refs) == 1:
            return self.blocks.pop(refs[0].index)
        return b"".join([self.blocks.pop(ref.index) for ref in refs])


def _place(ref: BlockRef) -> int:
    return ref.index


def begin_restore(config: VsrConfig, root: BlockRef) -> Restore:
    """Read the checkpoint of this root; ``NO_BLOCK`` is the empty one, and done at once."""
    restore = Restore(config.block_bytes, config.blocks_max)
    if root == NO_BLOCK:
        restore.phase = RestorePhase.DONE
        return restore
    restore.listed = restore.table.root = (root,)
    restore.indexes[root.index] = None
    restore.missing[root.index] = root
    restore.unread.append(root)
    return restore


def _decode(decoder: msgspec.msgpack.Decoder[T], data: bytes, what: str) -> T:
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise _Nonsense(f"{what} makes no sense") from error
