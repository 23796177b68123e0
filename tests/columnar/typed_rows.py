"""Any schema a stream can have, and any row of it."""

from __future__ import annotations

from datetime import UTC
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=4)

plain_types = st.sampled_from(
    [
        pa.bool_(),
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.date32(),
        pa.timestamp("us"),
        pa.timestamp("us", tz="UTC"),
        pa.decimal128(1, 0),
        pa.decimal128(9, 2),
        pa.decimal128(38, 38),
        pa.decimal128(38, 0),
    ]
)


def fields_of(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[list[pa.Field]]:
    field = st.builds(pa.field, names, types, st.booleans())
    return st.lists(field, min_size=1, max_size=4, unique_by=lambda field: field.name.casefold())


def nested(types: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    item = st.builds(lambda kind, nullable: pa.field("item", kind, nullable), types, st.booleans())
    return st.builds(pa.list_, item) | st.builds(pa.struct, fields_of(types))


schemas = st.builds(pa.schema, fields_of(st.recursive(plain_types, nested, max_leaves=5)))


def rows_of(schema: pa.Schema) -> st.SearchStrategy[dict[str, Any]]:
    return _structs(list(schema))


def _structs(fields: list[pa.Field]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({f.name: _nullable(f.type, f.nullable) for f in fields})


def _nullable(kind: pa.DataType, nullable: bool) -> st.SearchStrategy[Any]:
    return st.none() | values_of(kind) if nullable else values_of(kind)


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(kind):
        return _structs(list(kind.fields))
    if pa.types.is_list(kind):
        return st.lists(_nullable(kind.value_type, kind.value_field.nullable), max_size=3)
    if pa.types.is_integer(kind):
        high = 1 << (kind.bit_width - 1)
        return st.integers(-high, high - 1)
    if pa.types.is_floating(kind):
        return st.floats(allow_nan=False, allow_infinity=False, width=kind.bit_width)
    if pa.types.is_decimal(kind):
        high = 10**kind.precision - 1
        # As text, which no context rounds.
        return st.integers(-high, high).map(lambda whole: Decimal(f"{whole}e-{kind.scale}"))
    if pa.types.is_timestamp(kind):
        zones = st.just(UTC) if kind.tz else st.none()
        return st.datetimes(timezones=zones)
    return {
        pa.bool_(): st.booleans(),
        pa.string(): texts,
        pa.binary(): st.binary(max_size=8),
        pa.date32(): st.dates(),
    }[kind]
