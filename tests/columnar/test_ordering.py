"""Sorting by keys, against a plain Python sort that says what the order means."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.columnar.ordering import Ordering, check_sortable, take_rows
from motet.errors import BadSchema

CLOCK = pa.struct([("logical", pa.int64()), ("counter", pa.int32())])
NESTED = pa.struct([("name", pa.string()), ("clock", CLOCK)])

clocks = st.fixed_dictionaries(
    {"logical": st.none() | st.integers(-3, 3), "counter": st.none() | st.integers(-3, 3)}
)
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int32(): st.integers(-4, 4) | st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-4, 4) | st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats() | st.sampled_from([0.0, -0.0, math.nan, -math.nan, math.inf]),
    pa.string(): st.text(max_size=20) | st.text("ab\0", max_size=10) | st.text("é", max_size=60),
    pa.binary(): st.binary(max_size=12) | st.binary(min_size=60, max_size=90),
    pa.date32(): st.dates(),
    pa.timestamp("us", tz="UTC"): st.datetimes(timezones=st.just(UTC)),
    pa.decimal128(30, 4): st.decimals(-(10**25), 10**25, places=4),
    CLOCK: clocks,
    NESTED: st.fixed_dictionaries({"name": st.none() | st.text("ab"), "clock": st.none() | clocks}),
}


def as_key(value: Any) -> Any:
    """What the order of a value means, for Python's own sort."""
    if value is None:
        return (0,)
    if isinstance(value, dict):
        return (1, tuple(as_key(each) for each in value.values()))
    if isinstance(value, float):
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value)
    return (1, value.encode() if isinstance(value, str) else value)


@st.composite
def keyed_blocks(draw: st.DrawFn) -> pa.Table:
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    rows = draw(st.integers(0, 30))
    cut = draw(st.integers(0, rows))
    columns = []
    for kind in kinds:
        values = st.none() | VALUES[kind] if draw(st.booleans()) else VALUES[kind]
        made = draw(st.lists(values, min_size=rows, max_size=rows))
        # One more in front that is cut off again: arrays need not begin where their buffers do.
        array = pa.array([None, *made], kind).slice(1)
        columns.append(pa.chunked_array([array.slice(0, cut), array.slice(cut)]))
    return pa.Table.from_arrays(columns, names=[f"k{place}" for place in range(len(kinds))])


@settings(deadline=None)
@given(keyed_blocks())
def test_the_order_is_the_one_a_plain_sort_finds(block: pa.Table) -> None:
    ordering = Ordering(block.num_rows)
    ordering.refine(block.columns)
    keys = [tuple(as_key(value) for value in row.values()) for row in block.to_pylist()]
    assert ordering.order.tolist() == sorted(range(len(keys)), key=keys.__getitem__)
    assert ordering.moved == (ordering.order.tolist() != list(range(len(keys))))
    for place in range(1, len(keys)):
        before, after = keys[ordering.order[place - 1]], keys[ordering.order[place]]
        assert ordering.is_first[place] == (before != after)


@settings(deadline=None)
@given(keyed_blocks(), st.data())
def test_columns_one_by_one_are_as_good_as_at_once(block: pa.Table, data: st.DataObject) -> None:
    at_once, one_by_one = Ordering(block.num_rows), Ordering(block.num_rows)
    at_once.refine(block.columns)
    for column in block.columns:
        one_by_one.refine([column])
    assert at_once.order.tolist() == one_by_one.order.tolist()
    assert at_once.is_first.tolist() == one_by_one.is_first.tolist()


def test_many_rows_need_several_rounds() -> None:
    rows = 200_000
    dice = np.random.default_rng(7)
    block = pa.table(
        {
            "coarse": dice.integers(0, 50, rows),
            "wide": dice.choice(dice.integers(-(2**63), 2**63 - 1, 1000), rows),
            "text": pa.array([f"a common beginning {n}" for n in dice.integers(0, 5000, rows)]),
        }
    )
    ordering = Ordering(rows)
    ordering.refine(block.columns)
    keys = list(zip(*(block.column(name).to_pylist() for name in block.column_names), strict=True))
    assert ordering.order.tolist() == sorted(range(rows), key=keys.__getitem__)


def test_rows_in_order_are_left_alone() -> None:
    ordering = Ordering(5)
    ordering.refine(
        [pa.chunked_array([[1, 1, 2, 3, 3]]), pa.chunked_array([["a", "b", "a", "c", "c"]])]
    )
    assert not ordering.moved
    assert ordering.is_first.tolist() == [True, True, True, True, False]


@settings(deadline=None)
@given(keyed_blocks(), st.data())
def test_taken_rows_are_the_rows(block: pa.Table, data: st.DataObject) -> None:
    places = data.draw(st.lists(st.integers(0, block.num_rows - 1))) if block.num_rows else []
    taken = take_rows(block, np.array(places, np.int64))
    assert taken.schema == block.schema
    assert repr(taken.to_pylist()) == repr(
        [block.slice(place, 1).to_pylist()[0] for place in places]
    )


def test_repeated_text_is_taken_as_well() -> None:
    texts = [None if n % 7 == 0 else f"text {n % 5}" for n in range(1000)]
    block = pa.table({"text": texts, "bytes": pa.array(texts, pa.string()).cast(pa.binary())})
    places = np.random.default_rng(3).permutation(1000)
    taken = take_rows(block, places)
    assert taken.schema == block.schema
    assert taken.column("text").to_pylist() == [texts[place] for place in places]
    assert taken.column("bytes").cast(pa.string()).equals(taken.column("text"))


def test_what_has_no_order_is_named() -> None:
    schema = pa.schema([("tags", pa.list_(pa.string())), ("n", pa.int64())])
    check_sortable(schema, ("n",))
    with pytest.raises(BadSchema, match="'tags'"):
        check_sortable(schema, ("n", "tags"))
    with pytest.raises(BadSchema, match="no column 'm'"):
        check_sortable(schema, ("m",))


def test_dates_and_decimals_compare_by_value() -> None:
    block = pa.table(
        {
            "day": [date(1969, 12, 31), date(2030, 1, 1), date(1970, 1, 1)],
            "sum": [Decimal("-1.50"), Decimal("1.25"), Decimal("-1.75")],
            "at": [datetime(1960, 1, 1, tzinfo=UTC), None, datetime(1950, 1, 1, tzinfo=UTC)],
        }
    )
    for name, wanted in (("day", [0, 2, 1]), ("sum", [2, 0, 1]), ("at", [1, 2, 0])):
        ordering = Ordering(3)
        ordering.refine([block.column(name)])
        assert ordering.order.tolist() == wanted, name
