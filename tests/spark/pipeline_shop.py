"""A small shop for the tests of pipelines: its changes, its pipeline, and what the tables should be.

The tables are also made by a plain program that folds the feed change by change; it shares nothing with the
pipeline but the meaning of a row.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import motet
from motet.client.change import Change

STREAMS = ("orders", "stock")

PIPELINE = """\
from pyspark.sql import functions as f
from motet import pipeline

@pipeline.table(engine="replacing", order_by=["sku"], version="clock", tombstone="gone")
def stock_now(changes):
    stock = changes.stream("stock", schema="left int")
    sku = f.col("key").cast("string").alias("sku")
    return stock.select(sku, "row.left", "clock", (f.col("op") == "delete").alias("gone"))

@pipeline.table(engine="merge", order_by=["sku"])
def sales(changes):
    orders = changes.stream("orders", schema="sku string, qty int")
    return orders.select("row.sku", "row.qty", "transaction")

@pipeline.table(engine="merge", order_by=["sku"])
def sales_by_batch(changes):
    orders = changes.stream("orders", schema="sku string, qty int")
    return orders.groupBy("row.sku").agg(f.sum("row.qty").alias("qty"), f.count("*").alias("orders"))
"""


def open_shop(folder: Path) -> motet.Database:
    """A database with the streams of the shop, and one that is none of its business."""
    db = motet.open(folder)
    for name in (*STREAMS, "other"):
        db.create_stream(name, shards=2)
    return db


def sell(db: motet.Database, first: int, behind: int) -> None:
    """One transaction for each number: an order, and what it does to the stock; some are for nobody."""
    for i in range(first, behind):
        sku = f"s-{i % 7}"
        with db.transaction() as txn:
            txn.change("orders", key=f"o-{i}", op="insert", row={"sku": sku, "qty": 1 + i % 3})
            if i % 5 == 4:
                txn.change("stock", key=sku, op="delete", before={"left": i})
            else:
                txn.change("stock", key=sku, op="update", row={"left": 1000 - i})
        if i % 4 == 0:
            db.stream("other").append(key="x", value=b"not JSON at all")


def feed(db: motet.Database) -> list[Change]:
    """All changes of the shop, in order."""
    db.visible_clock(*STREAMS, wait=True)
    changes: list[Change] = []
    page = db.changes(*STREAMS)
    changes += page.changes
    while page.more:
        page = db.changes(*STREAMS, after=page.cursor)
        changes += page.changes
    return changes


def folded(db: motet.Database) -> dict[str, Any]:
    """The tables of the shop as a plain program makes them of the feed."""
    stock: dict[str, int] = {}
    sales: Counter[tuple[str, int, str]] = Counter()
    totals: Counter[str] = Counter()
    for change in feed(db):
        if change.stream == "orders":
            row = change.row
            assert isinstance(row, dict)
            sales[row["sku"], row["qty"], str(change.transaction)] += 1
            totals[row["sku"]] += row["qty"]
        elif change.op == "delete":
            stock.pop(change.key.decode(), None)
        else:
            row = change.row
            assert isinstance(row, dict)
            stock[change.key.decode()] = row["left"]
    return {"stock_now": stock, "sales": sales, "totals": totals}


def published(db: motet.Database) -> dict[str, Any]:
    """The same, as the tables say it."""
    totals: Counter[str] = Counter()
    for row in rows(db, "sales_by_batch"):
        totals[row["sku"]] += row["qty"]
    return {
        "stock_now": {row["sku"]: row["left"] for row in rows(db, "stock_now")},
        "sales": Counter(tuple(row.values()) for row in rows(db, "sales")),
        "totals": totals,
    }


def rows(db: motet.Database, table: str) -> list[dict[str, Any]]:
    """The rows of a table."""
    found: list[dict[str, Any]] = db.table(table).select().to_pylist()
    return found
