"""Blocks: what a caller hands in to be written to a table, made to fit the table's schema or refused.

Columns are matched by name. A value arrives unchanged or not at all: an integer may become a wider one, a
dictionary its values, another time zone UTC; nothing is rounded, cut off or guessed. A nullable column that
is missing is null. Whatever does not fit is a ``BadSchema`` that names the column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from motet.columnar.conform import conformed, missing_values
from motet.errors import BadSchema

_TAKEN = (
    "a table, record batch or reader of pyarrow, a data frame, a list of dicts or a dict of lists"
)


def block_of(data: object, schema: pa.Schema) -> pa.Table:
    """The data as a block of this schema."""
    columns, rows, from_python = _columns_of(data, schema)
    for name in columns:
        if schema.get_field_index(name) < 0:
            raise BadSchema(f"there is no column {name!r}", hint=_known(schema))
    made = [
        conformed(columns[field.name], field, field.name, rounding=from_python)
        if field.name in columns
        else missing_values(field, field.name, rows)
        for field in schema
    ]
    return pa.Table.from_arrays(made, schema=schema)


def _known(schema: pa.Schema) -> str:
    return f"the columns are {', '.join(schema.names)}"


def _columns_of(data: object, schema: pa.Schema) -> tuple[dict[str, pa.ChunkedArray], int, bool]:
    """The columns by name, the number of rows, and whether they were Python's values."""
    if isinstance(data, Mapping):
        return _python_columns(data)
    if isinstance(data, Sequence) and not isinstance(data, str | bytes | bytearray):
        return _python_rows(data, schema)
    table = _arrow_table(data)
    _check_names(table.column_names)
    kept = [name for name in table.column_names if not _is_unnamed_index(name, table, schema)]
    return {name: table.column(name) for name in kept}, table.num_rows, False


def _arrow_table(data: object) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    try:
        if isinstance(data, pa.RecordBatch):
            return pa.Table.from_batches([data])
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data).read_all()
        if hasattr(data, "__arrow_c_array__"):
            return pa.Table.from_batches([pa.record_batch(data)])
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise BadSchema(f"the data cannot be read as columns: {error}") from None
    raise BadSchema(f"a block cannot be a {type(data).__name__}", hint=f"use {_TAKEN}")


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise BadSchema(f"the data has the column {name!r} twice")


def _is_unnamed_index(name: str, table: pa.Table, schema: pa.Schema) -> bool:
    """Row labels of pandas, which nobody named and the caller does not see as a column."""
    return (
        name.startswith("__index_level_")
        and b"pandas" in (table.schema.metadata or {})
        and schema.get_field_index(name) < 0
    )


def _python_columns(data: Mapping[Any, Any]) -> tuple[dict[str, pa.ChunkedArray], int, bool]:
    columns = {_name_of(name): _python_column(name, values) for name, values in data.items()}
    rows = len(next(iter(columns.values()), ()))
    for name, column in columns.items():
        if len(column) != rows:
            raise BadSchema(f"the column {name!r} has {len(column)} values, others have {rows}")
    return columns, rows, True


def _python_rows(
    data: Sequence[Any], schema: pa.Schema
) -> tuple[dict[str, pa.ChunkedArray], int, bool]:
    names: dict[str, None] = {}
    for row in data:
        if not isinstance(row, Mapping):
            raise BadSchema(f"a row is a dict, not {type(row).__name__}", hint=f"use {_TAKEN}")
        names.update(dict.fromkeys(row))
    for name in names:
        if schema.get_field_index(_name_of(name)) < 0:
            raise BadSchema(f"there is no column {name!r}", hint=_known(schema))
    columns = {name: _python_column(name, [row.get(name) for row in data]) for name in names}
    if not data:
        columns = {field.name: pa.chunked_array([], field.type) for field in schema}
    return columns, len(data), True


def _name_of(name: object) -> str:
    if not isinstance(name, str):
        raise BadSchema(f"the name of a column is text, not {name!r}")
    return name


def _python_column(name: str, values: object) -> pa.ChunkedArray:
    if isinstance(values, pa.ChunkedArray):
        return values
    try:
        column = values if isinstance(values, pa.Array) else pa.array(values)
        return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise BadSchema(f"the values of the column {name!r} do not go together: {error}") from None
