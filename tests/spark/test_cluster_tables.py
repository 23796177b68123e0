"""Tables on a cluster, through Spark: published together, read over HTTP, and a node of three that dies."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.spark.pipeline_shop import STREAMS, folded, published, sell
from tests.spark.sales_table import load, read_directly

import motet
import motet.pipeline
from motet.node.config import ROLES
from motet.pipeline.definition import Pipeline, load_pipeline
from motet.testing.local_cluster import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from motet.pipeline.batch import BatchReport

pytestmark = pytest.mark.timeout(300)

#: the shop of the other tests, in shards and partitions
PIPELINE = """\
from pyspark.sql import functions as f
from motet import pipeline

@pipeline.table(engine="replacing", order_by=["sku"], version="clock", tombstone="gone", shards=2)
def stock_now(changes):
    stock = changes.stream("stock", schema="left int")
    sku = f.col("key").cast("string").alias("sku")
    return stock.select(sku, "row.left", "clock", (f.col("op") == "delete").alias("gone"))

@pipeline.table(engine="merge", order_by=["sku"], partition_by="bucket(2, sku)", shards=2)
def sales(changes):
    orders = changes.stream("orders", schema="sku string, qty int")
    return orders.select("row.sku", "row.qty", "transaction")

@pipeline.table(engine="merge", order_by=["sku"])
def sales_by_batch(changes):
    orders = changes.stream("orders", schema="sku string, qty int")
    return orders.groupBy("row.sku").agg(f.sum("row.qty").alias("qty"), f.count("*").alias("orders"))
"""
TABLES = ("stock_now", "sales", "sales_by_batch")

SECONDS_MAX = 120.0
"""Patience; nothing is measured by it."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with LocalCluster(3, folder, roles=ROLES) as running:
        yield running


@pytest.fixture
def db(cluster: LocalCluster) -> Iterator[motet.Database]:
    with motet.connect(cluster.endpoints) as connected:
        yield connected


@pytest.fixture
def shop(tmp_path: Path, db: motet.Database) -> Pipeline:
    for name in (*STREAMS, "other"):
        db.create_stream(name, shards=2)
    file = tmp_path / "shop.py"
    file.write_text(PIPELINE)
    return load_pipeline(file)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_tables_are_written_and_read_in_shards_and_partitions(
    spark: SparkSession, db: motet.Database
) -> None:
    schema = pa.schema([("k", pa.int64()), ("flag", pa.bool_()), ("name", pa.string())])
    db.create_table("marked", schema, order_by=["k"], shards=2, partition_by="flag")
    given = spark.range(0, 300, 1, 2).selectExpr(
        "id as k", "id % 3 = 0 as flag", "concat('n-', id) as name"
    )
    writer = given.write.format("motet").options(endpoint=db.endpoint, table="marked")
    writer.mode("append").save()
    parts = db.snapshot("marked")["marked"].parts
    assert {(part.shard, part.partition) for part in parts} == {
        (shard, flag) for shard in (0, 1) for flag in ("false", "true")
    }
    found = load(spark, db, "marked")
    assert found.count() == 300
    assert found.exceptAll(given).count() == 0
    assert motet.pipeline.read_table(spark, "marked", endpoint=db.endpoint).count() == 300
    near = read_directly(db, "marked", where="k > 150")
    assert read_directly(db, "marked", where="k > 150", is_far=True) == near
    given.limit(10).write.format("motet").options(endpoint=db.endpoint, table="marked").mode(
        "overwrite"
    ).save()
    assert found.count() == 300, "what was loaded is a snapshot"
    assert load(spark, db, "marked").count() == 10


@pytest.mark.usefixtures("spark")
def test_a_node_with_replicas_dies_while_a_pipeline_runs(
    cluster: LocalCluster, db: motet.Database, shop: Pipeline, tmp_path: Path
) -> None:
    """The tables go on without it, each step whole at its version, and the node fetches what it missed."""
    from motet.pipeline.check import check_pipeline
    from motet.pipeline.run import run_pipeline

    def kill(batch: BatchReport) -> None:
        if batch.batch == 0:
            cluster.kill(2)

    sell(db, 0, 30)
    notes = tmp_path / "checkpoint"
    assert (
        run_pipeline(db, shop, once=True, checkpoint=notes, changes_max=20, report=kill).steps > 1
    )
    assert published(db) == folded(db)
    sold = 0
    for step in db.writer_steps("shop"):
        counts = {
            name: Counter(row["sku"] for row in db.table(name).select(at=step.version).to_pylist())
            for name in ("sales", "sales_by_batch")
        }
        by_batch = db.table("sales_by_batch").select(at=step.version)["orders"].to_pylist()
        assert sum(by_batch) == counts["sales"].total() > sold, "all tables of a step or none"
        sold = counts["sales"].total()
    assert sold == 30
    cluster.restart(2)
    until(lambda: not missing(cluster, db, 2))
    assert all(one.difference.is_none for one in check_pipeline(db, shop))


def missing(cluster: LocalCluster, db: motet.Database, i: int) -> set[str]:
    """The parts of the shop's tables that a node has not stored."""
    found = {
        path.parent.name
        for path in (cluster.folder / f"node-{i}").glob("parts/*/*/stored/*/manifest")
    }
    tables = db.snapshot(*TABLES).tables.values()
    return {str(part.id) for table in tables for part in table.parts} - found
