"""Two DataFrames compared as bags of rows, and the latest row of each key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from motet.pipeline.definition import TableDefinition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from motet.pipeline.plan import Changes

SCHEMA = "sku string, left int, place struct<x: int, y: array<int>>"
A = ("a", 1, (1, [1, 2]))
B = ("b", None, None)
C = ("c", 3, (None, [None]))


@pytest.mark.parametrize(
    ("expected", "actual", "missing", "extra"),
    [
        ([A, B, C], [C, A, B], 0, 0),
        ([A, A, B], [A, B], 1, 0),
        ([A, B], [A, B, B, B], 0, 2),
        ([A, B], [A, C], 1, 1),
        ([], [A], 0, 1),
        ([], [], 0, 0),
    ],
)
def test_rows_are_counted_wherever_they_are(
    spark: SparkSession,
    expected: list[tuple[object, ...]],
    actual: list[tuple[object, ...]],
    missing: int,
    extra: int,
) -> None:
    from motet.pipeline.check import compare

    found = compare(spark.createDataFrame(expected, SCHEMA), spark.createDataFrame(actual, SCHEMA))
    assert (found.missing, found.extra) == (missing, extra)
    assert found.is_none == (missing == extra == 0)
    assert {kind for kind, _ in found.examples} == {
        kind for kind, count in (("missing", missing), ("extra", extra)) if count
    }


def test_some_of_the_rows_are_shown(spark: SparkSession) -> None:
    from motet.pipeline.check import compare

    rows = [(f"s-{i}", i, None) for i in range(20)]
    found = compare(spark.createDataFrame([], SCHEMA), spark.createDataFrame(rows, SCHEMA))
    assert found.extra == 20
    assert len(found.examples) == 5
    assert all('"sku":"s-' in text for _, text in found.examples)


def nothing(changes: Changes) -> DataFrame:
    return changes.all()


def test_of_each_key_the_highest_version_stays_and_the_later_of_two(spark: SparkSession) -> None:
    from motet.pipeline.check import ORDER, expected_rows

    rows = [
        ("a", (1, 5), 1, False, 0),
        ("a", (1, 7), 2, False, 1),
        ("a", (1, 6), 3, False, 2),
        ("b", (1, 1), 4, False, 3),
        ("b", (1, 1), 5, False, 4),
        ("c", (1, 1), 6, False, 5),
        ("c", (2, 0), 7, True, 6),
        ("d", None, 8, None, 7),
    ]
    schema = f"k string, v struct<x: int, y: int>, n int, gone boolean, `{ORDER}` int"
    definition = TableDefinition("t", "replacing", ("k",), "v", "gone", 1, nothing)
    kept = expected_rows(spark.createDataFrame(rows, schema), definition)
    assert sorted(row.n for row in kept.collect()) == [2, 5, 8]
    assert kept.columns == ["k", "v", "n", "gone"]
    unversioned = TableDefinition("t", "replacing", ("k",), None, None, 1, nothing)
    latest = expected_rows(spark.createDataFrame(rows, schema), unversioned)
    assert sorted(row.n for row in latest.collect()) == [3, 5, 7, 8]
