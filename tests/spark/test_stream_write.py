"""Streaming queries that write to a table: batch by batch with a token, and not with a sink yet."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.spark.test_stream import QUERY_SECONDS

import motet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema([("i", pa.int64())])


def change(db: motet.Database, number: int) -> None:
    with db.transaction() as txn:
        txn.change("orders", key=f"o-{number}", op="insert", row={"i": number})


def test_a_token_with_the_id_of_the_query_writes_each_batch_of_it_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    def write(batch: DataFrame, number: int) -> None:
        query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        token = f"{query_id}-{number}"
        frame = batch.select("row.i").write.format("motet").option("endpoint", db.endpoint)
        frame.options(table="sales", token=token).mode("append").save()

    def run() -> list[int]:
        reader = spark.readStream.format("motet").option("endpoint", db.endpoint)
        query = reader.option("streams", "orders").load().writeStream.foreachBatch(write)
        started = (
            query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        )
        assert started.awaitTermination(QUERY_SECONDS)
        return sorted(db.table("sales").select().column("i").to_pylist())

    checkpoint = tmp_path / "checkpoint"
    with motet.open(tmp_path / "data") as db:
        db.create_stream("orders", schema=SCHEMA, shards=1)
        db.create_table("sales", SCHEMA, order_by=["i"])
        change(db, 0)
        assert run() == [0]
        for name in ("0", ".0.crc"):  # as after a kill between the write and Spark's note of it
            (checkpoint / "commits" / name).unlink()
        change(db, 1)
        assert run() == [0, 1]
        shutil.rmtree(checkpoint)
        change(db, 2)
        assert run() == [0, 0, 1, 1, 2], (
            "another query reads all of it once more, and loses nothing"
        )


@pytest.mark.parametrize("is_in_session", [False, True], ids=["option", "setting"])
def test_a_sink_is_refused_with_what_to_use(
    spark: SparkSession, tmp_path: Path, is_in_session: bool
) -> None:
    from pyspark.errors import PySparkException

    setting = "spark.sql.streaming.checkpointLocation"
    with motet.open(tmp_path / "data") as db:
        db.create_table("sales", SCHEMA, order_by=["i"])
        rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", "1").load()
        writer = (
            rate.writeStream.format("motet")
            .option("endpoint", db.endpoint)
            .option("table", "sales")
        )
        if is_in_session:
            spark.conf.set(setting, str(tmp_path / "checkpoint"))
        else:
            writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        try:
            with pytest.raises(PySparkException) as caught:
                writer.start().awaitTermination(QUERY_SECONDS)
        finally:
            spark.conf.unset(setting)
    said = str(caught.value)
    assert "writeStream.format('motet') is not implemented" in said
    for word in ("foreachBatch", "token", "sql.streaming.queryId"):
        assert word in said
