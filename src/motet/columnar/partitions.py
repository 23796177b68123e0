"""Partitions: ``partition_by`` as text, and the partition of each row.

``partition_by`` is one of

* a column: booleans, integers, dates or text, whose value is the name of the partition;
* ``day(column)``, ``month(column)``, ``year(column)`` of a timestamp or a date: ``2026-11-19``, ``2026-11``,
  ``2026``; of a timestamp in UTC, or as it stands if it has no zone;
* ``bucket(n, column)``: the hash of the value (:mod:`motet.columnar.placing`), mixed once more so that it
  says nothing of the shard, modulo n.

A partition's name stands in the names of parts. What cannot (a slash, ``%``, whatever does not print) is
written as ``%`` and two hex digits per byte. Null is ``%null``, the empty text ``%empty``.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from motet.columnar.ordering import one_array
from motet.columnar.placing import fmix32, hash_rows, is_hashable
from motet.core.mergetree.names import PARTITION
from motet.errors import BadInput, BadSchema, TooLarge
from motet.limits import bucket_count_max, insert_partitions_max

NULL, EMPTY = "%null", "%empty"

_partition_length_max = 128
_UNITS = {"day": "D", "month": "M", "year": "Y"}
_OF_TIME = re.compile(r"\s*(day|month|year)\(\s*(.+?)\s*\)\s*", re.DOTALL)
_BUCKET = re.compile(r"\s*bucket\(\s*([1-9][0-9]{0,8})\s*,\s*(.+?)\s*\)\s*", re.DOTALL)
_FORMS = "a column, day(column), month(column), year(column) or bucket(n, column)"
_OTHER_HASH = np.uint32(0x9E37_79B9)


class PartitionBy(msgspec.Struct, frozen=True):
    """What a row's partition is computed from."""

    #: "column", "day", "month", "year" or "bucket"
    function: str
    column: str
    buckets: int = 0


class Partitions(msgspec.Struct, frozen=True):
    """The partitions of some rows."""

    #: of each row a place in ``names``
    places: Any
    names: tuple[str, ...]


def parse_partition_by(text: str, schema: pa.Schema) -> PartitionBy:
    """Read ``partition_by``; ``BadInput`` or ``BadSchema`` says what is wrong with it."""
    parsed = _parsed(text, schema)
    if parsed.column not in schema.names:
        raise BadSchema(
            f"partition_by names {parsed.column[:60]!r}, which is not a column",
            hint=f"use {_FORMS}; the columns are {', '.join(schema.names)}",
        )
    kind = schema.field(parsed.column).type
    if not _is_allowed(parsed.function, kind):
        what = "the column" if parsed.function == "column" else parsed.function
        raise BadSchema(
            f"partition_by cannot be {what} of {parsed.column!r}, which is {kind}",
            hint="use a boolean, integer, date or text column, day(), month() or year() of a time, "
            "or bucket(n, column)",
        )
    return parsed


def _parsed(text: str, schema: pa.Schema) -> PartitionBy:
    if text in schema.names:
        return PartitionBy("column", text)
    if (match := _OF_TIME.fullmatch(text)) is not None:
        return PartitionBy(match[1], match[2])
    if (match := _BUCKET.fullmatch(text)) is not None:
        buckets = int(match[1])
        if buckets > bucket_count_max:
            raise BadInput(f"{buckets} buckets exceed the limit of {bucket_count_max}")
        return PartitionBy("bucket", match[2], buckets)
    if "(" in text:
        raise BadInput(f"partition_by={text[:80]!r} is not understood", hint=f"use {_FORMS}")
    return PartitionBy("column", text)


def _is_allowed(function: str, kind: pa.DataType) -> bool:
    types = pa.types
    if function == "bucket":
        return is_hashable(kind)
    if function in _UNITS:
        return bool(types.is_timestamp(kind) or types.is_date(kind))
    return bool(
        types.is_boolean(kind)
        or types.is_integer(kind)
        or types.is_date(kind)
        or types.is_string(kind)
    )


def partitions_of(partition_by: str | None, block: pa.Table) -> Partitions:
    """The partition of each row; ``TooLarge`` if there are too many of them."""
    if partition_by is None or not block.num_rows:
        return Partitions(np.zeros(block.num_rows, np.int64), (PARTITION,))
    parsed = parse_partition_by(partition_by, block.schema)
    values = _values(parsed, block)
    encoded = values.dictionary_encode(null_encoding="encode")
    if len(encoded.dictionary) > insert_partitions_max:
        raise TooLarge(
            f"rows of {len(encoded.dictionary)} partitions exceed the limit of {insert_partitions_max}",
            hint="insert fewer partitions at once, or partition the table more coarsely",
        )
    names = tuple(_name(value) for value in _texts(parsed, encoded.dictionary))
    return Partitions(encoded.indices.cast(pa.int64()).to_numpy(), names)


def _values(parsed: PartitionBy, block: pa.Table) -> pa.Array:
    """Of each row a value that there are only as many of as there are partitions."""
    column = block.column(parsed.column)
    if parsed.function == "bucket":
        hashes = fmix32(hash_rows([column], block.num_rows) ^ _OTHER_HASH)
        return pa.array((hashes % np.uint32(parsed.buckets)).astype(np.int64))
    values = one_array(column)
    if parsed.function == "column":
        return values
    if pa.types.is_timestamp(values.type):
        moments = pc.fill_null(values.view(pa.int64()), 0).to_numpy()
        units = moments.view("datetime64[us]").astype(f"datetime64[{_UNITS[parsed.function]}]")
    else:
        days = pc.fill_null(values.view(pa.int32()), 0).to_numpy().astype("datetime64[D]")
        units = days.astype(f"datetime64[{_UNITS[parsed.function]}]")
    is_null = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(units.astype(np.int64), mask=is_null)


def _texts(parsed: PartitionBy, values: pa.Array) -> list[str | None]:
    if parsed.function in _UNITS:
        return [_time_text(value, _UNITS[parsed.function]) for value in values.to_pylist()]
    if pa.types.is_date(values.type):
        return [_time_text(value, "D") for value in values.view(pa.int32()).to_pylist()]
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.string())
    return [None if value is None else str(value) for value in values.to_pylist()]


def _time_text(value: int | None, unit: str) -> str | None:
    if value is None:
        return None
    return str(np.datetime_as_string(np.array([value]).astype(f"datetime64[{unit}]"))[0])


def _name(text: str | None) -> str:
    if text is None:
        return NULL
    name = "".join(map(_escaped, text)) or EMPTY
    if len(name) > _partition_length_max:
        raise BadInput(
            f"{text[:60]!r}… is too long for the name of a partition",
            hint=f"up to {_partition_length_max} characters; use bucket(n, column) for long values",
        )
    return name


def _escaped(character: str) -> str:
    if character not in "/%" and character.isprintable():
        return character
    return "".join(f"%{byte:02X}" for byte in character.encode())


def is_function_of(partition_by: str, schema: pa.Schema, columns: tuple[str, ...]) -> bool:
    """Whether rows that agree in these columns are in one partition."""
    return parse_partition_by(partition_by, schema).column in columns
