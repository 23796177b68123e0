"""The feed of some streams as a batch: all changes behind one clock and up to another.

The end is fixed when it is loaded, so all tasks read the same slice, and so does everything that is done with
the DataFrame. A slice is cut between transactions into splits, one per task; within a split the
changes come in the order of the feed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from motet.client.cursors import OLDEST
from motet.client.sync import Database, connect
from motet.columnar.feed import feed_schema, feed_table
from motet.core.clock.hlc import ZERO, Clock
from motet.core.onelog.messages import StreamInfo
from motet.errors import BadInput, NoSuchStream
from motet.limits import feed_splits_max, page_changes_max
from motet.pipeline.arrow_types import arrow_schema, check_asked, fitted, picked, spark_schema
from motet.pipeline.options import SourceOptions
from motet.pipeline.spark_worker import settle_in

split_changes = 50_000
"""About how many changes one task reads: half a second of work, so that a task is worth its start."""

FEED = "the feed"


class FeedSplitPartition(InputPartition):
    """What one task reads: behind one clock and up to another."""

    def __init__(self, after: Clock, up_to: Clock) -> None:
        super().__init__(None)
        self.after = after
        self.up_to = up_to


class FeedShape:
    """Which streams are read, and which columns of their feed; goes along to the tasks."""

    def __init__(self, options: SourceOptions, streams: tuple[StreamInfo, ...], asked: StructType):
        self.endpoint = options.endpoint
        self.streams = streams
        self.names = tuple(info.name for info in streams)
        check_asked(asked, spark_schema(feed_schema(streams)), options.columns, FEED)
        self.schema = arrow_schema(asked)

    def read(self, split: FeedSplitPartition) -> Iterator[pa.RecordBatch]:
        """The changes of a split, in the order of the feed."""
        settle_in()
        after: Clock | str = split.after
        with connect(self.endpoint) as db:
            has_more = split.after < split.up_to
            while has_more:
                page = db.changes(
                    *self.names, after=after, limit=page_changes_max, up_to=split.up_to
                )
                after, has_more = page.cursor, page.more
                if page.runs:
                    table = feed_table(page.runs, self.streams)
                    for batch in table.select(self.schema.names).to_batches():
                        yield fitted(batch, self.schema)


class FeedReader(DataSourceReader):
    """Reads a feed between two clocks."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        names = options.stream_names("read a feed")
        with connect(options.endpoint) as db:
            self._shape = FeedShape(options, find_streams(db, names), schema)
            self._after = feed_begin(db, names, options.after)
            self._up_to = feed_end(db, options)

    def partitions(self) -> list[FeedSplitPartition]:
        with connect(self._shape.endpoint) as db:
            found = splits(db, self._shape.names, self._after, self._up_to)
        return found or [FeedSplitPartition(self._after, self._after)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, FeedSplitPartition)
        return self._shape.read(partition)


def load_feed(options: SourceOptions) -> tuple[StructType, Clock]:
    """The columns of a feed as Spark sees them, and where a batch that is loaded now ends."""
    with connect(options.endpoint) as db:
        streams = find_streams(db, options.streams)
        end = feed_end(db, options)
    return picked(spark_schema(feed_schema(streams)), options.columns, FEED), end


def feed_begin(db: Database, names: Sequence[str], after: Clock | str | None) -> Clock:
    """Where a read begins: behind a clock, where all streams have their feed, or at the beginning."""
    if after == OLDEST:
        return db.oldest(*names)
    return after if isinstance(after, Clock) else ZERO


def feed_end(db: Database, options: SourceOptions) -> Clock:
    """The last clock to read: the one that was asked for, or the latest."""
    # Whoever has just committed something finds it in what is read now.
    visible = db.visible_clock(*options.streams, wait=True)
    up_to = visible if options.up_to is None else options.up_to
    if up_to > visible:
        raise BadInput(
            f"option up_to: {up_to} is above the visible clock {visible}",
            hint="read again when that clock is visible, or without up_to",
        )
    if isinstance(options.after, Clock) and options.after > up_to:
        raise BadInput(f"option after: {options.after} is above {up_to}, where the read ends")
    return up_to


def find_streams(db: Database, names: Sequence[str]) -> tuple[StreamInfo, ...]:
    """What is known of these streams; ``NoSuchStream`` names the first that is not there."""
    known = {str(info.name): info for info in db.streams()}
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else None
            raise NoSuchStream(f"there is no stream {name!r}", hint=hint)
    return tuple(known[name] for name in names)


def splits(
    db: Database, names: Sequence[str], after: Clock, up_to: Clock
) -> list[FeedSplitPartition]:
    """A slice cut between transactions; none when there is nothing in it."""
    if after >= up_to:
        return []
    whole = db.split_feed(*names, after=after, up_to=up_to)
    if not whole.changes:
        return []
    tasks = min(-(-whole.changes // split_changes), feed_splits_max)
    bounds = whole.bounds
    if tasks > 1:
        bounds = db.split_feed(*names, after=after, up_to=up_to, splits=tasks).bounds
    starts = [after, *bounds[:-1]]
    return [FeedSplitPartition(*ends) for ends in zip(starts, bounds, strict=True)]
