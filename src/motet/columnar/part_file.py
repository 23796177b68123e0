"""Part files: a block of rows, sorted by the table's key, as one Parquet file; and back again.

The same block and order always make the same bytes, whatever pieces the block came in, so a part's hash says
what is in it. Any reader of Parquet can read the file.

With the engine ``replacing`` parts are put one after the other, the oldest first, and sorted together:
merging parts that are sorted already would gain next to nothing of the whole.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.dataset as pa_dataset
import pyarrow.parquet as pq

from motet.columnar.block import halved
from motet.columnar.filters import Filter, check_filters, row_groups_to_read, rows_kept
from motet.columnar.latest import latest_rows
from motet.columnar.ordering import sorted_block
from motet.columnar.part_layout import encodings, key_text, row_group_rows
from motet.columnar.schema import decode_schema
from motet.core.tables.records import TableSpec
from motet.errors import BadBytes, BadSchema, ObjectMissing, TooLarge
from motet.limits import part_bytes_max

block_rows_max = 1 << 20
"""Rows that ``split_blocks`` leaves together."""

block_bytes_max = part_bytes_max // 2
"""Bytes in memory that ``split_blocks`` leaves together; their file is hardly ever larger."""


class PartFile(msgspec.Struct, frozen=True):
    """A file that can become a part."""

    data: bytes
    #: blake2b over the data, 16 bytes in hexadecimal
    hash: str
    rows: int
    #: the key of the first and of the last row, as JSON text; a long one is cut
    low_key: str
    high_key: str


def split_blocks(block: pa.Table) -> Iterator[pa.Table]:
    """The block in pieces that each make a part well below its bound; none for a block without rows."""
    for start in range(0, block.num_rows, block_rows_max):
        yield from halved(block.slice(start, block_rows_max), block_bytes_max)


def write_part(block: pa.Table, order_by: Sequence[str]) -> PartFile:
    """The block, sorted by these columns (rows of one key stay in their order), as a file."""
    if block.nbytes > 4 * part_bytes_max:
        raise TooLarge(f"a block of {block.nbytes} bytes cannot become one part")
    ordered = sorted_block(block.replace_schema_metadata(None), order_by)
    dictionary, plain = encodings(ordered)
    sink = pa.BufferOutputStream()
    pq.write_table(
        ordered,
        sink,
        row_group_size=row_group_rows,
        compression="zstd",
        use_dictionary=dictionary,
        column_encoding=plain,
        write_statistics=True,
    )
    data = sink.getvalue().to_pybytes()
    if len(data) > part_bytes_max:
        raise TooLarge(f"a part of {len(data)} bytes exceeds the limit of {part_bytes_max}")
    return PartFile(
        data,
        hashlib.blake2b(data, digest_size=16).hexdigest(),
        block.num_rows,
        key_text(ordered, order_by, 0),
        key_text(ordered, order_by, ordered.num_rows - 1),
    )


def read_part(
    source: str | BinaryIO,
    schema: pa.Schema,
    columns: Sequence[str] | None = None,
    filters: Sequence[Filter] = (),
) -> Iterator[pa.RecordBatch]:
    """The rows of a part that pass all filters, in its order, with these columns; all for None."""
    wanted = _selected(schema, columns)
    check_filters(filters, schema)
    read = dict.fromkeys([*wanted.names, *(each.column for each in filters)])
    with _opened(source) as file:
        batches = file.iter_batches(
            batch_size=row_group_rows,
            row_groups=row_groups_to_read(file.metadata, schema, filters),
            columns=list(read),
            use_threads=False,  # a Spark task has one core, and others have theirs
        )
        try:
            for batch in batches:
                kept = rows_kept(batch, filters)
                if kept.num_rows:
                    yield _exactly(kept, wanted)
        except (pa.ArrowException, OSError) as error:
            raise BadBytes(f"a part file cannot be read: {error}") from error


def _selected(schema: pa.Schema, columns: Sequence[str] | None) -> pa.Schema:
    if columns is None:
        return schema
    for name in columns:
        if schema.get_field_index(name) < 0:
            raise BadSchema(f"there is no column {name!r}")
    return pa.schema([schema.field(name) for name in columns])


def _opened(source: str | BinaryIO) -> pq.ParquetFile:
    """A local file is mapped into memory; from elsewhere, what lies close together is fetched at once."""
    is_path = isinstance(source, str | os.PathLike)
    try:
        return pq.ParquetFile(source, memory_map=is_path, pre_buffer=not is_path)
    except FileNotFoundError:
        raise ObjectMissing(f"the part file {source} is not there") from None
    except (pa.ArrowException, OSError) as error:
        raise BadBytes(f"a part file cannot be read: {error}") from error


def _exactly(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if not len(schema):
        return batch.select([])
    columns = [batch.column(field.name).cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def read_table(
    spec: TableSpec, sources: Sequence[str | BinaryIO], columns: Sequence[str] | None = None
) -> pa.Table:
    """All rows of some parts, oldest part first; of a table that replaces, the latest of each key."""
    schema = decode_schema(spec.schema)
    wanted = checked_columns(spec, schema, columns)
    if spec.engine == "merge":
        batches = [batch for source in sources for batch in read_part(source, schema, wanted)]
        return pa.Table.from_batches(batches, schema=_part_of(schema, wanted))
    needed = _needed(spec, schema, wanted)
    within = _part_of(schema, needed)
    blocks = [
        pa.Table.from_batches(list(read_part(source, schema, needed)), schema=within)
        for source in sources
    ]
    if not blocks:
        return _part_of(schema, wanted).empty_table()
    block = pa.concat_tables(blocks)
    return latest_rows(block, spec.order_by, spec.version, spec.tombstone).select(wanted)


def checked_columns(spec: TableSpec, schema: pa.Schema, columns: Sequence[str] | None) -> list[str]:
    """The columns to read; ``BadSchema`` names one that is not there."""
    if columns is None:
        return list(schema.names)
    wanted = [columns] if isinstance(columns, str) else list(columns)
    for column in wanted:
        if column not in schema.names:
            raise BadSchema(
                f"{spec.name} has no column {column!r}",
                hint=f"its columns are {', '.join(schema.names)}",
            )
    return wanted


def _needed(spec: TableSpec, schema: pa.Schema, wanted: Sequence[str]) -> list[str]:
    """What has to be read to tell which rows are the latest, and what was asked for."""
    needed = {*wanted, *spec.order_by, *_named(spec.version, spec.tombstone)}
    return [name for name in schema.names if name in needed]


def _named(*columns: str | None) -> Iterable[str]:
    return (column for column in columns if column is not None)


def _part_of(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    return pa.schema([schema.field(column) for column in columns])


class Spool:
    """Takes pieces of one schema, and is a table, or a dataset, at its end."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._schema = schema
        self._first: pa.Table | None = None
        self._writer: pq.ParquetWriter | None = None

    def add(self, piece: pa.Table) -> None:
        """One more piece."""
        if not piece.num_rows:
            return
        if self._first is None and self._writer is None:
            self._first = piece
            return
        if self._writer is None:
            self._writer = pq.ParquetWriter(str(self._path), self._schema)
            self._writer.write_table(self._first)
            self._first = None
        self._writer.write_table(piece)

    def done(self) -> Any:
        """All pieces, for whatever takes Arrow; the file is to be kept as long as that is used."""
        if self._writer is None:
            return self._schema.empty_table() if self._first is None else self._first
        self._writer.close()
        return pa_dataset.dataset(str(self._path), schema=self._schema, format="parquet")
