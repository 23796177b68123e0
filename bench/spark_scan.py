"""Reading a table with Spark: through the data source, against Spark's own Parquet reader on the same files.

A table of five columns lies in a few parts. Both sides are asked the same question in the same session:

all    a hash aggregate that needs every value of all five columns
one    the sum of one column of the five; ours is told so by the option ``columns``

Each round loads anew, as a user would: the time holds the schema, the plan and the scan, on both sides.
Rounds alternate after a few to warm up, and a ratio is the median over neighbouring rounds. Both answers
must be the same.

    python bench/spark_scan.py [--quick] [--json] [--rows N] [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import motet
from motet.client.part_store import open_parts
from motet.pipeline.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REQUIRED = {"all": 0.9, "one": 0.4}
PARTS = 8
ARTICLES = 10_000
TABLE = "sales"
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("sku", pa.string()),
        ("qty", pa.int32()),
        ("price", pa.float64()),
        ("at", pa.timestamp("us", tz="UTC")),
    ]
)
ALL_COLUMNS = (
    "sum(id)",
    "sum(length(sku))",
    "sum(qty)",
    "sum(price)",
    "max(at)",
)
ONE_COLUMN = "price"


def block(first: int, rows: int) -> pa.Table:
    """Sales as they happen: the articles in no order, their numbers and times growing."""
    random = np.random.default_rng(first)
    ids = np.arange(first, first + rows, dtype=np.int64)
    articles = random.integers(0, ARTICLES, rows)
    columns = [
        pa.array(ids),
        pa.array(np.char.add("article-", articles.astype("U5"))),
        pa.array(random.integers(1, 100, rows, dtype=np.int32)),
        pa.array(random.integers(1, 10_000_000, rows) / 4),
        pa.array(ids * 1_000 + random.integers(0, 1_000, rows)).cast(SCHEMA.field("at").type),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def fill(db: motet.Database, rows: int) -> list[str]:
    """Makes the table; the files of its parts."""
    table = db.create_table(TABLE, SCHEMA, order_by=["sku", "at"])
    for part in range(PARTS):
        table.insert(block(part * (rows // PARTS), rows // PARTS))
    store = open_parts(db.parts_locator())
    return [str(store.source(key, size)) for key, size in db.snapshot(TABLE)[TABLE].files()]


class Readers:
    """The two ways to read, each with the two questions."""

    def __init__(self, spark: SparkSession, endpoint: str, files: list[str]) -> None:
        self._spark = spark
        self._endpoint = endpoint
        self._files = files

    def ask(self, question: str, *, is_ours: bool) -> Any:
        """The answer, read anew."""
        rows = self._ours(question) if is_ours else self._spark.read.parquet(*self._files)
        if question == "one":
            return rows.selectExpr(f"sum({ONE_COLUMN})").first()
        return rows.selectExpr(*ALL_COLUMNS).first()

    def _ours(self, question: str) -> DataFrame:
        reader = self._spark.read.format("motet").option("endpoint", self._endpoint)
        reader = reader.option("table", TABLE)
        return (reader.option("columns", ONE_COLUMN) if question == "one" else reader).load()


def timed(ask: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    answer = ask()
    return time.perf_counter() - began, answer


def measure(readers: Readers, question: str, warm_up: int, rounds: int) -> dict[str, Any]:
    """Seconds of both, and how quick ours is against Spark's own."""
    own_seconds, seconds = [], []
    for number in range(warm_up + rounds):
        own, expected = timed(lambda: readers.ask(question, is_ours=False))
        ours, answer = timed(lambda: readers.ask(question, is_ours=True))
        assert answer == expected, f"{answer} is not what Spark reads: {expected}"
        if number >= warm_up:
            own_seconds.append(own)
            seconds.append(ours)
    ratios = [own / ours for own, ours in zip(own_seconds, seconds, strict=True)]
    return {
        "columns": question,
        "own_seconds": round(statistics.median(own_seconds), 3),
        "motet_seconds": round(statistics.median(seconds), 3),
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "required": REQUIRED[question],
        "ok": statistics.median(ratios) >= REQUIRED[question],
    }


def run(rows: int, warm_up: int, rounds: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="motet-bench-") as folder:
        spark = local_session("motet bench", config={"spark.driver.memory": "2g"})
        try:
            with motet.open(Path(folder) / "data") as db:
                readers = Readers(spark, db.endpoint, fill(db, rows))
                return [measure(readers, question, warm_up, rounds) for question in REQUIRED]
        finally:
            spark.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer rows, which says less")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    rows = options.rows or (1_000_000 if options.quick else 4_000_000)
    figures = run(rows, 3, options.rounds or (3 if options.quick else 7))
    is_ok = all(figure["ok"] for figure in figures)
    if options.json:
        print(json.dumps({"bench": "spark_scan", "rows": rows, "scans": figures, "ok": is_ok}))
        return 0 if is_ok else 1
    print(f"scan of {rows:,} rows of five columns in {PARTS} parts, Spark's own reader and ours")
    print(f"{'columns':>9}{'own s':>9}{'motet s':>9}{'ratio':>8}{'required':>10}")
    row = "{columns:>9}{own_seconds:>9}{motet_seconds:>9}{ratio:>8}{required:>10}"
    for figure in figures:
        print(row.format(**figure))
    return 0 if is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
