"""Part files: a block of rows, sorted by the table's key, as one Parquet file; and back again.

The same block and order always make the same bytes, whatever pieces the block came in, so a part's hash says
what is in it. Any reader of Parquet can read the file. It is made for reading: columns whose values repeat
have a dictionary, other whole numbers are kept as differences (sorted ones nearly vanish), and each row
group knows its bounds, so that a reader with filters leaves most of them alone.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from motet.columnar.filters import Filter, check_filters, row_groups_to_read, rows_kept
from motet.columnar.ordering import Ordering, check_sortable, repeats, take_rows
from motet.errors import BadBytes, BadSchema, ObjectMissing, TooLarge
from motet.limits import part_bytes_max

key_text_length_max = 1024
"""Characters of a key: enough to recognise it."""

_to_json = msgspec.json.Encoder().encode


def key_text(block: pa.Table, order_by: Sequence[str], row: int) -> str:
    """The key of one row; an empty list if there is no such row."""
    if not 0 <= row < block.num_rows:
        return "[]"
    text = _to_json([_plain(block.column(name)[row]) for name in order_by]).decode()
    return text[:key_text_length_max]


def _plain(value: pa.Scalar) -> Any:
    if isinstance(value, pa.StructScalar) and value.is_valid:
        return {name: _plain(inner) for name, inner in value.items()}
    try:
        made = value.as_py()
    except (ValueError, OverflowError):  # a time that Python cannot say
        return value.value
    return str(made) if isinstance(made, float) and not math.isfinite(made) else made


row_group_rows = 128 * 1024
"""Rows of a row group, and of a batch when it is read: a few megabytes, enough to keep Spark busy."""

block_rows_max = 1 << 20
"""Rows that ``split_blocks`` leaves together."""

block_bytes_max = part_bytes_max // 2
"""Bytes in memory that ``split_blocks`` leaves together; their file is hardly ever larger."""

DICTIONARY = "DICTIONARY"


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
        yield from _halved(block.slice(start, block_rows_max))


def _halved(block: pa.Table) -> Iterator[pa.Table]:
    if block.num_rows <= 1 or block.nbytes <= block_bytes_max:
        yield block
        return
    half = block.num_rows // 2
    yield from _halved(block.slice(0, half))
    yield from _halved(block.slice(half))


def write_part(block: pa.Table, order_by: Sequence[str]) -> PartFile:
    """The block, sorted by these columns (rows of one key stay in their order), as a file."""
    if block.nbytes > 4 * part_bytes_max:
        raise TooLarge(f"a block of {block.nbytes} bytes cannot become one part")
    ordered = sorted_block(block.replace_schema_metadata(None), order_by)
    dictionary, encodings = _encodings(ordered)
    sink = pa.BufferOutputStream()
    pq.write_table(
        ordered,
        sink,
        row_group_size=row_group_rows,
        compression="zstd",
        use_dictionary=dictionary,
        column_encoding=encodings,
        write_statistics=True,
    )
    data = sink.getvalue().to_pybytes()
    if len(data) > part_bytes_max:
        raise TooLarge(f"a part of {len(data)} bytes is larger than {part_bytes_max}")
    return PartFile(
        data,
        hashlib.blake2b(data, digest_size=16).hexdigest(),
        block.num_rows,
        key_text(ordered, order_by, 0),
        key_text(ordered, order_by, ordered.num_rows - 1),
    )


def sorted_block(block: pa.Table, order_by: Sequence[str]) -> pa.Table:
    """The rows in the order of these columns, each column in one piece."""
    check_sortable(block.schema, tuple(order_by))
    ordering = Ordering(block.num_rows)
    ordering.refine([block.column(name) for name in order_by])
    return take_rows(block, ordering.order) if ordering.moved else block.combine_chunks()


def _encodings(block: pa.Table) -> tuple[list[str], dict[str, str]]:
    """Which of the file's columns get a dictionary, and how the others are written."""
    chosen: dict[str, str] = {}
    for field, column in zip(block.schema, block.columns, strict=True):
        sample = column.slice(0, row_group_rows).combine_chunks()
        for path, values in _leaves(sample, field.name):
            # With dots in names two columns can look alike to the writer: what is said must suit both.
            chosen[path] = "PLAIN" if path in chosen else _encoding(values)
    dictionary = [path for path, encoding in chosen.items() if encoding == DICTIONARY]
    return dictionary, {path: chosen[path] for path in chosen if chosen[path] != DICTIONARY}


def _encoding(values: pa.Array) -> str:
    kind = values.type
    if not pa.types.is_boolean(kind) and repeats(values):
        return DICTIONARY
    if pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return "DELTA_BINARY_PACKED"
    return "PLAIN"


def _leaves(values: pa.Array, path: str) -> Iterator[tuple[str, pa.Array]]:
    """The file's own columns that make up a column of the table."""
    if pa.types.is_struct(values.type):
        for field, child in zip(values.type, values.flatten(), strict=True):
            yield from _leaves(child, f"{path}.{field.name}")
    elif pa.types.is_list(values.type):
        yield from _leaves(values.flatten(), f"{path}.list.element")
    else:
        yield path, values


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
