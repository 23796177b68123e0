"""Blocks: what a caller hands in to be written to a table, made to fit the table's schema or refused.

Columns are matched by name. A value arrives unchanged or not at all: an integer may become a wider one, a
dictionary its values, another time zone UTC; nothing is rounded, cut off or guessed, within structs and
lists either. Arrow's own casts would also read numbers out of text or take a local time for UTC. Floats of
64 bits become 32 only if they are the same number afterwards, unless they were written in Python, which has
no others. A nullable column that is missing is null. Whatever does not fit is a ``BadSchema`` that names
the column.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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


block_rows_max = 1 << 20
"""Rows of one block of many."""

block_bytes_max = 128 << 20
"""Bytes in memory of one block of many."""


def blocks_of(data: object, schema: pa.Schema) -> Iterator[pa.Table]:
    """The data as blocks of this schema, none of them large; a stream is read as it goes.

    What does not fit is found when its block is reached.
    """
    if isinstance(data, pa.Table | pa.RecordBatch) or not hasattr(data, "__arrow_c_stream__"):
        tables: Iterator[pa.Table] = iter([block_of(data, schema)])
    else:
        tables = (block_of(table, schema) for table in _gathered(data))
    for table in tables:
        for start in range(0, table.num_rows, block_rows_max):
            yield from halved(table.slice(start, block_rows_max), block_bytes_max)


def _gathered(data: Any) -> Iterator[pa.Table]:
    """The batches of a stream, as many together as make a block; one without rows if there are none."""
    try:
        reader = pa.RecordBatchReader.from_stream(data)
        waiting: list[pa.RecordBatch] = []
        rows = size_bytes = 0
        for batch in reader:
            if waiting and (
                rows + batch.num_rows > block_rows_max
                or size_bytes + batch.nbytes > block_bytes_max
            ):
                yield pa.Table.from_batches(waiting)
                waiting, rows, size_bytes = [], 0, 0
            waiting.append(batch)
            rows += batch.num_rows
            size_bytes += batch.nbytes
        yield pa.Table.from_batches(waiting, schema=reader.schema)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise BadSchema(f"the data cannot be read as columns: {error}") from None


def halved(block: pa.Table, bytes_max: int) -> Iterator[pa.Table]:
    """The block in pieces of at most so many bytes, but for single rows."""
    if block.num_rows <= 1 or block.nbytes <= bytes_max:
        yield block
        return
    half = block.num_rows // 2
    yield from halved(block.slice(0, half), bytes_max)
    yield from halved(block.slice(half), bytes_max)


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


_types = pa.types


def conformed(
    column: pa.ChunkedArray, field: pa.Field, path: str, *, rounding: bool
) -> pa.ChunkedArray:
    """The column as the field has it; ``path`` is its name in an error."""
    chunks = [_array(chunk, field, path, rounding) for chunk in column.chunks]
    return pa.chunked_array(chunks, field.type)


def missing_values(field: pa.Field, path: str, rows: int) -> pa.ChunkedArray:
    """The column that was not given."""
    if rows and not field.nullable:
        raise BadSchema(f"the column {path!r} is missing, and it is not nullable")
    return pa.chunked_array([pa.nulls(rows, field.type)])


def _array(values: pa.Array, field: pa.Field, path: str, rounding: bool) -> pa.Array:
    if values.null_count and not field.nullable:
        raise BadSchema(f"the column {path!r} has a null, and it is not nullable")
    given, wanted = values.type, field.type
    if given == wanted and not _has_required(wanted):
        return values
    if _types.is_null(given):
        return pa.nulls(len(values), wanted)
    if _types.is_dictionary(given):
        return _array(values.dictionary_decode(), field, path, rounding)
    if isinstance(values, pa.ExtensionArray):
        return _array(values.storage, field, path, rounding)
    if _types.is_struct(wanted) and _types.is_struct(given):
        return _struct(values, wanted, path, rounding)
    if _types.is_list(wanted) and _is_list(given):
        return _list(values, wanted, path, rounding)
    return _plain(values, wanted, path, rounding)


def _has_required(kind: pa.DataType) -> bool:
    """Whether something within it must not be null."""
    if _types.is_struct(kind):
        return any(not field.nullable or _has_required(field.type) for field in kind.fields)
    if _types.is_list(kind):
        return not kind.value_field.nullable or _has_required(kind.value_type)
    return False


def _struct(values: pa.StructArray, wanted: pa.StructType, path: str, rounding: bool) -> pa.Array:
    names = [field.name for field in values.type.fields]
    for name in names:
        if names.count(name) > 1:
            raise BadSchema(f"the data has the column '{path}.{name}' twice")
        if wanted.get_field_index(name) < 0:
            raise BadSchema(f"there is no column '{path}.{name}'")
    is_null = values.is_null() if values.null_count else None
    children = [_child(values, field, names, f"{path}.{field.name}", rounding) for field in wanted]
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=is_null)


def _child(
    values: pa.StructArray, field: pa.Field, names: list[str], path: str, rounding: bool
) -> pa.Array:
    if field.name not in names:
        if not field.nullable and values.null_count < len(values):
            raise BadSchema(f"the column {path!r} is missing, and it is not nullable")
        return pa.nulls(len(values), field.type)
    child = values.flatten()[names.index(field.name)]
    if not values.null_count or (field.nullable and not _has_required(field.type)):
        return _array(child, field, path, rounding)
    # What lies below a null struct counts for nothing: only the rest is checked, and then put back in place.
    kept = _array(child.filter(values.is_valid()), field, path, rounding)
    places = pc.if_else(
        values.is_valid(), pc.cumulative_sum(values.is_valid().cast(pa.int64())), None
    )
    return kept.take(pc.subtract(places, 1))


def _list(values: pa.Array, wanted: pa.ListType, path: str, rounding: bool) -> pa.Array:
    if not _types.is_list(values.type):
        values = values.cast(pa.list_(values.type.value_field))
    items = _array(values.flatten(), wanted.value_field, path, rounding)
    lengths = pc.fill_null(pc.list_value_length(values), 0)
    ends = pc.cumulative_sum(lengths).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    is_null = values.is_null() if values.null_count else None
    return pa.ListArray.from_arrays(offsets, items, type=wanted, mask=is_null)


def _plain(values: pa.Array, wanted: pa.DataType, path: str, rounding: bool) -> pa.Array:
    given = values.type
    if not _may_become(given, wanted):
        raise BadSchema(
            f"the column {path!r} is {wanted}, not {given}", hint=_advice(given, wanted)
        )
    try:
        if _types.is_integer(given) and _types.is_decimal(wanted):
            values = values.cast(pa.decimal128(min(38, 20 + wanted.scale), wanted.scale))
        made = values.cast(wanted)
    except pa.ArrowException as error:
        raise BadSchema(f"a value does not fit the column {path!r}, {wanted}: {error}") from None
    if _types.is_float32(wanted) and _types.is_float64(given) and not rounding:
        _check_same(values, made, path)
    return made


def _check_same(values: pa.Array, made: pa.Array, path: str) -> None:
    same = pc.or_(pc.equal(values, made.cast(pa.float64())), pc.is_nan(values))
    if pc.all(same).as_py() is False:
        raise BadSchema(f"a value does not fit the column {path!r}: 32 bits would round it")


def _may_become(given: pa.DataType, wanted: pa.DataType) -> bool:
    if _types.is_timestamp(wanted):
        return bool(_types.is_timestamp(given) and (given.tz is None) == (wanted.tz is None))
    for family in _FAMILIES:
        if any(is_one(wanted) for is_one in family[0]):
            return any(is_one(given) for is_one in family[1])
    return bool(given == wanted)


_FAMILIES = (
    ((_types.is_integer,), (_types.is_integer, _types.is_floating)),
    ((_types.is_floating,), (_types.is_integer, _types.is_floating)),
    ((_types.is_decimal,), (_types.is_integer, _types.is_decimal)),
    ((_types.is_string,), (_types.is_string, _types.is_large_string, _types.is_string_view)),
    (
        (_types.is_binary,),
        (
            _types.is_binary,
            _types.is_large_binary,
            _types.is_binary_view,
            _types.is_fixed_size_binary,
        ),
    ),
    ((_types.is_date,), (_types.is_date,)),
)
"""What a column is, and what a column given for it may be; Arrow's checked casts see to the values."""


def _is_list(kind: pa.DataType) -> bool:
    return any(is_one(kind) for is_one in _LISTS)


_LISTS = (
    _types.is_list,
    _types.is_large_list,
    _types.is_fixed_size_list,
    _types.is_list_view,
    _types.is_large_list_view,
)


def _advice(given: pa.DataType, wanted: pa.DataType) -> str | None:
    if _types.is_timestamp(given) and _types.is_timestamp(wanted):
        return "say which time zone is meant: a time with a zone and one without are not the same"
    return None
