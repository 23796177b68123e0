"""Tables as DataFrames: one snapshot for all tasks, the columns and filters asked for, both engines."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.spark.sales_table import SCHEMA, files_of, fill_sales, load, read_directly, rows

import motet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def db(tmp_path: Path) -> Iterator[motet.Database]:
    with motet.open(tmp_path / "data") as database:
        yield database


@pytest.fixture
def filled(db: motet.Database) -> motet.Database:
    fill_sales(db)
    return db


def test_all_rows_with_their_types(spark: SparkSession, filled: motet.Database) -> None:
    frame = load(spark, filled, "sales")
    assert frame.schema.simpleString() == (
        "struct<k:bigint,small:tinyint,flag:boolean,ratio:double,name:string,data:binary,day:date,"
        "at:timestamp,local:timestamp_ntz,price:decimal(12,2),tags:array<string>,"
        "pair:struct<x:int,y:string>>"
    )
    found = frame.toArrow().sort_by("k").drop_columns("ratio")
    assert found.cast(rows(0, 0).drop_columns("ratio").schema) == rows(0, 300).drop_columns("ratio")


def test_sparks_own_reader_finds_the_same_in_the_files(
    spark: SparkSession, filled: motet.Database
) -> None:
    ours = load(spark, filled, "sales")
    theirs = spark.read.parquet(*map(str, files_of(filled, "sales")))
    assert ours.exceptAll(theirs).count() == 0
    assert theirs.exceptAll(ours).count() == 0
    assert ours.count() == 300


def test_an_empty_table(spark: SparkSession, db: motet.Database) -> None:
    db.create_table("empty", SCHEMA, order_by=["k"])
    assert load(spark, db, "empty").collect() == []


def test_columns_are_chosen_by_option_and_by_schema(
    spark: SparkSession, filled: motet.Database
) -> None:
    chosen = load(spark, filled, "sales", columns="name,k")
    assert chosen.columns == ["name", "k"]
    assert sorted(row["k"] for row in chosen.collect()) == list(range(300))
    reader = spark.read.format("motet").schema("price decimal(12,2)")
    frame = reader.options(endpoint=filled.endpoint, table="sales").load()
    assert frame.columns == ["price"]
    assert frame.count() == 300


def test_the_past_can_be_read(spark: SparkSession, filled: motet.Database) -> None:
    version = filled.snapshot("sales").version
    moment = datetime.now(UTC)
    frame = load(spark, filled, "sales", columns="k")
    filled.table("sales").insert(rows(300, 310))
    assert frame.count() == frame.where("k >= 0").count() == 300, "what is loaded is a snapshot"
    assert load(spark, filled, "sales", at=str(version)).count() == 300
    assert load(spark, filled, "sales", at=moment.isoformat()).count() == 300
    assert load(spark, filled, "sales", consistency="eventual").count() == 310


def test_a_task_on_another_machine_reads_over_http(filled: motet.Database) -> None:
    near = read_directly(filled, "sales", columns="k,name", where="k > 150")
    assert len(near[0]) == 149
    assert read_directly(filled, "sales", is_far=True, columns="k,name", where="k > 150") == near


def test_parts_are_shared_out_among_the_tasks_that_run_side_by_side(
    filled: motet.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    from motet.pipeline import table_reader

    def sizes(side_by_side: int) -> list[int]:
        tasks = read_directly(filled, "sales", side_by_side=side_by_side)
        assert sorted(row["k"] for task in tasks for row in task) == list(range(300))
        return [len(task) for task in tasks]

    assert sizes(8) == [300], "little is read by one"
    monkeypatch.setattr(table_reader, "task_rows_min", 1)
    assert sizes(1) == [300]
    assert sizes(2) == [100, 200]
    assert sizes(3) == sizes(8) == [100, 100, 100], "a part is not cut"
    monkeypatch.setattr(table_reader, "task_rows_max", 100)
    assert sizes(1) == [100, 100, 100], "a task that is too long is"


@pytest.mark.parametrize(
    ("rows", "size_bytes", "side_by_side", "tasks"),
    [
        (0, 0, 4, 1),
        (400_000, 5 << 20, 4, 1),
        (900_000, 9 << 20, 4, 2),
        (4_000_000, 50 << 20, 2, 2),
        (20_000_000, 250 << 20, 2, 6),
        (20_000_000, 250 << 20, 16, 16),
        (20_000_000, 250 << 20, 100, 40),
        (10_000, 900 << 20, 2, 8),
    ],
)
def test_there_are_as_many_tasks_as_run_at_once_or_a_multiple_of_it(
    rows: int, size_bytes: int, side_by_side: int, tasks: int
) -> None:
    from motet.pipeline.table_reader import tasks_for

    assert tasks_for(rows, size_bytes, side_by_side) == tasks


REPLACING = pa.schema(
    [("sku", pa.string()), ("version", pa.int64()), ("left", pa.int32()), ("gone", pa.bool_())]
)


@pytest.fixture
def replaced(db: motet.Database) -> motet.Database:
    """Keys a, b, c in several parts: a has changed, b is gone, c came back."""
    table = db.create_table(
        "stock",
        REPLACING,
        order_by=["sku"],
        engine="replacing",
        version="version",
        tombstone="gone",
    )
    for block in (
        [("a", 1, 10, False), ("b", 1, 20, False), ("c", 1, 30, False)],
        [("b", 2, 20, True), ("c", 2, 30, True), ("a", 5, 11, False)],
        [("c", 3, 31, False), ("a", 2, 99, False)],
    ):
        table.insert([dict(zip(REPLACING.names, row, strict=True)) for row in block])
    return db


def test_the_engine_replacing_gives_the_latest_row_of_a_key(
    spark: SparkSession, replaced: motet.Database
) -> None:
    def found(**options: str) -> dict[str, int]:
        frame = load(spark, replaced, "stock", columns="left,sku", **options)
        return {row["sku"]: row["left"] for row in frame.collect()}

    assert found() == {"a": 11, "c": 31}
    assert found(where="left in (10, 20, 30, 99)") == {}, "a filter brings no old rows back"
    assert found(where="gone = false and left > 11") == {"c": 31}
    assert found(where="sku = 'a'") == {"a": 11}
    assert found(where="sku = 'b'") == {}


def test_a_large_replacing_table_is_read_in_ranges_of_its_key(
    db: motet.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same rows whichever way the key is cut, and no key in two tasks."""
    from motet.pipeline import table_reader

    table = db.create_table(
        "stock", REPLACING, order_by=["sku"], engine="replacing", version="version"
    )
    for version in range(3):
        for first in range(0, 500, 100):
            table.insert(
                [
                    {"sku": f"s-{i:04}", "version": version, "left": i + version}
                    for i in range(first, first + 100)
                ]
            )
    whole = read_directly(db, "stock")
    monkeypatch.setattr(table_reader, "replacing_task_rows", 400)
    in_ranges = read_directly(db, "stock")
    assert len(whole) == 1
    assert len(in_ranges) > 2
    by_key = {row["sku"]: row for row in whole[0]}
    found = [row for task in in_ranges for row in task]
    assert len(found) == len(by_key) == 500
    assert {row["sku"]: row for row in found} == by_key


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"table": "nowhere"}, "NO_SUCH_TABLE"),
        ({"columns": "k,nme"}, "BAD_SCHEMA table sales has no column nme; did you mean name?"),
        ({"at": "noon"}, "BAD_INPUT option at: 'noon' is neither a version nor a time"),
        ({"at": "5@x"}, "BAD_INPUT option at: '5@x' is not a version"),
        ({"at": "2026-01-05T12:00"}, "BAD_INPUT option at: '2026-01-05T12:00' has no time zone"),
        ({"at": "5@abcd"}, "SNAPSHOT_EXPIRED"),
        ({"at": "5@abcd", "consistency": "eventual"}, "BAD_INPUT option at names a version"),
        ({"consistency": "hope"}, "BAD_INPUT option consistency: 'hope'"),
        ({"colums": "k"}, "BAD_INPUT there is no option 'colums'; did you mean columns?"),
        ({"maxChangesPerBatch": "5"}, "BAD_INPUT option maxChangesPerBatch does not apply here"),
    ],
)
def test_bad_input_is_told_before_any_task_starts(
    spark: SparkSession, filled: motet.Database, options: dict[str, str], text: str
) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as caught:
        load(spark, filled, **{"table": "sales", **options}).collect()
    assert text in str(caught.value)
    assert "Job aborted" not in str(caught.value)


def test_a_schema_that_does_not_fit_names_the_column(
    spark: SparkSession, filled: motet.Database
) -> None:
    from pyspark.errors import PySparkException

    reader = spark.read.format("motet").schema("k int")
    with pytest.raises(PySparkException, match="column k of table sales is bigint, not int"):
        reader.options(endpoint=filled.endpoint, table="sales").load().collect()
