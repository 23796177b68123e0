"""The feed of some streams in Spark: as a batch, after one clock and up to another, and as a stream.

The end of a batch is fixed when it is loaded, so all tasks read the same slice, and so does everything that
is done with the DataFrame. A slice is cut between transactions into splits, one per task; within a split
the changes come in the order of the feed.

An offset of a stream is a clock, together with the database and the streams it belongs to: the same clock
would mean something else elsewhere, so the checkpoint of another database or of other streams is refused.

O1  An offset is the clock of a transaction, or where the query began. So a batch ends between transactions.
O2  Offsets never go back.
O3  An offset moves only when there are changes after it: what a pipeline publishes is no news to its reader.
O4  With the trigger ``availableNow`` the query ends at what was visible when it began.
O5  With the option ``cursor``, what a query has not committed is not pruned: its cursor is saved where the
    query begins, and whenever Spark says that a batch is committed.

The reader of a stream lives in a process of Spark's as long as the query does, and keeps its connection; the
tasks have their own.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from motet.client.cursors import OLDEST
from motet.client.sync import Database, connect
from motet.columnar.feed import feed_schema, feed_table
from motet.core.clock.hlc import ZERO, Clock
from motet.core.onelog.messages import StreamInfo
from motet.errors import BadCheckpoint, BadInput, NoSuchStream
from motet.limits import feed_splits_max, page_changes_max
from motet.pipeline.arrow_types import arrow_schema, check_asked, fitted, picked, spark_schema
from motet.pipeline.options import SourceOptions
from motet.pipeline.progress import FeedCursor
from motet.pipeline.session import settle_in

split_changes = 50_000
"""About how many changes one task reads: half a second of work, so that a task is worth its start."""

FEED = "the feed"


class FeedSplitPartition(InputPartition):
    """What one task reads: after one clock and up to another."""

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
    """Where a read begins: after a clock, where all streams have their feed, or at the beginning."""
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


Offset = dict[str, Any]


class FeedOffset(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Everything of these streams up to this clock has been read."""

    #: the number of the database in hex: JSON's numbers are too small for it elsewhere
    database: str
    logical: int
    counter: int
    #: sorted; None in checkpoints of versions that did not write them down
    streams: tuple[str, ...] | None = None

    @property
    def clock(self) -> Clock:
        return Clock(self.logical, self.counter)


def offset_of(database: int, clock: Clock, streams: Sequence[str]) -> FeedOffset:
    """The offset at a clock of a database for a reader of these streams."""
    return FeedOffset(f"{database:016x}", clock.logical, clock.counter, tuple(sorted(streams)))


def parse_offset(offset: object) -> FeedOffset:
    """An offset as it stands in a checkpoint; ``BadCheckpoint`` if it is none of ours."""
    try:
        parsed = msgspec.convert(offset, FeedOffset)
    except msgspec.ValidationError as error:
        raise BadCheckpoint(f"{str(offset)[:120]} is not an offset of a feed: {error}") from None
    if not parsed.clock.is_in_range:
        raise BadCheckpoint(f"{str(offset)[:120]} is not an offset of a feed: no such clock")
    return parsed


class FeedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a feed."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        names = options.stream_names("follow a feed")
        self._connection: Database | None = None
        #: with ``availableNow``: where the query ends
        self._target: Clock | None = None
        #: the cursor of the query was looked at
        self._is_held = False
        with connect(options.endpoint) as db:
            self._database = db.database_id
            self._shape = FeedShape(options, find_streams(db, names), schema)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_connection": None}  # tasks have their own

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.changes_per_batch)

    def initialOffset(self) -> Offset:  # noqa: N802
        given = self._options.starting_clock
        clock = feed_begin(self._db(), self._shape.names, given)
        if isinstance(given, Clock):
            visible = self._db().visible_clock(*self._shape.names, wait=True)
            if clock > visible:
                raise BadInput(
                    f"option startingClock: {clock} is above the visible clock {visible}",
                    hint="begin at a clock that was visible once",
                )
        if self._options.cursor is not None:
            self._cursor(self._options.cursor).hold(clock)
            self._is_held = True
        return self._offset(clock)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._db().visible_clock(*self._shape.names, wait=True)

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        after = self._clock(start)
        if self._options.cursor is not None and not self._is_held:
            self._cursor(self._options.cursor).hold_if_missing(after)
            self._is_held = True
        changes_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        found = self._db().split_feed(
            *self._shape.names, after=after, up_to=self._target, changes_max=changes_max
        )
        if after > found.visible:
            raise BadCheckpoint(
                f"the checkpoint is at {after}, and the database has only come to {found.visible}",
                hint="an older copy of the database is in its place: use a new checkpoint",
            )
        end = found.bounds[-1]
        assert end >= after, "O2"
        # As it was given, since Spark compares texts: one of an older version stays as it is until it moves.
        return start if end == after else self._offset(end)

    def partitions(self, start: Offset, end: Offset) -> list[FeedSplitPartition]:
        after, up_to = self._clock(start), self._clock(end)
        return splits(self._db(), self._shape.names, after, up_to)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, FeedSplitPartition)
        return self._shape.read(partition)

    def commit(self, end: Offset) -> None:
        if self._options.cursor is not None:
            self._cursor(self._options.cursor).advance(self._clock(end))

    def stop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _db(self) -> Database:
        if self._connection is None:
            self._connection = connect(self._shape.endpoint)
        return self._connection

    def _cursor(self, name: str) -> FeedCursor:
        return FeedCursor(self._db(), name, self._shape.names)

    def _offset(self, clock: Clock) -> Offset:
        made = offset_of(self._database, clock, self._shape.names)
        fields: Offset = msgspec.json.decode(msgspec.json.encode(made))  # as it comes back to us
        return fields

    def _clock(self, offset: Offset) -> Clock:
        parsed = parse_offset(offset)
        ours = offset_of(self._database, parsed.clock, self._shape.names)
        if parsed.database != ours.database:
            raise BadCheckpoint(
                f"the checkpoint is of database {parsed.database}, and "
                f"{self._shape.endpoint} is database {ours.database}"
            )
        if parsed.streams is not None and parsed.streams != ours.streams:
            theirs, wanted = ", ".join(parsed.streams), ", ".join(self._shape.names)
            raise BadCheckpoint(
                f"the checkpoint was made for the streams {theirs}, and this query reads {wanted}",
                hint=f"read {theirs} with it; for other streams use a new checkpoint folder, which "
                f"begins at the beginning or at startingClock; {parsed.clock} is where this one is",
            )
        return parsed.clock
