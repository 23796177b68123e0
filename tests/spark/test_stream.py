"""Following a feed with Structured Streaming: whole transactions, each once, over restarts."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.two_streams import STREAMS, places_of, two_streams, write

import motet
from motet.core.clock.hlc import Clock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

QUERY_SECONDS = 120


@pytest.fixture
def db(tmp_path: Path) -> Iterator[motet.Database]:
    with two_streams(tmp_path / "data") as database:
        yield database


class Batches:
    """What a query has handed over, batch by batch; a batch that is handed over again takes its place."""

    def __init__(self) -> None:
        self.rows: dict[int, list[Any]] = {}

    def take(self, frame: DataFrame, batch: int) -> None:
        self.rows[batch] = frame.select("clock", "transaction", "index", "count").collect()

    def places(self) -> list[tuple[Clock, str, int]]:
        return [
            (Clock(*row["clock"]), row["transaction"], row["index"])
            for batch in sorted(self.rows)
            for row in self.rows[batch]
        ]

    def check_whole_transactions(self) -> None:
        for rows in self.rows.values():
            found = Counter(row["transaction"] for row in rows)
            assert found == {row["transaction"]: row["count"] for row in rows}


def start(
    spark: SparkSession, db: motet.Database, batches: Batches, checkpoint: Path, **options: str
) -> StreamingQuery:
    reader = spark.readStream.format("motet").option("endpoint", db.endpoint)
    frame = reader.option("streams", STREAMS).options(**options).load()
    writer = frame.writeStream.option("checkpointLocation", str(checkpoint))
    return writer.trigger(availableNow=True).foreachBatch(batches.take).start()


def run(
    spark: SparkSession, db: motet.Database, batches: Batches, checkpoint: Path, **o: str
) -> None:
    query = start(spark, db, batches, checkpoint, **o)
    assert query.awaitTermination(QUERY_SECONDS)


def test_available_now_reads_all_in_bounded_batches_and_goes_on_after_a_restart(
    spark: SparkSession, db: motet.Database, tmp_path: Path
) -> None:
    batches, checkpoint = Batches(), tmp_path / "checkpoint"
    write(db, 0, 9)
    run(spark, db, batches, checkpoint, maxChangesPerBatch="7")
    assert batches.places() == places_of(db)
    assert all(0 < len(rows) <= 7 for rows in batches.rows.values())
    batches.check_whole_transactions()
    done = len(batches.rows)
    run(spark, db, batches, checkpoint, maxChangesPerBatch="7")
    assert len(batches.rows) == done, "nothing new, nothing done"
    write(db, 9, 12)
    run(spark, db, batches, checkpoint)
    assert batches.places() == places_of(db)
    assert len(batches.rows) == done + 1


def test_a_batch_without_its_commit_is_handed_over_again_the_same(
    spark: SparkSession, db: motet.Database, tmp_path: Path
) -> None:
    batches, checkpoint = Batches(), tmp_path / "checkpoint"
    write(db, 0, 10)
    run(spark, db, batches, checkpoint, maxChangesPerBatch="10")
    before = dict(batches.rows)
    last = max(before)
    write(db, 10, 12)
    for name in (f"{last}", f".{last}.crc"):
        (checkpoint / "commits" / name).unlink()
    run(spark, db, batches, checkpoint, maxChangesPerBatch="10")
    assert {number: batches.rows[number] for number in before} == before
    assert batches.places() == places_of(db)


def test_no_transaction_is_split_under_concurrent_writes(
    spark: SparkSession, db: motet.Database, tmp_path: Path
) -> None:
    batches = Batches()
    enough = threading.Event()

    def take(frame: DataFrame, batch: int) -> None:
        batches.take(frame, batch)
        if len(batches.rows) >= 8:
            enough.set()

    def keep_writing(writer: int) -> None:
        i = 0
        while not enough.is_set():
            write(db, writer + i, writer + i + 1)
            i += 1

    reader = spark.readStream.format("motet").option("endpoint", db.endpoint)
    frame = reader.option("streams", STREAMS).option("maxChangesPerBatch", "50").load()
    writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    threads = [threading.Thread(target=keep_writing, args=(n * 1_000_000,)) for n in range(3)]
    for thread in threads:
        thread.start()
    try:
        query = writer.foreachBatch(take).start()
        assert enough.wait(QUERY_SECONDS), query.exception()
    finally:
        enough.set()
        for thread in threads:
            thread.join()
    query.stop()
    batches.check_whole_transactions()
    found = batches.places()
    assert found == sorted(set(found))
    changes = db.changes("orders", "stock", up_to=found[-1][0], limit=10_000).changes
    assert found == [(change.clock, change.transaction, change.index) for change in changes]


def test_the_checkpoint_of_another_database_is_refused(
    spark: SparkSession, db: motet.Database, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    checkpoint = tmp_path / "checkpoint"
    write(db, 0, 3)
    run(spark, db, Batches(), checkpoint)
    with motet.open(tmp_path / "another") as another:
        another.create_stream("orders")
        another.create_stream("stock")
        batches = Batches()
        query = start(spark, another, batches, checkpoint)
        with pytest.raises(StreamingQueryException) as caught:
            query.awaitTermination(QUERY_SECONDS)
        assert "BAD_CHECKPOINT the checkpoint is of database" in str(caught.value)
        assert "use the checkpoint of this database, or a new folder" in str(caught.value)
        assert batches.rows == {}


def test_the_checkpoint_of_other_streams_is_refused(
    spark: SparkSession, db: motet.Database, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    checkpoint = tmp_path / "checkpoint"
    write(db, 0, 3)
    run(spark, db, Batches(), checkpoint, streams="orders")
    write(db, 3, 5)
    batches = Batches()
    query = start(spark, db, batches, checkpoint)
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(QUERY_SECONDS)
    assert "BAD_CHECKPOINT the checkpoint was made for the streams orders" in str(caught.value)
    assert batches.rows == {}
    run(spark, db, batches, checkpoint, streams="orders")
    assert sum(map(len, batches.rows.values())) == 2, "for its own streams it is as good as before"


def test_offsets_in_the_checkpoint_are_clocks(
    spark: SparkSession, db: motet.Database, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    write(db, 0, 5)
    run(spark, db, Batches(), checkpoint)
    offset = json.loads((checkpoint / "offsets" / "0").read_text().splitlines()[-1])
    last = places_of(db)[-1][0]
    assert offset == {
        "database": f"{db.database_id:016x}",
        "logical": last.logical,
        "counter": last.counter,
        "streams": ["orders", "stock"],
    }


def test_a_query_begins_where_it_is_told_to(
    spark: SparkSession, db: motet.Database, tmp_path: Path
) -> None:
    write(db, 0, 5)
    behind = places_of(db)[-1][0]
    write(db, 5, 8)
    batches = Batches()
    run(spark, db, batches, tmp_path / "checkpoint", startingClock=str(behind))
    assert batches.places() == [place for place in places_of(db) if place[0] > behind]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"streams": "orders,nowhere"}, "NO_SUCH_STREAM there is no stream 'nowhere'"),
        ({"startingClock": "soon"}, "BAD_INPUT option startingClock: 'soon' is not a clock"),
        ({"maxChangesPerBatch": "few"}, "BAD_INPUT option maxChangesPerBatch"),
    ],
)
def test_bad_input_is_told_when_the_stream_is_loaded(
    spark: SparkSession, db: motet.Database, options: dict[str, str], text: str
) -> None:
    from pyspark.errors import PySparkException

    reader = spark.readStream.format("motet").option("endpoint", db.endpoint)
    with pytest.raises(PySparkException) as caught:
        reader.options(**{"streams": "orders", **options}).load()
    assert text in str(caught.value)
