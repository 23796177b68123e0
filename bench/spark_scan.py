"""Reading a table with Spark: through the data source, against Spark's own Parquet reader on the same files.

A table of five columns lies in a few parts. All are asked the same question in the same session:

all    a hash aggregate that needs every value of all five columns
one    the sum of one column of the five; ours is told so by the option ``columns``

own    Spark's reader of Parquet
motet  the data source
direct ``read_table``, which has Spark read the files of the snapshot: no source in between
bare   a source in Python that decodes the files and hands them on, and does nothing else: no source in
       Python is much quicker than this one, so its ratio is the bound of ours

Each round loads anew, as a user would: the time holds the schema, the plan and the scan, on all sides.
Rounds alternate after a few to warm up, and a ratio is the median over neighbouring rounds. All answers
must be the same.

Two sizes, because a query costs something before its first row, and of that we need less than Spark: four
million rows, where both show, and twenty million, where a query is nearly nothing but rows. What is asked of
a scan is asked at both. A table with next to no rows is read as well, and from the three come the
seconds that a query takes at least and what a row adds to them.

    python bench/spark_scan.py [--quick] [--json] [--rows N[,N]] [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from motet.client.parts import open_parts

import motet
from motet.pipeline.session import local_session, read_table
from peers.bare_source import bare_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REQUIRED = {"all": 0.9, "one": 0.4}
READERS = ("own", "motet", "direct", "bare")
PARTS = 8
ROWS_NEXT_TO_NONE = PARTS
ARTICLES = 10_000
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


def fill(db: motet.Database, name: str, rows: int) -> list[str]:
    """Makes a table; the files of its parts."""
    table = db.create_table(name, SCHEMA, order_by=["sku", "at"])
    for part in range(PARTS):
        table.insert(block(part * (rows // PARTS), rows // PARTS))
    store = open_parts(db.parts_locator())
    return [str(store.source(key, size)) for key, size in db.snapshot(name)[name].files()]


class Readers:
    """The ways to read one table, each with the two questions."""

    def __init__(self, spark: SparkSession, db: motet.Database, rows: int) -> None:
        self._spark = spark
        self._endpoint = db.endpoint
        self._table = f"sales_{rows}"
        self._files = fill(db, self._table, rows)

    def ask(self, question: str, reader: str) -> Any:
        """The answer, read anew."""
        rows: DataFrame = getattr(self, f"_{reader}")(question)
        asked = (f"sum({ONE_COLUMN})",) if question == "one" else ALL_COLUMNS
        return rows.selectExpr(*asked).first()

    def _own(self, question: str) -> DataFrame:  # noqa: ARG002 - it sees by itself what is needed
        return self._spark.read.parquet(*self._files)

    def _motet(self, question: str) -> DataFrame:
        reader = self._spark.read.format("motet").option("endpoint", self._endpoint)
        reader = reader.option("table", self._table)
        return (reader.option("columns", ONE_COLUMN) if question == "one" else reader).load()

    def _direct(self, question: str) -> DataFrame:  # noqa: ARG002 - it sees by itself what is needed
        return read_table(self._spark, self._table, endpoint=self._endpoint)

    def _bare(self, question: str) -> DataFrame:
        tasks = self._spark.sparkContext.defaultParallelism
        reader = self._spark.read.format("bare").option("files", json.dumps(self._files))
        reader = reader.option("tasks", str(tasks))
        return (reader.schema(f"{ONE_COLUMN} double") if question == "one" else reader).load()


def timed(ask: Callable[[str, str], Any], question: str, reader: str) -> tuple[float, Any]:
    began = time.perf_counter()
    answer = ask(question, reader)
    return time.perf_counter() - began, answer


def measure(readers: Readers, question: str, warm_up: int, rounds: int) -> dict[str, Any]:
    """Seconds of each, and how quick ours and the bare one are against Spark's own."""
    seconds: dict[str, list[float]] = {reader: [] for reader in READERS}
    for number in range(warm_up + rounds):
        answers = []
        for reader in READERS:
            took, answer = timed(readers.ask, question, reader)
            answers.append(answer)
            if number >= warm_up:
                seconds[reader].append(took)
        assert answers.count(answers[0]) == len(READERS), f"they read different things: {answers}"
    ratios = _ratios(seconds["own"], seconds["motet"])
    return {
        "columns": question,
        **{f"{reader}_seconds": round(statistics.median(seconds[reader]), 3) for reader in READERS},
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "direct": round(statistics.median(_ratios(seconds["own"], seconds["direct"])), 3),
        "bound": round(statistics.median(_ratios(seconds["own"], seconds["bare"])), 3),
    }


