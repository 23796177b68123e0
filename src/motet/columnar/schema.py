"""Schemas of typed streams and tables: which types there are, and the bytes a schema is kept as.

There is one type for one thing, so that Python, Parquet, Spark and SQL agree about every value. A type that
says the same in another way (``large_string``, ``timestamp[ms]``) becomes ours; one that would lose something
or that somebody downstream cannot read is refused, and the error names the column. Metadata is dropped: it
would make two schemas differ that describe the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import pyarrow as pa

from motet.errors import BadSchema, TooLarge
from motet.limits import schema_bytes_max, table_columns_max

nesting_max = 16
"""Lists and structs within each other: far below what Arrow's own reader takes."""

LIST_ITEM = "item"
"""What the values of every list are called; libraries differ, and it means nothing."""

UTC_NAMES = frozenset({"utc", "etc/utc", "z", "+00:00", "-00:00", "+0000"})

_SAME = {
    pa.bool_(): pa.bool_(),
    pa.int8(): pa.int8(),
    pa.int16(): pa.int16(),
    pa.int32(): pa.int32(),
    pa.int64(): pa.int64(),
    pa.float16(): pa.float32(),
    pa.float32(): pa.float32(),
    pa.float64(): pa.float64(),
    pa.string(): pa.string(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.binary(): pa.binary(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date32(): pa.date32(),
    pa.date64(): pa.date32(),
}
"""The types without parameters, and what each becomes."""


def encode_schema(schema: object, *, what: str) -> bytes:
    """A schema as it is kept; ``BadSchema`` names the column that cannot be. ``what`` has the schema."""
    fields = _fields_of(_schema_of(schema, what), what, "", 0)
    count = sum(_count(field.type) for field in fields)
    if count > table_columns_max:
        raise TooLarge(
            f"{what} has {count} columns, which exceeds the limit of {table_columns_max}"
        )
    data: bytes = pa.schema(fields).serialize().to_pybytes()
    if len(data) > schema_bytes_max:
        raise TooLarge(f"the schema of {what} has {len(data)} bytes, of {schema_bytes_max}")
    return data


@lru_cache(maxsize=1024)
def decode_schema(data: bytes) -> pa.Schema:
    """The schema in what ``encode_schema`` made of it."""
    try:
        return pa.ipc.read_schema(pa.py_buffer(data))
    except (pa.ArrowException, OSError) as error:
        raise BadSchema(f"the schema cannot be read: {error}") from None


def _schema_of(schema: object, what: str) -> pa.Schema:
    if isinstance(schema, pa.Schema):
        return schema
    if hasattr(schema, "__arrow_c_schema__"):
        try:
            return pa.schema(schema)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise BadSchema(f"the schema of {what} has no columns: {error}") from None
    raise BadSchema(
        f"the schema of {what} is a pyarrow schema, not {type(schema).__name__}",
        hint='for instance pyarrow.schema([("sku", pyarrow.string()), ("qty", pyarrow.int64())])',
    )


def _fields_of(fields: Iterable[pa.Field], what: str, path: str, depth: int) -> list[pa.Field]:
    """The columns of a schema, or the fields of a struct."""
    made: list[pa.Field] = []
    seen: dict[str, str] = {}
    for field in fields:
        name = field.name
        if not name:
            raise BadSchema(f"{what} has a column without a name{f' in {path}' if path else ''}")
        inner = f"{path}.{name}" if path else name
        if "\0" in name:
            raise BadSchema(
                f"the name of the column {inner!r} of {what} would end at its NUL in SQL"
            )
        other = seen.get(name.casefold())
        if other is not None:
            how = "twice" if other == name else f"and {other!r}: SQL does not tell them apart"
            raise BadSchema(f"{what} has the column {inner!r} {how}")
        seen[name.casefold()] = name
        made.append(pa.field(name, _type_of(field.type, what, inner, depth), field.nullable))
    if not made:
        raise BadSchema(f"{what} has no columns{f' in {path}' if path else ''}")
    return made


def _type_of(kind: pa.DataType, what: str, path: str, depth: int) -> pa.DataType:
    if depth > nesting_max:
        raise BadSchema(f"the column {path!r} of {what} is nested deeper than {nesting_max}")
    if kind in _SAME:
        return _SAME[kind]
    if pa.types.is_struct(kind):
        return pa.struct(_fields_of(kind.fields, what, path, depth + 1))
    if (
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    ):
        item = kind.value_field
        inner = _type_of(item.type, what, path, depth + 1)
        return pa.list_(pa.field(LIST_ITEM, inner, item.nullable))
    if pa.types.is_timestamp(kind):
        return _timestamp_of(kind, what, path)
    if pa.types.is_decimal(kind) and not pa.types.is_decimal256(kind):
        if not 0 <= kind.scale <= kind.precision:
            raise BadSchema(
                f"the column {path!r} of {what} is {kind}: its scale is not within its precision"
            )
        return pa.decimal128(kind.precision, kind.scale)
    raise BadSchema(f"the column {path!r} of {what} is {kind}", hint=_advice(kind))


def _timestamp_of(kind: pa.TimestampType, what: str, path: str) -> pa.DataType:
    if kind.unit == "ns":
        raise BadSchema(
            f"the column {path!r} of {what} is {kind}",
            hint="use microseconds: Python and Spark have no nanoseconds",
        )
    if kind.tz is None:
        return pa.timestamp("us")
    if kind.tz.lower() not in UTC_NAMES:
        raise BadSchema(
            f"the column {path!r} of {what} is {kind}",
            hint="use the time zone UTC, and keep the name of another one in a column of its own",
        )
    return pa.timestamp("us", tz="UTC")


def _advice(kind: pa.DataType) -> str:
    if pa.types.is_unsigned_integer(kind):
        return "use a signed integer, one size larger if need be: Spark has no unsigned ones"
    if pa.types.is_dictionary(kind):
        return "use the type of its values; part files use dictionaries by themselves"
    if pa.types.is_map(kind):
        return "use a list of structs with key and value"
    return (
        "use bool, int8 to int64, float32 or float64, string, binary, date32, timestamp[us] with or "
        "without UTC, decimal128, a list or a struct"
    )


def _count(kind: pa.DataType) -> int:
    """A column, and the ones within it."""
    if pa.types.is_struct(kind):
        return 1 + sum(_count(field.type) for field in kind.fields)
    if pa.types.is_list(kind):
        return 1 + _count(kind.value_type)
    return 1
