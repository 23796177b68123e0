"""From a transaction to a typed Spark stream to a table, and SQL over it, all in one process.

Run it with ``python examples/quickstart.py``. It needs ``pip install 'motet[all]'``, and no server.
"""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import motet
from motet.pipeline import local_session, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from motet.client.sync import Transaction

ORDER = pa.schema([("sku", pa.string()), ("quantity", pa.int32())])
STOCK = pa.schema([("sku", pa.string()), ("left", pa.int32())])
SALE = pa.schema(
    [("sku", pa.string()), ("quantity", pa.int32()), ("at", pa.timestamp("us", "UTC"))]
)


def main() -> None:
    """Everything, step by step."""
    with tempfile.TemporaryDirectory() as folder, motet.open(Path(folder, "data")) as db:
        write(db)
        read_feed(db)
        stream_into_table(db, Path(folder, "checkpoint"))
        ask(db)


def write(db: motet.Database) -> None:
    """Two streams, each with a schema, and a transaction over both: all of it happens, or nothing."""
    db.create_stream("stock", schema=STOCK)
    db.create_stream("orders", schema=ORDER)
    with db.transaction() as txn:
        txn.change("stock", key="kyrie", op="insert", row={"sku": "kyrie", "left": 9})

    def buy(txn: Transaction, number: int) -> None:
        stock = txn.get("stock", "kyrie")  # still the latest at the commit, or all of it runs again
        assert stock is not None
        left = stock.row["left"]
        txn.change("orders", key=f"o-{number}", op="insert", row={"sku": "kyrie", "quantity": 2})
        txn.change("stock", key="kyrie", op="update", row={"sku": "kyrie", "left": left - 2})

    for number in range(3):
        db.transact(partial(buy, number=number))
    print(f"committed up to {db.clock()}")


def read_feed(db: motet.Database) -> None:
    """The changes of both streams, in the order in which they happened, transactions whole."""
    for change in db.changes("orders", "stock"):
        print(f"  {change.clock} {change.stream:<6} {change.op:<6} {change.row}")


def stream_into_table(db: motet.Database, checkpoint: Path) -> None:
    """Spark follows the feed and writes a table, with a token for each batch: repeated, it is written once.

    Batches are counted from 0 for each checkpoint, so the token has the id of the query as well.
    """
    db.create_table("sales", SALE, order_by=["sku", "at"])
    spark = local_session("quickstart")
    register(spark, endpoint=db.endpoint)
    feed = spark.readStream.format("motet").option("streams", "orders").load()
    print("in Spark, a row of the feed has a", feed.schema["row"].dataType.simpleString())

    def publish(batch: DataFrame, number: int) -> None:
        sales = batch.select("row.sku", "row.quantity", "at")
        query_id = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        token = f"{query_id}-{number}"
        sales.write.format("motet").options(table="sales", token=token).mode("append").save()

    query = (
        feed.writeStream.foreachBatch(publish)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.read.format("motet").option("table", "sales").load().show(truncate=False)


def ask(db: motet.Database) -> None:
    """SQL without Spark, over the same table."""
    answer = db.sql(
        "select sku, count(*) as orders, sum(quantity) as pieces from sales group by sku"
    )
    for row in answer.to_pylist():
        print(f"{row['sku']}: {row['orders']} orders, {row['pieces']} pieces")


if __name__ == "__main__":
    main()
