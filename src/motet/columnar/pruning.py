"""Which row groups of a part file can hold a row that passes the filters, by what the file says about them.

A row group is left out only if no row of it can pass: where the file says nothing, it is read. Parquet's
bounds know nothing of ``NaN``, so they never rule out what is greater than some number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from motet.columnar.filters import (
    Equal,
    Filter,
    Greater,
    GreaterOrEqual,
    In,
    IsNotNull,
    IsNull,
    Less,
    LessOrEqual,
    Not,
    SameOrBothNull,
    StartsWith,
    value_as,
)


class Bounds(msgspec.Struct, frozen=True):
    """What is known about a column in a range of rows."""

    rows: int
    #: None where it is not known
    nulls: int | None
    #: both None where they are not known
    low: Any
    high: Any


def row_groups_to_read(metadata: Any, schema: pa.Schema, filters: Sequence[Filter]) -> list[int]:
    """The row groups of a file with this metadata that must be looked at."""
    groups = range(metadata.num_row_groups)
    if not filters:
        return list(groups)
    places = {each.column: _leaf_of(schema, each.column) for each in filters}
    return [
        group
        for group in groups
        if all(
            may_be_true(
                each,
                schema.field(each.column).type,
                _bounds(metadata.row_group(group), places[each.column]),
            )
            for each in filters
        )
    ]


def _leaf_of(schema: pa.Schema, column: str) -> int | None:
    """Where a plain column is among the file's: nested ones take as many places as they have ends."""
    if pa.types.is_nested(schema.field(column).type):
        return None
    return sum(_leaves(field.type) for field in list(schema)[: schema.get_field_index(column)])


def _leaves(kind: pa.DataType) -> int:
    if pa.types.is_struct(kind):
        return sum(_leaves(field.type) for field in kind.fields)
    return _leaves(kind.value_type) if pa.types.is_list(kind) else 1


def _bounds(group: Any, leaf: int | None) -> Bounds:
    statistics = None if leaf is None else group.column(leaf).statistics
    if statistics is None:
        return Bounds(group.num_rows, None, None, None)
    nulls = statistics.null_count if statistics.has_null_count else None
    low, high = None, None
    if statistics.has_min_max:
        try:
            low, high = statistics.min, statistics.max
        except (ValueError, OverflowError):  # a time that Python cannot say
            low, high = None, None
    return Bounds(group.num_rows, nulls, low, high)


def _opposite(each: Less | LessOrEqual | Greater | GreaterOrEqual) -> Filter:
    match each:
        case Less():
            return GreaterOrEqual(each.column, each.value)
        case LessOrEqual():
            return Greater(each.column, each.value)
        case Greater():
            return LessOrEqual(each.column, each.value)
        case GreaterOrEqual():
            return Less(each.column, each.value)


def may_be_true(each: Filter, kind: pa.DataType, bounds: Bounds) -> bool:
    """Whether the filter can be true for one of the rows."""
    match each:
        case IsNull() | SameOrBothNull(value=None):
            return bounds.nulls is None or bounds.nulls > 0
        case IsNotNull():
            return bounds.nulls is None or bounds.nulls < bounds.rows
        case Not(filter=Not(filter=inner)):
            return may_be_true(inner, kind, bounds)
        case Not(filter=IsNull(column=column)):
            return may_be_true(IsNotNull(column), kind, bounds)
        case Not(filter=IsNotNull(column=column)):
            return may_be_true(IsNull(column), kind, bounds)
        case Not(filter=Less() | LessOrEqual() | Greater() | GreaterOrEqual() as inner):
            return may_be_true(_opposite(inner), kind, bounds)
        case Not():
            return True
    if bounds.nulls == bounds.rows:
        return False
    match each:
        case In():
            return any(
                _may_compare(Equal(each.column, value), kind, bounds) for value in each.values
            )
        case StartsWith() if bounds.low is not None:
            return bool(bounds.high >= each.value and bounds.low[: len(each.value)] <= each.value)
        case Equal() | SameOrBothNull() | Less() | LessOrEqual() | Greater() | GreaterOrEqual():
            return _may_compare(each, kind, bounds)
    return True


def _may_compare(each: Any, kind: pa.DataType, bounds: Bounds) -> bool:
    if each.value is None:
        return False
    try:
        value = value_as(each.column, each.value, kind).as_py()
    except (ValueError, OverflowError):
        return True
    is_float = pa.types.is_floating(kind)
    if bounds.low is None or (is_float and value != value):
        return True
    match each:
        case Less():
            return bool(bounds.low < value)
        case LessOrEqual():
            return bool(bounds.low <= value)
        case Greater():
            return is_float or bool(bounds.high > value)
        case GreaterOrEqual():
            return is_float or bool(bounds.high >= value)
    return bool(bounds.low <= value <= bounds.high)
