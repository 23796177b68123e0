"""Rows as a caller gives them become parts of a table, ready to be inserted or staged.

N1  The rows are conformed to the schema of the table first; a null in the key is refused.
N2  Their *content* is a hash of the rows as conformed, in the order of the call, before they are split or
    sorted (T7); a table that knows blocks by content (``dedup="content"``) has such a hash per shard and
    partition, too (T9).
N3  Rows that are too many for memory come in blocks, each of which is divided by shard and partition and
    makes parts of its own: nothing is refused for its size.
N4  A small part is held in memory, to travel within a message; a larger one is a file in ``folder``, which
    its owner removes. After an error no file is left.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa

from motet.columnar.block import blocks_of
from motet.columnar.content_hash import ContentHash
from motet.columnar.ordering import Ordering, Rows, take_rows
from motet.columnar.part_schema import table_schema
from motet.columnar.part_writer import PartWriter
from motet.columnar.partitions import partitions_of
from motet.columnar.placing import shards_of
from motet.core.mergetree.entries import PartHeader, header_of
from motet.core.metadata.definitions import TableDefinition
from motet.errors import BadSchema, DiskFull, ObjectError, TooLarge
from motet.format.part_manifest import PartManifest, encode_part_manifest
from motet.ids import PartId
from motet.limits import insert_inline_bytes_max, insert_partitions_max
from motet.real.durable import FULL

Place = tuple[int, str]
"""A shard and a partition."""

_in_memory_bytes_max = 4 * insert_inline_bytes_max
"""Rows of more than that hardly make a file that fits into a message, so it is written to disk at once."""


@dataclass(frozen=True, slots=True)
class EncodedPart:
    """A finished part."""

    manifest: PartManifest
    #: the bytes of the two files; those of a large part are at ``path`` instead
    manifest_bytes: bytes
    data: bytes | None
    path: Path | None

    @property
    def header(self) -> PartHeader:
        """What is said of it in messages."""
        return header_of(self.manifest)

    @property
    def place(self) -> Place:
        """Its shard and its partition."""
        return self.manifest.shard, self.manifest.partition

    def remove(self) -> None:
        """Remove its file, if it has one."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class EncodedRows:
    """All parts of one call."""

    parts: tuple[EncodedPart, ...]
    rows: int
    #: of all rows, as they were given (T7)
    content: str
    #: with ``dedup="content"``: of the rows of each shard and partition (T9)
    contents: dict[Place, str] = field(default_factory=dict)

    def remove(self) -> None:
        """Remove the files of its parts."""
        for part in self.parts:
            part.remove()


def encode_parts(
    definition: TableDefinition,
    data: object,
    new_id: Callable[[], PartId],
    folder: Path | None = None,
) -> EncodedRows:
    """The rows as parts; files go to ``folder``, else to where the system keeps temporary ones."""
    encoder = _Encoder(definition, new_id, folder or Path(tempfile.gettempdir()))
    try:
        for block in blocks_of(data, encoder.schema):
            encoder.add(block)
    except BaseException:
        for part in encoder.parts:
            with suppress(OSError):
                part.remove()
        raise
    return encoder.done()


class _Encoder:
    """Takes blocks and makes parts of them."""

    def __init__(
        self, definition: TableDefinition, new_id: Callable[[], PartId], folder: Path
    ) -> None:
        self.schema = table_schema(definition)
        self.parts: list[EncodedPart] = []
        self._definition = definition
        self._new_id = new_id
        self._folder = folder
        self._rows = 0
        self._content = self._new_hash()
        self._contents: dict[Place, ContentHash] = {}
        self._partitions: dict[str, None] = {}

    def _new_hash(self) -> ContentHash:
        ids = tuple(column.id for column in self._definition.columns)
        return ContentHash(ids, self.schema)

    def add(self, block: pa.Table) -> None:
        """A block of the schema."""
        for name in self._definition.order_by:
            if block.column(name).null_count:
                raise BadSchema(
                    f"the column {name!r} has a null, and it is in order_by",
                    hint="a key has no nulls: leave these rows out, or fill them in",
                )
        self._content.add(block)
        self._rows += block.num_rows
        if block.num_rows:
            self._divide(block)

    def _divide(self, block: pa.Table) -> None:
        """Make a part of the rows of each shard and partition, in the order of the key."""
        partitions = partitions_of(self._definition.partition_by, block)
        shards = self._definition.shards
        codes: Rows = partitions.places * shards + shards_of(self._definition, block)
        ordering = Ordering(block.num_rows)
        ordering.refine([block.column(name) for name in self._definition.order_by])
        order, is_moved = ordering.order, ordering.moved
        if codes.min() != codes.max():
            order, is_moved = order[np.argsort(codes[order], kind="stable")], True
        ordered = take_rows(block, order) if is_moved else block
        codes = codes[order]
        starts = np.flatnonzero(np.diff(codes, prepend=-1)).tolist()
        for start, end in pairwise([*starts, len(codes)]):
            code = int(codes[start])
            place = (code % shards, partitions.names[code // shards])
            self._count(place)
            if self._definition.dedup is not None:
                own = take_rows(block, np.sort(order[start:end]))
                self._contents.setdefault(place, self._new_hash()).add(own)
            self.parts.append(self._written(place, ordered.slice(start, end - start)))

    def _count(self, place: Place) -> None:
        """What ``partitions_of`` says of one block, of all blocks."""
        self._partitions[place[1]] = None
        if len(self._partitions) > insert_partitions_max:
            raise TooLarge(
                f"rows of {len(self._partitions)} partitions exceed the limit of {insert_partitions_max}",
                hint="insert fewer partitions at once, or partition the table more coarsely",
            )

    def _written(self, place: Place, rows: pa.Table) -> EncodedPart:
        part = self._new_id()
        path = self._folder / f"{part}.parquet"
        if rows.nbytes <= _in_memory_bytes_max:
            memory = io.BytesIO()
            manifest = self._write(place, rows, memory, part)
            if manifest.size_bytes <= insert_inline_bytes_max:
                return EncodedPart(
                    manifest, encode_part_manifest(manifest), memory.getvalue(), None
                )
            with _new_file(path) as file:
                file.write(memory.getbuffer())
        else:
            with _new_file(path) as file:
                manifest = self._write(place, rows, file, part)
        return EncodedPart(manifest, encode_part_manifest(manifest), None, path)

    def _write(self, place: Place, rows: pa.Table, target: BinaryIO, part: PartId) -> PartManifest:
        writer = PartWriter(self._definition, *place, target, part)
        writer.add(rows)
        return writer.close()

    def done(self) -> EncodedRows:
        """All parts."""
        contents = {place: hash_.digest() for place, hash_ in self._contents.items()}
        return EncodedRows(tuple(self.parts), self._rows, self._content.digest(), contents)


@contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """A new file to write and read; after an error it is not there."""
    try:
        file = path.open("x+b")
    except OSError as error:
        raise _error_of(error, path) from None
    try:
        with file:
            yield cast("BinaryIO", file)
    except BaseException as error:
        path.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise _error_of(error, path) from None
        raise


def _error_of(error: OSError, path: Path) -> DiskFull | ObjectError:
    text = f"{path}: {error.strerror or error}"
    return DiskFull(text) if error.errno in FULL else ObjectError(text)
