"""Conditions on the rows of a table: what they keep, what is not read, and what Spark makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
from tests.spark.sales_table import SCHEMA, files_of, fill_sales, load, read_directly, rows

import motet
from motet.columnar.filters import GreaterOrEqual, Less, row_groups_to_read
from motet.errors import BadInput

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[motet.Database]:
    with motet.open(tmp_path / "data") as database:
        fill_sales(database)
        yield database


def kept_by_spark(spark: SparkSession, conditions: Iterable[str]) -> dict[str, list[int]]:
    """Which rows meet each condition, from the same rows without us."""
    tests = {f"test_{number}": text for number, text in enumerate(conditions)}
    columns = [f"({text}) is true as {name}" for name, text in tests.items()]
    found = spark.createDataFrame(rows(0, 300)).selectExpr("k", *columns).collect()
    return {text: sorted(row["k"] for row in found if row[name]) for name, text in tests.items()}


def pushing(spark: SparkSession) -> SparkSession:
    """A session with the source as it is where pushing filters is safe."""
    from motet.pipeline.session import PUSHDOWN_SETTING
    from motet.pipeline.source import MotetSource

    class PushingSource(MotetSource):
        pushes_filters = True

    session = spark.newSession()
    session.conf.set(PUSHDOWN_SETTING, "true")
    session.dataSource.register(PushingSource)
    return session


FILTERS = [
    "k = 17",
    "k <> 17",
    "k > 250",
    "k >= 250 and k < 260",
    "k <= 3",
    "k in (1, 150, 299, 1000)",
    "k not in (1, 150)",
    "small = 5",
    "flag",
    "not flag",
    "name = 'n-00017'",
    "name <> 'n-00017'",
    "name <=> null",
    "not (name <=> 'n-00017')",
    "name is null",
    "name is not null",
    "name like 'n-001%'",
    "name like '%7'",
    "name like '%-000%'",
    "name not like 'n-001%'",
    "data = x'05'",
    "day = date'2026-01-05'",
    "day > date'2026-01-20'",
    "at = timestamp'2026-01-01 00:05:00Z'",
    "at < timestamp'2026-01-01 00:05:00Z'",
    "local >= timestamp_ntz'2026-01-01 00:50:00'",
    "price = 10.00",
    "price > 74.5",
    "price in (1.00, 2.50)",
    "ratio > 70",
    "ratio = double('nan')",
    "ratio <> 1.0",
    "ratio is null",
    "pair.x = 17",
    "array_contains(tags, 't1')",
    "k = 17 or name = 'n-00018'",
]


#: an option, and the same for Spark
WHERE = {
    "k >= 250 and k < 260": "k >= 250 and k < 260",
    "`k` != 17 AND small = 17": "k <> 17 and small = 17",
    "k in (1, 150, 1000)": "k in (1, 150, 1000)",
    "k not in (1, 150)": "k not in (1, 150)",
    "flag = true and ratio > 70.5": "flag and ratio > 70.5",
    "name is null": "name is null",
    "name is not null and name <= 'n-00017'": "name is not null and name <= 'n-00017'",
    "name like 'n-001%'": "name like 'n-001%'",
    "name not like '%7'": "name not like '%7'",
    "name like '%-000%'": "name like '%-000%'",
    "data = x'05'": "data = x'05'",
    "day > '2026-01-20'": "day > date'2026-01-20'",
    "at < '2026-01-01T01:05:00+01:00'": "at < timestamp'2026-01-01 00:05:00Z'",
    "local >= '2026-01-01 00:50:00'": "local >= timestamp_ntz'2026-01-01 00:50:00'",
    "price = 10.00": "price = 10.00",
}


def test_pushed_filters_keep_what_spark_would(spark: SparkSession, filled: motet.Database) -> None:
    session = pushing(spark)
    for text, wanted in kept_by_spark(spark, FILTERS).items():
        # Loaded anew for each: one DataFrame with several filters is what Spark gets wrong.
        frame = load(session, filled, "sales").where(text)
        assert sorted(row["k"] for row in frame.select("k").collect()) == wanted, text


def test_queries_of_one_frame_do_not_see_the_filters_of_each_other(
    spark: SparkSession, filled: motet.Database
) -> None:
    from motet.pipeline.session import register

    session = spark.newSession()
    register(session, endpoint=filled.endpoint)
    for each in (spark, session):
        frame = load(each, filled, "sales", columns="k")
        one, two = frame.where("k = 1"), frame.where("k = 2")
        assert [row["k"] for row in one.collect()] == [1]
        assert frame.count() == 300
        assert sorted(row["k"] for row in one.union(two).collect()) == [1, 2]
        assert [row["k"] for row in one.collect()] == [1]


def test_the_plan_shows_what_is_pushed(
    spark: SparkSession, filled: motet.Database, capsys: pytest.CaptureFixture[str]
) -> None:
    load(pushing(spark), filled, "sales").where("k = 17 and pair.x > 1").explain("formatted")
    plan = capsys.readouterr().out
    pushed = next(line for line in plan.splitlines() if "PushedFilters" in line)
    assert "EqualTo(k,17)" in pushed
    assert "GreaterThan" not in pushed, "a path into a struct is left to Spark"


def test_the_option_where_keeps_what_spark_would(
    spark: SparkSession, filled: motet.Database
) -> None:
    wanted = kept_by_spark(spark, WHERE.values())
    for option, text in WHERE.items():
        tasks = read_directly(filled, "sales", where=option, columns="k")
        assert sorted(row["k"] for task in tasks for row in task) == wanted[text], option
        assert 0 < len(wanted[text]) < 300, text
    frame = load(spark, filled, "sales", where="name like 'n-001%'", columns="k")
    assert sorted(row["k"] for row in frame.collect()) == wanted["name like 'n-001%'"]


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("k", "'the end' stands where a comparison should be"),
        ("k = ", "'' is not a value of column k"),
        ("k = 1 or k = 2", "'or' stands where and, or the end should be"),
        ("colour = 1", "there is no column colour"),
        ("k = 'one'", "'one' is not a value of column k, int64"),
        ("k = 1.5", "'1.5' is not a value of column k, int64"),
        ("small = 1000", "column small, int8, cannot be compared like that"),
        ("at > '2026-01-01'", "is not a value of column at, timestamp[us, tz=UTC]"),
        ("local > '2026-01-01T00:00Z'", "is not a value of column local, timestamp[us]"),
        ("name like 'a_b%'", "is more than can be looked for"),
        ("k like '1%'", "column k, int64, cannot be compared like that"),
        ("tags = 't'", "is not a value of column tags"),
        ("k in (1, 2", "'the end' stands where ) should be"),
        ("k not = 1", "'=' stands where a comparison should be"),
        ("name = 'open", "cannot read"),
        ("price = 1.234", "column price, decimal128(12, 2), cannot be compared like that"),
        ("1 = 1", "'1' stands where the name of a column should be"),
        ("flag = maybe", "'maybe' is not a value of column flag"),
    ],
)
def test_a_condition_that_makes_no_sense_is_refused(option: str, text: str) -> None:
    from motet.pipeline.where import parse_where

    with pytest.raises(BadInput) as caught:
        parse_where(option, SCHEMA)
    assert f"option where: {text}" in str(caught.value) or text in str(caught.value)


def spoil_rows(path: Path) -> None:
    """Make the rows of a part unreadable, and leave its footer as it is."""
    metadata = pq.ParquetFile(path).metadata
    last = metadata.row_group(metadata.num_row_groups - 1)
    column = last.column(last.num_columns - 1)
    begin = min(column.data_page_offset, column.dictionary_page_offset or column.data_page_offset)
    end = begin + column.total_compressed_size
    data = bytearray(path.read_bytes())
    data[4:end] = b"\xee" * (end - 4)
    path.chmod(0o600)
    path.write_bytes(data)


def test_parts_without_a_matching_row_are_not_read(filled: motet.Database) -> None:
    wanted = (GreaterOrEqual("k", 250), Less("k", 260))
    read = [
        bool(row_groups_to_read(pq.ParquetFile(path).metadata, SCHEMA, wanted))
        for path in files_of(filled, "sales")
    ]
    assert read == [False, False, True]


def test_a_damaged_part_is_refused_by_who_has_to_read_it(
    spark: SparkSession, filled: motet.Database
) -> None:
    """What its manifest says of its rows has a checksum of its own."""
    from pyspark.errors import PySparkException

    spoil_rows(files_of(filled, "sales")[0])
    with pytest.raises(PySparkException, match="BAD_RECORD"):
        load(spark, filled, "sales").where("k >= 250 and k < 260").count()
    with pytest.raises(PySparkException, match="BAD_RECORD"):
        load(spark, filled, "sales", where="k >= 50").count()
    assert load(spark, filled, "sales", where="k >= 250 and k < 260").count() == 10
    frame = load(pushing(spark), filled, "sales")
    assert frame.where("k >= 250 and k < 260").count() == 10
