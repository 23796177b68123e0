"""What a micro-batch of the feed costs in Spark, against Spark's own source of numbers.

A micro-batch has a price before the first row: offsets are asked for and written down, a plan is made,
tasks start. Here batches are small, and the sink throws everything away, so that this price is nearly all
there is. The feed source and Spark's ``rate-micro-batch`` run one after the other, twice, each with the same
rows in a batch and the same trigger; the first batches of a query do not count. Times are Spark's own
(``durationMs`` of a query's progress, ``triggerExecution`` for the whole batch). Nothing is required of the
ratio: it is here to be seen.

    python bench/feed_micro_batch.py [--quick] [--json] [--batches N]
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

import motet
from motet.pipeline.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS_PER_BATCH = 100
COLD_BATCHES = 5
ROUNDS = 2
STREAM = "orders"
WHOLE = "triggerExecution"
WAIT_SECONDS_MAX = 300.0

Durations = dict[str, int]


def fill(db: motet.Database, batches: int) -> None:
    """So many batches of transactions with one change each, and one to spare."""
    db.create_stream(STREAM)
    for number in range((batches + 1) * ROWS_PER_BATCH):
        with db.transaction() as txn:
            txn.change(STREAM, key=f"o-{number}", op="insert", row={"sku": "s-9", "qty": 2})


def feed(spark: SparkSession, endpoint: str) -> DataFrame:
    reader = spark.readStream.format("motet").option("endpoint", endpoint)
    return reader.options(streams=STREAM, maxChangesPerBatch=str(ROWS_PER_BATCH)).load()


def numbers(spark: SparkSession) -> DataFrame:
    reader = spark.readStream.format("rate-micro-batch")
    return reader.options(rowsPerBatch=str(ROWS_PER_BATCH), numPartitions="1").load()


def batch_durations(rows: DataFrame, checkpoint: Path, batches: int) -> list[Durations]:
    """What the batches of a query took, without the first ones."""
    writer = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(processingTime="0 seconds").start()
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    try:
        while len(found := full_batches(query)) < batches:
            if not query.isActive:
                raise RuntimeError(
                    f"the query ended after {len(found)} batches: {query.exception()}"
                )
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(found)} batches of {batches} in {WAIT_SECONDS_MAX} s")
            time.sleep(0.2)
    finally:
        query.stop()
    return found[COLD_BATCHES:batches]


def full_batches(query: Any) -> list[Durations]:
    progress = [json.loads(each.json) for each in query.recentProgress]
    return [each["durationMs"] for each in progress if each["numInputRows"]]


def medians(durations: list[Durations]) -> dict[str, float]:
    """The median of each step of a batch, in milliseconds."""
    return {
        step: statistics.median(each.get(step, 0) for each in durations) for step in durations[0]
    }


def measure(batches: int) -> dict[str, Any]:
    ours: list[Durations] = []
    own: list[Durations] = []
    with tempfile.TemporaryDirectory(prefix="motet-bench-") as name:
        settings = {"spark.sql.streaming.numRecentProgressUpdates": str(4 * batches)}
        spark = local_session("motet bench", config=settings)
        spark.sparkContext.setLogLevel("OFF")  # a query is stopped in the middle of a batch
        try:
            with motet.open(Path(name) / "data") as db:
                fill(db, batches)
                for number in range(ROUNDS):
                    places = [Path(name) / f"{kind}-{number}" for kind in ("own", "feed")]
                    own += batch_durations(numbers(spark), places[0], batches)
                    ours += batch_durations(feed(spark, db.endpoint), places[1], batches)
        finally:
            spark.stop()
    own_medians, our_medians = medians(own), medians(ours)
    return {
        "bench": "feed_micro_batch",
        "rows_per_batch": ROWS_PER_BATCH,
        "batches": len(ours),
        "rate_ms": own_medians[WHOLE],
        "feed_ms": our_medians[WHOLE],
        "overhead_ms": our_medians[WHOLE] - own_medians[WHOLE],
        "ratio": round(own_medians[WHOLE] / our_medians[WHOLE], 3),
        "rate_steps_ms": own_medians,
        "feed_steps_ms": our_medians,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer batches")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument("--batches", type=int, help="of each query, the first ones included")
    options = parser.parse_args()
    result = measure(max(options.batches or (15 if options.quick else 35), COLD_BATCHES + 1))
    if options.json:
        print(json.dumps(result))
        return 0
    print(f"micro-batches of {ROWS_PER_BATCH} rows to nowhere, median of {result['batches']}")
    print(f"{'ms':<20}{'rate-micro-batch':>18}{'motet feed':>12}")
    for step, feed_ms in sorted(result["feed_steps_ms"].items(), key=lambda item: -item[1]):
        print(f"{step:<20}{result['rate_steps_ms'].get(step, 0):>18.0f}{feed_ms:>12.0f}")
    print(f"a batch of the feed costs {result['overhead_ms']:.0f} ms more, ratio {result['ratio']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
