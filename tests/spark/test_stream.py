"""Following a feed with Structured Streaming: whole transactions, each once, over restarts."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import motet
from motet.core.clock.hlc import ZERO, Clock
from motet.errors import BadCheckpoint, BadInput
from motet.pipeline.options import parse_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from motet.pipeline.feed_stream import FeedStreamReader

STREAMS = "orders,stock"
QUERY_SECONDS = 120


@pytest.fixture
def db(tmp_path: Path) -> Iterator[motet.Database]:
    with motet.open(tmp_path / "data") as database:
        database.create_stream("orders", shards=2)
        database.create_stream("stock", shards=2)
        database.create_stream("other", shards=1)
        yield database


def write(db: motet.Database, first: int, behind: int) -> None:
    """Transactions of two to four changes."""
    for i in range(first, behind):
        with db.transaction() as txn:
            txn.change("orders", key=f"o-{i}", op="insert", row={"i": i})
            for j in range(1 + i % 3):
                txn.change("stock", key=f"s-{i}-{j}", op="insert", row={"i": i})


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


def places_of(db: motet.Database) -> list[tuple[Clock, str, int]]:
    changes = db.changes("orders", "stock", limit=10_000).changes
    return [(change.raw.clock, change.transaction, change.index) for change in changes]


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


# The reader itself, without Spark's machinery around it


@pytest.fixture
def follow(db: motet.Database) -> Iterator[Any]:
    """Makes readers of the feed of orders and stock, and ends them."""
    from motet.pipeline.feed_reader import load_feed
    from motet.pipeline.feed_stream import FeedStreamReader

    opened: list[FeedStreamReader] = []

    def make(**options: str) -> FeedStreamReader:
        asked = parse_options({"endpoint": db.endpoint, "streams": STREAMS, **options})
        opened.append(FeedStreamReader(asked, load_feed(asked)[0]))
        return opened[-1]

    yield make
    for reader in opened:
        reader.stop()


def test_the_beginning_is_an_offset_too(db: motet.Database, follow: Any) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from motet.pipeline.feed_stream import parse_offset

    reader = follow()
    begin = reader.initialOffset()
    assert parse_offset(begin).clock == ZERO
    assert reader.latestOffset(begin, ReadAllAvailable()) == begin
    assert reader.partitions(begin, begin) == []


def test_a_limit_is_kept_and_read_all_available_ignores_it(db: motet.Database, follow: Any) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    from motet.pipeline.feed_stream import parse_offset

    write(db, 0, 10)
    reader = follow(maxChangesPerBatch="6")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(6)
    begin = reader.initialOffset()
    places = places_of(db)
    offset, taken = begin, 0
    while (end := reader.latestOffset(offset, limit)) != offset:
        low, high = parse_offset(offset).clock, parse_offset(end).clock
        assert low < high
        slice_of = [place for place in places if low < place[0] <= high]
        assert 0 < len(slice_of) <= 6
        offset, taken = end, taken + len(slice_of)
    assert taken == len(places)
    assert reader.latestOffset(begin, ReadAllAvailable()) == offset
    one = parse_offset(reader.latestOffset(begin, ReadMaxRows(1))).clock
    assert [place[0] for place in places][:2] == [one, one], "a transaction is taken whole"


def test_available_now_ends_at_what_was_visible_at_the_start(
    db: motet.Database, follow: Any
) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    write(db, 0, 3)
    reader = follow()
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    write(db, 3, 6)
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    later = follow()
    beyond = later.latestOffset(end, ReadAllAvailable())
    assert beyond != end
    assert reader.latestOffset(beyond, ReadAllAvailable()) == beyond, "an offset never goes back"


def test_an_offset_of_an_older_copy_of_the_database_is_refused(
    db: motet.Database, follow: Any
) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    write(db, 0, 1)
    reader = follow()
    ahead = {**reader.initialOffset(), "logical": (1 << 42) - 1}
    with pytest.raises(BadCheckpoint, match="only come to"):
        reader.latestOffset(ahead, ReadAllAvailable())


def test_an_offset_of_other_streams_is_refused(db: motet.Database, follow: Any) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    write(db, 0, 2)
    begin = follow(streams="orders").initialOffset()
    done = follow(streams="orders").latestOffset(begin, ReadAllAvailable())
    same = follow(streams="orders")
    assert same.latestOffset(done, ReadAllAvailable()) == done
    for streams in ("orders,stock", "stock", "orders,other"):
        other = follow(streams=streams)
        for use, limit in ((other.latestOffset, ReadAllAvailable()), (other.partitions, done)):
            with pytest.raises(BadCheckpoint) as caught:
                use(done, limit)
            assert "made for the streams orders, and this query reads " in str(caught.value)
            assert "new checkpoint folder" in str(caught.value)
    both = follow(streams="stock,orders")
    assert follow().latestOffset(both.initialOffset(), ReadAllAvailable()), "the order is no matter"


def test_an_offset_without_streams_is_taken_and_named_when_it_moves(
    db: motet.Database, follow: Any
) -> None:
    """Checkpoints of older versions go on, and Spark sees no news where there are none."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    write(db, 0, 1)
    reader = follow()
    named = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    old = {name: value for name, value in named.items() if name != "streams"}
    assert reader.latestOffset(old, ReadAllAvailable()) == old
    assert reader.partitions(old, old) == []
    write(db, 1, 2)
    assert reader.latestOffset(old, ReadAllAvailable())["streams"] == ["orders", "stock"]


def test_a_start_in_the_future_is_refused(follow: Any) -> None:
    with pytest.raises(BadInput, match="option startingClock"):
        follow(startingClock="(4398046511103,0)").initialOffset()


@pytest.mark.parametrize(
    "offset",
    [
        None,
        {},
        {"version": 4},
        {"database": "00", "logical": "1", "counter": 0},
        {"database": "00", "logical": 1 << 60, "counter": 0},
        {"database": "00", "logical": 1, "counter": 0, "more": 1},
        {"database": "00", "logical": 1, "counter": 0, "streams": "orders"},
    ],
)
def test_what_is_no_offset_is_refused(offset: object) -> None:
    from motet.pipeline.feed_stream import parse_offset

    with pytest.raises(BadCheckpoint, match="not an offset of a feed"):
        parse_offset(offset)
