"""What filters keep, against Python's own comparisons with the rules of SQL."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.columnar.filters import (
    Bounds,
    Contains,
    EndsWith,
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
    can_filter,
    check_filters,
    may_be_true,
    rows_kept,
)
from motet.errors import BadInput

NUMBERS = [-math.inf, -1.5, -0.0, 0.0, 2.0, math.inf, math.nan]
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "whole": (pa.int32(), [-2, -1, 0, 1, 2]),
    "real": (pa.float64(), NUMBERS),
    "single": (pa.float32(), NUMBERS),
    "text": (pa.string(), ["", "a", "ab", "b", "é", "éa", "\U0001f600"]),
    "bytes": (pa.binary(), [b"", b"\0", b"a", b"\xff"]),
    "flag": (pa.bool_(), [True, False]),
    "day": (pa.date32(), [date(1969, 1, 1), date(2026, 1, 5)]),
    "at": (pa.timestamp("us", tz="UTC"), [datetime(n, 1, 1, tzinfo=UTC) for n in (1960, 2026)]),
    "local": (pa.timestamp("us"), [datetime.fromisoformat(f"{n}-01-01") for n in (1960, 2026)]),
    "sum": (pa.decimal128(6, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("1.25")]),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])


def rank(value: Any) -> tuple[bool, Any]:
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0.0 if is_nan else value


def truth(each: Filter, value: Any) -> bool | None:
    """What SQL says of one value."""
    match each:
        case IsNull() | IsNotNull():
            return (value is None) == isinstance(each, IsNull)
        case Not():
            inner = truth(each.filter, value)
            return None if inner is None else not inner
        case SameOrBothNull():
            is_both = value is not None and each.value is not None
            return rank(value) == rank(each.value) if is_both else value is each.value
        case In():
            found = [truth(Equal(each.column, one), value) for one in each.values]
            is_unknown = value is None or None in found
            return True if True in found else (None if is_unknown else False)
    if value is None or each.value is None:
        return None
    return COMPARE[type(each)](value, each.value)


COMPARE: dict[type, Callable[[Any, Any], bool]] = {
    Equal: lambda one, other: rank(one) == rank(other),
    Less: lambda one, other: rank(one) < rank(other),
    LessOrEqual: lambda one, other: rank(one) <= rank(other),
    Greater: lambda one, other: rank(one) > rank(other),
    GreaterOrEqual: lambda one, other: rank(one) >= rank(other),
    StartsWith: lambda one, other: bool(one.startswith(other)),
    EndsWith: lambda one, other: bool(one.endswith(other)),
    Contains: lambda one, other: other in one,
}


def filters_on(column: str) -> st.SearchStrategy[Filter]:
    values = st.none() | st.sampled_from(COLUMNS[column][1])
    kinds = [Equal, SameOrBothNull, Less, LessOrEqual, Greater, GreaterOrEqual]
    made: list[st.SearchStrategy[Any]] = [
        st.builds(lambda kind, value: kind(column, value), st.sampled_from(kinds), values),
        st.lists(values, max_size=3).map(lambda some: In(column, tuple(some))),
        st.sampled_from([IsNull(column), IsNotNull(column)]),
    ]
    if column == "text":
        texts = st.sampled_from(COLUMNS["text"][1])
        looks = st.sampled_from([StartsWith, EndsWith, Contains])
        made.append(st.builds(lambda kind, text: kind(column, text), looks, texts))
    plain = st.one_of(made)
    return plain | plain.map(Not) | plain.map(Not).map(Not)


some_filters = st.lists(st.sampled_from(list(COLUMNS)).flatmap(filters_on), max_size=3)
some_rows = st.lists(
    st.fixed_dictionaries(
        {name: st.none() | st.sampled_from(values) for name, (_, values) in COLUMNS.items()}
    ),
    max_size=20,
)


@settings(deadline=None)
@given(some_rows, some_filters)
def test_the_rows_kept_are_those_that_sql_keeps(
    rows: list[dict[str, Any]], filters: list[Filter]
) -> None:
    batch = pa.RecordBatch.from_pylist(rows, SCHEMA)
    wanted = [all(truth(each, row[each.column]) is True for each in filters) for row in rows]
    assert all(can_filter(each, SCHEMA) for each in filters)
    kept = [row for row, is_wanted in zip(batch.to_pylist(), wanted, strict=True) if is_wanted]
    found = rows_kept(batch, filters)
    assert found.schema == SCHEMA
    assert repr(found.to_pylist()) == repr(kept)  # as text, since NaN does not equal itself


@settings(deadline=None)
@given(st.data(), st.sampled_from(list(COLUMNS)))
def test_bounds_never_rule_out_a_row_that_passes(data: st.DataObject, column: str) -> None:
    kind, known = COLUMNS[column]
    values = data.draw(st.lists(st.none() | st.sampled_from(known), min_size=1, max_size=4))
    each = data.draw(filters_on(column))
    real = [v for v in values if v is not None and v == v]  # Parquet's bounds leave NaN out
    bounds = Bounds(
        rows=len(values),
        nulls=values.count(None),
        low=min(real) if real else None,
        high=max(real) if real else None,
    )
    if any(truth(each, value) is True for value in values):
        assert may_be_true(each, kind, bounds)
        assert may_be_true(each, kind, Bounds(len(values), None, None, None))


@pytest.mark.parametrize(
    "each",
    [
        Equal("n", 5),
        Equal("n", 21),
        Less("n", 10),
        LessOrEqual("n", 9),
        Greater("n", 20),
        GreaterOrEqual("n", 21),
        In("n", (1, 2, 30)),
        IsNull("n"),
        Not(GreaterOrEqual("n", 10)),
        Not(Not(Equal("n", 5))),
        Not(IsNotNull("n")),
        Equal("n", None),
    ],
    ids=str,
)
def test_bounds_rule_out_what_cannot_be(each: Filter) -> None:
    assert not may_be_true(each, pa.int64(), Bounds(rows=100, nulls=0, low=10, high=20))


def test_bounds_of_text_rule_out_beginnings() -> None:
    bounds = Bounds(rows=3, nulls=0, low="berlin", high="bonn")
    kept = [
        text
        for text in ("a", "b", "be", "bf", "bonn", "bonner", "c")
        if may_be_true(StartsWith("t", text), pa.string(), bounds)
    ]
    assert kept == ["b", "be", "bf", "bonn"]


@pytest.mark.parametrize(
    "each",
    [
        Equal("nowhere", 1),
        Equal("whole", "1"),
        Equal("whole", 2**40),
        Equal("whole", 1.5),
        Equal("single", 0.1),
        Equal("sum", Decimal("0.001")),
        Equal("text", 1),
        StartsWith("whole", "1"),
        Not(Less("at", "noon")),
        In("whole", (1, "x")),
        Equal("list", [1]),
    ],
    ids=str,
)
def test_filters_that_make_no_sense_are_refused(each: Filter) -> None:
    schema = SCHEMA.append(pa.field("list", pa.list_(pa.int64())))
    assert not can_filter(each, schema)
    with pytest.raises(BadInput, match=f"'{each.column}'"):
        check_filters([IsNull("text"), each], schema)
    assert can_filter(IsNull("list"), schema)


def test_filters_travel_to_other_processes() -> None:
    each = Not(In("text", ("a", None)))
    assert pickle.loads(pickle.dumps(each)) == each
