"""Writing a table with Spark: through the data source, against sorted and compressed Parquet of Spark's own.

Both write the same rows of five columns, which wait in memory, from the same tasks. Spark's own side sorts
within each task by the key of the table and writes zstd, since that is what a part is. Ours also syncs the
files and publishes them, and nothing of it is visible before; Spark's own leaves its files to the system's
caches.

Rounds alternate after a few to warm up, and the ratio is the median over neighbouring rounds. After each
round both are read again and compared.

    python bench/spark_write.py [--quick] [--json] [--rows N] [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import motet
from motet.pipeline.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RATIO_REQUIRED = 0.7
TASKS = 4
ORDER_BY = ["sku", "id"]
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("sku", pa.string()),
        ("qty", pa.int32()),
        ("price", pa.float64()),
        ("at", pa.timestamp("us", tz="UTC")),
    ]
)
#: sales in no order of their articles; the hash makes them the same whenever they are computed
COLUMNS = (
    "id",
    "concat('article-', pmod(xxhash64(id), 10000)) as sku",
    "cast(pmod(xxhash64(id, 1), 99) + 1 as int) as qty",
    "pmod(xxhash64(id, 2), 10000000) / 4 as price",
    "timestamp_micros(id * 1000 + pmod(xxhash64(id, 3), 1000)) as at",
)
#: the same for the same rows in any order
CONTENT = ("count(*)", "sum(cast(xxhash64(id, sku, qty, price, at) as decimal(38, 0)))")


def sales(spark: SparkSession, rows: int) -> DataFrame:
    """The rows to write, computed before anything is timed."""
    made = spark.range(0, rows, numPartitions=TASKS).selectExpr(*COLUMNS).cache()
    made.count()
    return made


def write_own(rows: DataFrame, folder: str) -> None:
    ordered = rows.sortWithinPartitions(*ORDER_BY)
    ordered.write.option("compression", "zstd").parquet(folder)


def write_ours(rows: DataFrame, endpoint: str, table: str) -> None:
    writer = rows.write.format("motet").option("endpoint", endpoint).option("table", table)
    writer.mode("append").save()


def one_round(
    spark: SparkSession, db: motet.Database, rows: DataFrame, folder: Path
) -> tuple[float, float]:
    """Seconds that Spark's own and ours take."""
    table = folder.name
    db.create_table(table, SCHEMA, order_by=ORDER_BY)
    began = time.perf_counter()
    write_own(rows, str(folder))
    between = time.perf_counter()
    write_ours(rows, db.endpoint, table)
    ended = time.perf_counter()
    own = spark.read.parquet(str(folder))
    ours = spark.read.format("motet").options(endpoint=db.endpoint, table=table).load()
    expected = rows.selectExpr(*CONTENT).first()
    assert own.selectExpr(*CONTENT).first() == expected, "Spark's files do not have the rows"
    assert ours.selectExpr(*CONTENT).first() == expected, "the table does not have the rows"
    return between - began, ended - between


def measure(rows: int, warm_up: int, rounds: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="motet-bench-") as name:
        spark = local_session("motet bench", config={"spark.driver.memory": "2g"})
        try:
            with motet.open(Path(name) / "data") as db:
                made = sales(spark, rows)
                numbers = range(warm_up + rounds)
                every = [one_round(spark, db, made, Path(name) / f"round_{n}") for n in numbers]
        finally:
            spark.stop()
    kept = every[warm_up:]
    ratios = [own / ours for own, ours in kept]
    return {
        "bench": "spark_write",
        "rows": rows,
        "own_seconds": round(statistics.median(own for own, _ in kept), 3),
        "motet_seconds": round(statistics.median(ours for _, ours in kept), 3),
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "required": RATIO_REQUIRED,
        "ok": statistics.median(ratios) >= RATIO_REQUIRED,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer rows, which says less")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    rows = options.rows or (500_000 if options.quick else 4_000_000)
    result = measure(rows, 2, options.rounds or (3 if options.quick else 5))
    if options.json:
        print(json.dumps(result))
    else:
        print(f"write of {rows:,} rows of five columns by {TASKS} tasks, sorted, zstd")
        print(f"  Spark's own Parquet  {result['own_seconds']:>7} s")
        print(f"  format('motet')      {result['motet_seconds']:>7} s")
        print(f"  ratio {result['ratio']} (rounds {result['ratios']}), required {RATIO_REQUIRED}")
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
