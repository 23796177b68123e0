"""How rows are laid out in the file of a part: row groups, encodings, and keys as text.

A file is made for reading: columns whose values repeat have a dictionary, other whole numbers are kept as
differences (sorted ones nearly vanish), and each row group knows its bounds, so that a reader with filters
leaves most of them alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from motet.columnar.ordering import repeats

row_group_rows = 128 * 1024
"""Rows of a row group, and of a batch when it is read: a few megabytes, enough to keep Spark busy."""

row_group_bytes_max = 64 << 20
"""Bytes in memory of a row group: rows that are long come in groups of fewer."""

key_text_length_max = 1024
"""Characters of a key: enough to recognise it."""

_to_json = msgspec.json.Encoder().encode


def rows_of_group(block: pa.Table) -> int:
    """How many rows each row group of a file has that begins with these rows; always the same for them.

    It is enough to see ``row_group_rows`` rows, or more bytes than a row group may have.
    """
    rows = row_group_rows
    while rows > 1 and bytes_of(block.slice(0, rows)) > row_group_bytes_max:
        rows //= 2
    return rows


def bytes_of(block: pa.Table) -> int:
    """The bytes of the values; the same for equal rows, however they are held."""
    arrays = (chunk for column in block.columns for chunk in column.chunks)
    return sum(_bytes_of(leaf) for array in arrays for _, leaf in _leaves(array, ""))


def _bytes_of(values: pa.Array) -> int:
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return 4 * len(values) + int(pc.sum(pc.binary_length(values)).as_py() or 0)
    return len(values) * max(1, int(kind.bit_width) // 8)


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


DICTIONARY = "DICTIONARY"


def encodings(block: pa.Table) -> tuple[list[str], dict[str, str]]:
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
