"""What a local session promises to those who use it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from motet.pipeline.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_running_session_is_returned_as_it_is(spark: SparkSession) -> None:
    before = spark.conf.getAll
    with ThreadPoolExecutor(1) as pool:
        elsewhere = pool.submit(local_session).result()
    again = local_session(
        "another", master="local[1]", config={"spark.sql.session.timeZone": "CET"}
    )
    assert again is spark
    assert elsewhere is spark
    assert spark.conf.getAll == before


def test_rows_go_through_python_workers_as_arrow(spark: SparkSession) -> None:
    import pyarrow as pa

    def doubled(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            yield pa.record_batch({"id": pa.array([2 * i for i in batch["id"].to_pylist()])})

    table = spark.range(100).mapInArrow(doubled, "id long").toArrow()
    assert sorted(table["id"].to_pylist()) == list(range(0, 200, 2))


def test_timestamps_are_in_utc_whatever_the_machine_says(spark: SparkSession) -> None:
    (row,) = spark.sql("select cast(timestamp '1970-01-02 00:00:00' as long) seconds").collect()
    assert row.seconds == dt.timedelta(days=1).total_seconds()


def test_a_shuffle_is_as_small_as_the_machine(spark: SparkSession) -> None:
    partitions = spark.range(10).groupBy("id").count().rdd.getNumPartitions()
    assert partitions <= int(spark.conf.get("spark.sql.shuffle.partitions") or 0) < 200


def test_the_source_is_found_without_being_registered(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="motet") as refused:
        spark.read.format("motet").load()
    assert "DATA_SOURCE_NOT_FOUND" not in str(refused.value)
    with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
        spark.read.format("motte").load()
