"""Spark reads the feed of a cluster; the tables of a pipeline over it are in an embedded database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.pipeline_shop import PIPELINE, STREAMS, feed, folded, published, sell

import motet
from motet.errors import BadPipeline
from motet.node.config import ROLES
from motet.pipeline.definition import load_pipeline
from motet.pipeline.status import pipeline_status
from motet.testing.local_cluster import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[motet.Database]:
    with (
        LocalCluster(1, tmp_path / "cluster", roles=ROLES) as running,
        motet.connect(running.endpoints) as db,
    ):
        for name in (*STREAMS, "other"):
            db.create_stream(name, shards=2)
        yield db


class Shop:
    """A pipeline whose streams are in a cluster, and its tables elsewhere."""

    def __init__(self, cluster: motet.Database, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        file = folder / "shop.py"
        file.write_text(PIPELINE)
        self.pipeline = load_pipeline(file)

    def run(self, tables: motet.Database, changes_max: int) -> int:
        """How many steps a run has published."""
        from motet.pipeline.run import run_pipeline

        done = run_pipeline(
            tables,
            self.pipeline,
            feed=self.cluster,
            once=True,
            checkpoint=self.folder / "checkpoint",
            changes_max=changes_max,
        )
        assert published(tables) == folded(self.cluster)
        return done.steps


@pytest.mark.timeout(300)
def test_a_pipeline_follows_the_feed_of_a_cluster(
    spark: SparkSession, cluster: motet.Database, tmp_path: Path
) -> None:
    sell(cluster, 0, 20)
    with motet.open(tmp_path / "tables") as tables:
        assert Shop(cluster, tmp_path).run(tables, changes_max=25) == 2
    read = spark.read.format("motet").option("endpoint", cluster.endpoint)
    rows = read.option("streams", "orders,stock").load().collect()
    assert sorted((*row["clock"], row["index"]) for row in rows) == [
        (change.raw.clock.logical, change.raw.clock.counter, change.index)
        for change in feed(cluster)
    ]


@pytest.mark.long
@pytest.mark.usefixtures("spark")
@pytest.mark.timeout(300)
def test_its_tables_go_on_are_checked_and_belong_to_that_feed(
    cluster: motet.Database, tmp_path: Path
) -> None:
    from motet.pipeline.check import check_pipeline
    from motet.pipeline.run import run_pipeline

    shop = Shop(cluster, tmp_path)
    with motet.open(tmp_path / "tables") as tables:
        for first in (0, 20):
            sell(cluster, first, first + 20)
            assert shop.run(tables, changes_max=1000) == 1
        assert shop.run(tables, changes_max=1000) == 0
        checks = check_pipeline(tables, shop.pipeline, feed=cluster)
        assert all(one.difference.is_none for one in checks)
        (status,) = pipeline_status(tables, "shop", cluster)
        assert (status.lag_ms, status.changes_after) == (0, 0)
        assert pipeline_status(tables, "shop")[0].lag_ms is None
        tables.create_stream("orders")
        tables.create_stream("stock")
        with pytest.raises(BadPipeline, match="reflect the feed of database"):
            run_pipeline(tables, shop.pipeline, once=True, checkpoint=tmp_path / "other")