def _ratios(own: list[float], other: list[float]) -> list[float]:
    return [mine / theirs for mine, theirs in zip(own, other, strict=True)]


def judged(figure: dict[str, Any], rows: int) -> dict[str, Any]:
    required = REQUIRED[figure["columns"]] if rows > ROWS_NEXT_TO_NONE else None
    is_ok = required is None or figure["ratio"] >= required
    return {"rows": rows, **figure, "required": required, "ok": is_ok}


def run(sizes: Sequence[int], warm_up: int, rounds: int) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="motet-bench-") as folder:
        spark = local_session("motet bench", config={"spark.driver.memory": "2g"})
        try:
            spark.dataSource.register(bare_source())
            with motet.open(Path(folder) / "data") as db:
                return [
                    judged(measure(readers, question, warm_up, rounds), rows)
                    # The large ones first: what Java compiles for them it compiles for rows.
                    for rows in (*sizes, ROWS_NEXT_TO_NONE)
                    for readers in (Readers(spark, db, rows),)
                    for question in REQUIRED
                ]
        finally:
            spark.stop()


def costs(figures: list[dict[str, Any]], question: str) -> dict[str, dict[str, float]]:
    """Of each reader the seconds of a query without rows, and the microseconds that a row adds."""
    asked = [figure for figure in figures if figure["columns"] == question]
    small = min(asked, key=lambda figure: figure["rows"])
    large = max(asked, key=lambda figure: figure["rows"])
    rows = large["rows"] - small["rows"]
    return {
        reader: {
            "query_seconds": small[f"{reader}_seconds"],
            "row_us": round(
                1e6 * (large[f"{reader}_seconds"] - small[f"{reader}_seconds"]) / rows, 3
            ),
        }
        for reader in READERS
    }


def show(figures: list[dict[str, Any]]) -> None:
    print(
        f"scan of five columns in {PARTS} parts or more, Spark's own reader and sources in Python"
    )
    print(
        f"{'rows':>11}{'columns':>9}{'own s':>9}{'motet s':>9}{'direct s':>9}{'bare s':>9}", end=""
    )
    print(f"{'ratio':>8}{'direct':>8}{'bound':>8}{'required':>10}")
    row = "{rows:>11,}{columns:>9}{own_seconds:>9}{motet_seconds:>9}{direct_seconds:>9}{bare_seconds:>9}"
    row += "{ratio:>8}{direct:>8}{bound:>8}"
    for figure in figures:
        print(row.format(**figure) + f"{figure['required'] or '':>10}")
    for question in REQUIRED:
        found = costs(figures, question)
        texts = [f"{r} {c['query_seconds']} s + {c['row_us']} us a row" for r, c in found.items()]
        print(f"{question}: {'; '.join(texts)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer rows, which says less")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument("--rows", help="sizes of the table, separated by a comma")
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    sizes = [int(text) for text in (options.rows or "").split(",") if text]
    sizes = sizes or ([1_000_000] if options.quick else [4_000_000, 20_000_000])
    figures = run(sizes, 3, options.rounds or (3 if options.quick else 5))
    is_ok = all(figure["ok"] for figure in figures)
    if options.json:
        by_question = {question: costs(figures, question) for question in REQUIRED}
        answer = {"bench": "spark_scan", "scans": figures, "costs": by_question, "ok": is_ok}
        print(json.dumps(answer))
    else:
        show(figures)
    return 0 if is_ok else 1


if __name__ == "__main__":
    sys.exit(main())
