"""The latest row of each key, against a dict that is filled row by row."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.columnar.latest import latest_rows
from motet.errors import BadSchema

CLOCK = pa.struct([("logical", pa.int64()), ("counter", pa.int32())])
SCHEMA = pa.schema(
    [
        ("sku", pa.string()),
        ("number", pa.float64()),
        ("place", CLOCK),
        ("clock", CLOCK),
        ("gone", pa.bool_()),
        ("left", pa.int64()),
    ]
)
small = st.none() | st.integers(0, 2)
clocks = st.none() | st.fixed_dictionaries({"logical": small, "counter": small})
rows = st.fixed_dictionaries(
    {
        "sku": st.none() | st.sampled_from(["a", "b", "a\0"]),
        "number": st.none() | st.sampled_from([0.0, -0.0, math.nan, -1.5]),
        "place": clocks,
        "clock": clocks,
        "gone": st.none() | st.booleans(),
        "left": st.none() | st.integers(0, 999),
    }
)


def as_key(value: Any) -> Any:
    if value is None:
        return (0,)
    if isinstance(value, dict):
        return (1, tuple(as_key(each) for each in value.values()))
    if isinstance(value, float):
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value)
    return (1, value)


def naive_latest(
    given_rows: list[dict[str, Any]],
    order_by: list[str],
    version: str | None,
    tombstone: str | None,
) -> list[dict[str, Any]]:
    latest: dict[Any, dict[str, Any]] = {}
    for row in given_rows:
        key = tuple(as_key(row[name]) for name in order_by)
        known = latest.get(key)
        if known is None or version is None or as_key(row[version]) >= as_key(known[version]):
            latest[key] = row
    kept = [latest[key] for key in sorted(latest)]
    return [row for row in kept if tombstone is None or row[tombstone] is not True]


@settings(deadline=None)
@given(
    st.lists(rows, max_size=40),
    st.sampled_from([["sku"], ["number"], ["place"], ["sku", "number"], ["place", "sku"]]),
    st.sampled_from([None, "clock", "left", "number"]),
    st.sampled_from([None, "gone"]),
    st.integers(0, 40),
)
def test_the_latest_rows_are_those_a_dict_keeps(
    given_rows: list[dict[str, Any]],
    order_by: list[str],
    version: str | None,
    tombstone: str | None,
    cut: int,
) -> None:
    parts = [given_rows[:cut], given_rows[cut:]]
    block = pa.concat_tables([pa.Table.from_pylist(part, SCHEMA) for part in parts])
    found = latest_rows(block, order_by, version, tombstone)
    assert found.schema == SCHEMA
    # Compared as text: NaN does not equal itself, and of 0.0 and -0.0 the row that was latest stays.
    assert repr(found.to_pylist()) == repr(
        naive_latest(block.to_pylist(), order_by, version, tombstone)
    )


def test_the_later_of_two_equal_versions_wins() -> None:
    block = pa.table({"key": [1, 1, 2, 1], "version": [5, 5, 1, 4], "value": list("abcd")})
    found = latest_rows(block, ["key"], "version", None)
    assert found.to_pydict() == {"key": [1, 2], "version": [5, 1], "value": ["b", "c"]}


def test_a_tombstone_counts_only_if_it_is_the_latest() -> None:
    block = pa.table(
        {"key": [1, 1, 2, 2], "version": [1, 2, 1, 2], "gone": [True, False, None, True]}
    )
    assert latest_rows(block, ["key"], "version", "gone").to_pydict() == {
        "key": [1],
        "version": [2],
        "gone": [False],
    }


def test_a_version_without_an_order_is_named() -> None:
    block = pa.table({"key": [1], "version": [[1]]})
    with pytest.raises(BadSchema, match="'version'"):
        latest_rows(block, ["key"], "version", None)
