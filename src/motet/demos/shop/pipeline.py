"""The pipeline of the shop: what is left of each piece now, and what was sold in each minute.

Run it beside a database that has the streams ``orders`` and ``stock``::

    motet pipeline run pipeline.py --name shop --endpoint 127.0.0.1:7400
    motet pipeline check pipeline.py --name shop --endpoint 127.0.0.1:7400
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from motet import pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ORDER = "name string, sku string, quantity int, cents int"
STOCK = "sku string, left int"


@pipeline.table(engine="replacing", order_by=["sku"], version="clock")
def stock_now(changes: pipeline.Changes) -> DataFrame:
    """Of each piece the latest row: the one with the highest clock."""
    return changes.stream("stock", schema=STOCK).select("row.sku", "row.left", "clock")


@pipeline.table(engine="merge", order_by=["minute", "sku"])
def sales_by_minute(changes: pipeline.Changes) -> DataFrame:
    """Sums of each batch; a minute that two batches see has two rows, to be summed by whoever asks."""
    orders = changes.stream("orders", schema=ORDER)
    minute = f.date_trunc("minute", "at").alias("minute")
    return orders.groupBy(minute, f.col("row.sku").alias("sku")).agg(
        f.count("*").alias("orders"),
        f.sum("row.quantity").alias("quantity"),
        f.sum("row.cents").alias("cents"),
    )
