"""The feed of some streams as a stream: Spark asks how far it could read, and reads up to there.

An offset is a clock, together with the database and the streams it belongs to: the same clock would mean
something else elsewhere, so the checkpoint of another database or of other streams is refused. Rules:

O1  An offset is the clock of a transaction, or where the query began. So a batch ends between transactions.
O2  Offsets never go back.
O3  An offset moves only when there are changes behind it: what a pipeline publishes is no news to its reader.
O4  With the trigger ``availableNow`` the query ends at what was visible when it began.
O5  With the option ``cursor``, what a query has not committed is not pruned: its cursor is saved where the
    query begins, and whenever Spark says that a batch is committed.

The reader lives in a process of Spark's as long as the query does, and keeps its connection; the tasks
have their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from motet.client.sync import Database, connect
from motet.core.clock.hlc import Clock
from motet.errors import BadCheckpoint, BadInput
from motet.pipeline.feed_cursor import FeedCursor
from motet.pipeline.feed_reader import (
    FeedShape,
    FeedSplitPartition,
    feed_begin,
    find_streams,
    splits,
)
from motet.pipeline.options import SourceOptions

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
