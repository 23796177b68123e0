"""The columns of a table as its files have them: known by ids, which Parquet calls field ids.

A column keeps its id when it is renamed, so old files need not change. What lies within a column (the fields
of a struct, the items of a list) has an id that follows from the column's and its place in the type: the n-th
of them, counted from 1 as the type is written down, is ``65536 * n + id of the column``. We read what is
within a column by name; the ids are there for readers that go by them alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import pyarrow as pa

from motet.columnar.schema import decode_schema
from motet.core.metadata.definitions import TableDefinition
from motet.errors import BadSchema

FIELD_ID = b"PARQUET:field_id"

column_ids_max = 1 << 16
"""Ids of columns are below; what is within them is numbered above."""


@lru_cache(maxsize=1024)
def table_schema(definition: TableDefinition) -> pa.Schema:
    """The columns of a table, as Arrow has them; ``BadSchema`` when its definition contradicts itself."""
    schema = decode_schema(definition.schema)
    if schema.names != [column.name for column in definition.columns]:
        raise BadSchema("the definition of the table names other columns than its schema has")
    ids = [column.id for column in definition.columns]
    if len({*ids}) != len(ids) or not all(0 < each < column_ids_max for each in ids):
        raise BadSchema(
            "the definition of the table has two columns of one id, or an id out of range"
        )
    return schema


@lru_cache(maxsize=1024)
def file_schema(definition: TableDefinition) -> pa.Schema:
    """The same with the id of every column, and of what is within it."""
    fields = []
    for column, field in zip(definition.columns, table_schema(definition), strict=True):
        within = _within(column.id)
        fields.append(_numbered(field, column.id, within))
    return pa.schema(fields)


def _within(column: int) -> Iterator[int]:
    """The ids of what lies within a column."""
    return iter(range(column_ids_max + column, 1 << 31, column_ids_max))


def _numbered(field: pa.Field, number: int, within: Iterator[int]) -> pa.Field:
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_numbered(inner, next(within), within) for inner in kind.fields])
    elif pa.types.is_list(kind):
        kind = pa.list_(_numbered(kind.value_field, next(within), within))
    return pa.field(field.name, kind, field.nullable, metadata={FIELD_ID: str(number)})


def id_of(field: pa.Field) -> int | None:
    """The id of a column as it is read from a file; None if it has none."""
    text = (field.metadata or {}).get(FIELD_ID)
    return None if text is None else int(text)


def leaf_ids(schema: pa.Schema) -> tuple[int, ...]:
    """The ids of Parquet's own columns, in the order of the file; 0 where one has none."""
    return tuple(leaf for field in schema for leaf in _leaf_ids(field))


def _leaf_ids(field: pa.Field) -> Iterator[int]:
    kind = field.type
    if pa.types.is_struct(kind):
        for inner in kind.fields:
            yield from _leaf_ids(inner)
    elif pa.types.is_list(kind):
        yield from _leaf_ids(kind.value_field)
    else:
        yield id_of(field) or 0


def column_names(definition: TableDefinition) -> dict[int, str]:
    """What the columns are called now, by id."""
    return {column.id: column.name for column in definition.columns}


def column_ids(definition: TableDefinition) -> dict[str, int]:
    """The ids of the columns by what they are called now."""
    return {column.name: column.id for column in definition.columns}


def retyped(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values as a file has them, as those of this type."""
    if not pa.types.is_nested(kind):
        return values if values.type == kind else values.cast(kind)
    if _is_alike(values.type, kind):
        return pa.array(_Renamed(values, kind))
    return values.cast(kind)


def _is_alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether two types differ in no more than what Parquet calls the items of a list, and in ids."""
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        fields = list(zip(one.fields, other.fields, strict=False))
        return one.num_fields == other.num_fields and all(
            a.name == b.name and _is_alike(a.type, b.type) for a, b in fields
        )
    if pa.types.is_list(one) and pa.types.is_list(other):
        return _is_alike(one.value_type, other.value_type)
    return bool(one == other)


class _Renamed:
    """The same values under a type that is alike: a cast refuses a null struct of fields without nulls."""

    def __init__(self, values: pa.Array, kind: pa.DataType) -> None:
        self._values = values
        self._kind = kind

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._kind.__arrow_c_schema__(), self._values.__arrow_c_array__()[1]
