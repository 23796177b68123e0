"""Tables by Spark's own reader: the same rows as through the source, and the source where that must be."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.spark.sales_table import SCHEMA, fill_sales, load, rows

import motet
from motet.errors import BadInput, BadSchema, NoSuchTable
from motet.pipeline import read_table
from motet.real.part_files import TOKEN_FILE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def db(tmp_path: Path) -> Iterator[motet.Database]:
    with motet.open(tmp_path / "data") as database:
        yield database


def plan_of(frame: DataFrame) -> str:
    plan: str = frame._jdf.queryExecution().toString()
    return plan


def test_the_same_rows_as_through_the_source(spark: SparkSession, db: motet.Database) -> None:
    fill_sales(db)
    ours = read_table(spark, "sales", endpoint=db.endpoint)
    assert "FileScan parquet" in plan_of(ours)
    theirs = load(spark, db, "sales")
    assert ours.schema.simpleString() == theirs.schema.simpleString()
    assert ours.exceptAll(theirs).count() == theirs.exceptAll(ours).count() == 0
    assert ours.count() == 300


def test_it_is_a_snapshot(spark: SparkSession, db: motet.Database) -> None:
    fill_sales(db)
    version = db.snapshot("sales").version
    before = read_table(spark, "sales", endpoint=db.endpoint, columns=["name", "k"])
    db.table("sales").insert(rows(300, 310))
    assert before.columns == ["name", "k"]
    assert before.count() == before.where("k >= 0").count() == 300
    assert read_table(spark, "sales", endpoint=db.endpoint).count() == 310
    assert read_table(spark, "sales", endpoint=db.endpoint, at=version).count() == 300


def test_what_the_files_alone_do_not_say_is_read_through_the_source(
    spark: SparkSession, db: motet.Database
) -> None:
    db.create_table("empty", SCHEMA, order_by=["k"])
    assert read_table(spark, "empty", endpoint=db.endpoint).collect() == []
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    latest = db.create_table("latest", schema, order_by=["k"], engine="replacing")
    latest.insert(pa.table({"k": [1, 2], "v": [1, 1]}, schema=schema))
    latest.insert(pa.table({"k": [1], "v": [2]}, schema=schema))
    frame = read_table(spark, "latest", endpoint=db.endpoint)
    assert "FileScan parquet" not in plan_of(frame)
    assert sorted(tuple(row) for row in frame.collect()) == [(1, 2), (2, 1)]


def test_files_on_another_machine_are_read_through_the_source(
    spark: SparkSession, db: motet.Database
) -> None:
    fill_sales(db)
    node = db.snapshot("sales")["sales"].files()[0].nodes[0]
    token = Path(node.folder) / TOKEN_FILE
    token.write_text("0" * 32)  # as a copy of the folder elsewhere has it
    frame = read_table(spark, "sales", endpoint=db.endpoint, columns=["k"])
    assert "FileScan parquet" not in plan_of(frame)
    assert frame.count() == 300


def test_bad_input_is_named_before_any_work(spark: SparkSession, db: motet.Database) -> None:
    fill_sales(db)
    with pytest.raises(NoSuchTable):
        read_table(spark, "sails", endpoint=db.endpoint)
    with pytest.raises(BadSchema, match="no column"):
        read_table(spark, "sales", endpoint=db.endpoint, columns=["nam"])
    with pytest.raises(BadInput, match="endpoint"):
        read_table(spark, "sales", endpoint="nowhere")
