"""Conditions on the rows of a part: a closed set, as Spark hands them down, and what they mean.

They mean what they mean in SQL: a comparison with null is neither true nor false, and only rows for which
all filters are true are kept. ``NaN`` equals itself and is above every other number, as in the order of keys.

A row group of a part file is left out only if no row of it can pass: where the file says nothing, it is read.
Parquet's bounds know nothing of ``NaN``, so they never rule out what is greater than some number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from motet.errors import BadInput, BadSchema


class _OfValue(msgspec.Struct, frozen=True):
    column: str
    value: Any


class Equal(_OfValue, frozen=True):
    """The value, and not null."""


class SameOrBothNull(_OfValue, frozen=True):
    """Equal, where null equals null."""


class Less(_OfValue, frozen=True):
    """Below the value."""


class LessOrEqual(_OfValue, frozen=True):
    """Below the value, or equal to it."""


class Greater(_OfValue, frozen=True):
    """Above the value."""


class GreaterOrEqual(_OfValue, frozen=True):
    """Above the value, or equal to it."""


class In(msgspec.Struct, frozen=True):
    column: str
    values: tuple[Any, ...]


class IsNull(msgspec.Struct, frozen=True):
    column: str


class IsNotNull(msgspec.Struct, frozen=True):
    column: str


class _OfText(msgspec.Struct, frozen=True):
    column: str
    value: str


class StartsWith(_OfText, frozen=True):
    """Text that begins with this one."""


class EndsWith(_OfText, frozen=True):
    """Text that ends with this one."""


class Contains(_OfText, frozen=True):
    """Text with this one in it."""


class Not(msgspec.Struct, frozen=True):
    """True where the other one is false; null stays null."""

    filter: Filter

    @property
    def column(self) -> str:
        return self.filter.column


Comparison = Equal | SameOrBothNull | Less | LessOrEqual | Greater | GreaterOrEqual
TextFilter = StartsWith | EndsWith | Contains
Filter = Comparison | In | IsNull | IsNotNull | TextFilter | Not


def check_filters(filters: Sequence[Filter], schema: pa.Schema) -> None:
    """``BadInput`` for the first filter that cannot be applied to rows of this schema."""
    for each in filters:
        if schema.get_field_index(each.column) < 0:
            raise BadSchema(f"a filter names the column {each.column!r}, which is not there")
        _check(each, schema.field(each.column).type)


def can_filter(candidate: Filter, schema: pa.Schema) -> bool:
    """Whether ``rows_kept`` can apply it; otherwise it is the caller's to apply."""
    try:
        check_filters([candidate], schema)
    except BadInput:
        return False
    return True


def _check(each: Filter, kind: pa.DataType) -> None:
    match each:
        case IsNull() | IsNotNull():
            return
        case Not():
            _check(each.filter, kind)
        case StartsWith() | EndsWith() | Contains():
            if not pa.types.is_string(kind):
                raise BadInput(f"a filter looks for text in the column {each.column!r}, {kind}")
        case In():
            for value in each.values:
                value_as(each.column, value, kind)
        case _:
            value_as(each.column, each.value, kind)


def value_as(column: str, value: object, kind: pa.DataType) -> pa.Scalar:
    """The value as the column has its values; ``BadInput`` if it has none that equals it."""
    if pa.types.is_nested(kind):
        raise BadInput(f"a filter compares the column {column!r}, which is {kind}")
    try:
        made = pa.scalar(value, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        made = None
    if made is None or not _is_same(value, made.as_py()):
        raise BadInput(f"a filter compares the column {column!r}, {kind}, with {value!r}")
    return made


def _is_same(value: Any, made: Any) -> bool:
    # Arrow would cut 1.5 down to 1, and take a time without a zone for UTC.
    return value is None or bool(value == made) or bool(value != value)


def rows_kept(batch: pa.RecordBatch, filters: Sequence[Filter]) -> pa.RecordBatch:
    """The rows for which all filters are true."""
    if not filters:
        return batch
    mask = _truth(filters[0], batch.column(filters[0].column))
    for each in filters[1:]:
        mask = pc.and_kleene(mask, _truth(each, batch.column(each.column)))
    return batch if pc.all(pc.fill_null(mask, False)).as_py() else batch.filter(mask)


def _truth(each: Filter, values: pa.Array) -> pa.Array:
    """Of each row whether it is true: true, false or null."""
    match each:
        case IsNull():
            return values.is_null()
        case IsNotNull():
            return values.is_valid()
        case Not():
            return pc.invert(_truth(each.filter, values))
        case In():
            return _is_one_of(values, each)
        case StartsWith():
            return pc.starts_with(values, each.value)
        case EndsWith():
            return pc.ends_with(values, each.value)
        case Contains():
            return pc.match_substring(values, each.value)
        case SameOrBothNull() if each.value is None:
            return values.is_null()
        case SameOrBothNull():
            return pc.fill_null(_truth(Equal(each.column, each.value), values), False)
    value = value_as(each.column, each.value, values.type)
    if pa.types.is_floating(values.type) and value.is_valid:
        return _float_truth(each, values, value)
    return _PLAIN[type(each)](values, value)


_PLAIN: dict[type, Any] = {
    Equal: pc.equal,
    Less: pc.less,
    LessOrEqual: pc.less_equal,
    Greater: pc.greater,
    GreaterOrEqual: pc.greater_equal,
}


def _float_truth(each: Filter, values: pa.Array, value: pa.Scalar) -> pa.Array:
    """Comparisons in which ``NaN`` is the greatest number."""
    is_nan = pc.is_nan(values)
    if value.as_py() != value.as_py():
        match each:
            case Equal() | GreaterOrEqual():
                return is_nan
            case Less():
                return pc.invert(is_nan)
            case LessOrEqual():
                return pc.or_(is_nan, pc.invert(is_nan))
            case _:
                return pc.and_(is_nan, pc.invert(is_nan))
    plain = _PLAIN[type(each)](values, value)
    return pc.or_(plain, is_nan) if isinstance(each, Greater | GreaterOrEqual) else plain


def _is_one_of(values: pa.Array, each: In) -> pa.Array:
    known = [value for value in each.values if value is not None]
    if pa.types.is_floating(values.type):
        found = pc.and_(values.is_null(), False)
        for value in known:
            found = pc.or_(found, _truth(Equal(each.column, value), values))
    else:
        scalars = [value_as(each.column, value, values.type) for value in known]
        found = pc.is_in(values, value_set=pa.array(scalars, values.type))
    # Whether null is one of them, or a value is null, is not known.
    unknown = pc.or_(values.is_null(), len(known) < len(each.values))
    return pc.if_else(pc.and_(unknown, pc.invert(pc.fill_null(found, False))), None, found)


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
                bounds_in(metadata.row_group(group), places[each.column]),
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


def bounds_in(group: Any, leaf: int | None) -> Bounds:
    """What a row group of a file says of this one of its columns; None: of one that it cannot say it of."""
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
