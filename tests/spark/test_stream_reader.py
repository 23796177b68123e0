"""Following a feed: the reader itself, without Spark's machinery around it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.two_streams import STREAMS, places_of, two_streams, write

import motet
from motet.core.clock.hlc import ZERO
from motet.errors import BadCheckpoint, BadInput
from motet.errors.shards import CursorExpired
from motet.pipeline.options import parse_options

if TYPE_CHECKING:
    from motet.pipeline.feed_reader import FeedStreamReader


@pytest.fixture
def db(tmp_path: Path) -> Iterator[motet.Database]:
    with two_streams(tmp_path / "data") as database:
        yield database


@pytest.fixture
def follow(db: motet.Database) -> Iterator[Any]:
    """Makes readers of the feed of orders and stock, and ends them."""
    from motet.pipeline.feed_reader import FeedStreamReader, load_feed

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

    from motet.pipeline.feed_reader import parse_offset

    reader = follow()
    begin = reader.initialOffset()
    assert parse_offset(begin).clock == ZERO
    assert reader.latestOffset(begin, ReadAllAvailable()) == begin
    assert reader.partitions(begin, begin) == []


def test_a_limit_is_kept_and_read_all_available_ignores_it(db: motet.Database, follow: Any) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    from motet.pipeline.feed_reader import parse_offset

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


def test_a_stream_that_was_pruned_does_not_empty_the_others(
    db: motet.Database, follow: Any
) -> None:
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    from motet.pipeline.feed_reader import FeedReader, load_feed

    write(db, 0, 4)
    places = places_of(db)
    pruned = places[-1][0]
    db.prune("stock", up_to=pruned)
    reader = follow()
    with pytest.raises(CursorExpired) as caught:
        reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    for said in ("orders is kept from its beginning", f"stock is kept after {pruned}", "'oldest'"):
        assert said in str(caught.value)
    write(db, 4, 6)
    asked = {"endpoint": db.endpoint, "streams": STREAMS}
    whole, oldest = parse_options(asked), parse_options({**asked, "after": "oldest"})
    with pytest.raises(CursorExpired):
        FeedReader(whole, load_feed(whole)[0]).partitions()
    batch = FeedReader(oldest, load_feed(oldest)[0])
    rows = [
        row for each in batch.partitions() for page in batch.read(each) for row in page.to_pylist()
    ]
    live = follow(startingClock="oldest")
    begin = live.initialOffset()
    end = live.latestOffset(begin, ReadAllAvailable())
    for each in live.partitions(begin, end):
        assert [row for page in live.read(each) for row in page.to_pylist()] == rows
    assert [row["stream"] for row in rows] == ["orders", "stock", "stock"] + ["orders"] + [
        "stock"
    ] * 3


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
    from motet.pipeline.feed_reader import parse_offset

    with pytest.raises(BadCheckpoint, match="not an offset of a feed"):
        parse_offset(offset)
