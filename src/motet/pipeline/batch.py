"""One batch after the other: rows are made and staged by Spark's workers, and published in one step.

B1  All rows that a slice makes, of all tables, become visible together, with the clock they reflect.
B2  A slice is published once: the step that says so is in the same commit as the rows (see ``progress``).
B3  Nothing is told to Spark before it is published: a batch that ends well for Spark is done.

Workers stage parts in a staging job; while Spark works, the driver holds its lease, so that the replicas keep
what is staged however long a batch takes. What a killed driver or a failed task has staged is let go by them.

Spark works on all tables in one job, and its error names neither. So after a failure each table is worked on
alone, without writing anything, until one fails; then its half of the changes that fails, and so on, down to
one change. That is some twenty short jobs. It ends early when it takes too long, or when what fails needs
several changes: then the table is known, and between which clocks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from motet.client.publication import TablePart
from motet.core.clock.hlc import Clock
from motet.core.clock.writer_step import WriterStep
from motet.errors import MotetError, WriterFenced
from motet.ids import WriterName
from motet.limits import feed_splits_max
from motet.pipeline.arrow_types import numbered, quoted
from motet.pipeline.checkpoint import Checkpoint
from motet.pipeline.failure import SPARK_ERRORS, Say, failure_of, going_on, located, silent
from motet.pipeline.plan import Plan, PlannedTable
from motet.pipeline.progress import Slice, decide, done_through, place_after, worked_on
from motet.pipeline.staging_lease import StagingLease, new_job
from motet.pipeline.status import lag
from motet.pipeline.table_writer import parts_from_bytes, parts_to_bytes, stage_batches

if TYPE_CHECKING:
    from pyspark.sql import Column, Row

    from motet.client.sync import Database


search_seconds_max = 20.0
"""How long is looked for the change; the pipeline has failed already."""

PLACE = "motet place"
PARTITION_BITS = 33
"""Spark numbers the rows of a partition, with the number of the partition above so many bits."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """What a batch has failed for."""

    table: str
    #: as the message says it: where the function is, and the change if it is known
    where: str
    error: BaseException


def find_culprit(feed: DataFrame, plan: Plan) -> Culprit | None:
    """The first table that fails on these changes, which are cached, and the change; None: no table does."""
    for table in plan.tables:
        search = _Search(feed, plan, table)
        with suppress(OSError):  # Java may be gone
            error = search.error_of(feed)
            if error is not None:
                where = f"table {table.name} ({place_of(table)}{search.change()})"
                return Culprit(table.name, where, search.last or error)
    return None


def place_of(table: PlannedTable) -> str:
    """Where the function of a table is."""
    code = table.definition.function.__code__
    return f"function {code.co_name}, {Path(code.co_filename).name} line {code.co_firstlineno}"


class _Search:
    """For one table."""

    def __init__(self, feed: DataFrame, plan: Plan, table: PlannedTable) -> None:
        self._plan = plan
        self._table = table
        self._feed = feed.withColumn(PLACE, f.monotonically_increasing_id())
        self._end = time.monotonic() + search_seconds_max
        #: what the fewest changes have failed with
        self.last: BaseException | None = None

    def error_of(self, feed: DataFrame) -> BaseException | None:
        """What the table fails with on some changes."""
        try:
            rows = self._table.rows_of(self._plan.changes(feed))
            numbered(rows).mapInArrow(_checker(self._table.schema), "rows long").collect()
        except (MotetError, *SPARK_ERRORS) as error:
            self.last = error
            return error
        return None

    def change(self) -> str:
        """The change, as a part of a sentence; nothing if it cannot be told."""
        try:
            low, high = self._narrowed()
            if high - low == 1:
                (row,) = self._between(low, high).collect()
                return f"; {_named(row)}"
            ends = self._between(low, high).select(f.min("clock"), f.max("clock")).first()
        except (*SPARK_ERRORS, OSError):
            return ""
        return (
            ""
            if ends is None or ends[0] is None
            else f"; changes {_clock(ends[0])} to {_clock(ends[1])}"
        )

    def _narrowed(self) -> tuple[int, int]:
        """The shortest run of changes that was seen to fail, by rank."""
        partition = f.shiftright(quoted_place(), PARTITION_BITS)
        counts = self._feed.groupBy(partition.alias("n")).count().orderBy("n").collect()
        self._starts = [(int(row["n"]) << PARTITION_BITS, int(row["count"])) for row in counts]
        low, high = 0, sum(count for _, count in self._starts)
        while high - low > 1 and time.monotonic() < self._end:
            middle = (low + high) // 2
            if self.error_of(self._between(low, middle)) is not None:
                high = middle
            elif self.error_of(self._between(middle, high)) is not None:
                low = middle
            else:
                break  # it takes changes of both halves
        return low, high

    def _between(self, low: int, high: int) -> DataFrame:
        place = quoted_place()
        some = self._feed.where((place >= self._place(low)) & (place <= self._place(high - 1)))
        return some.drop(PLACE)

    def _place(self, rank: int) -> int:
        for start, count in self._starts:
            if rank < count:
                return start + rank
            rank -= count
        raise AssertionError("a rank is below the number of changes")


def quoted_place() -> Column:
    """The column that numbers the changes."""
    return f.col(quoted(PLACE))


def _checker(schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Looks at rows as staging does, and writes nothing."""

    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from motet.columnar.block import block_of

        for batch in batches:
            block_of(pa.Table.from_batches([batch.rename_columns(schema.names)]), schema)
        yield pa.RecordBatch.from_arrays([pa.array([0], pa.int64())], names=["rows"])

    return check


def _named(row: Row) -> str:
    key = bytes(row["key"])
    text = key.decode() if key.isascii() and key.decode().isprintable() else f"0x{key.hex()}"
    at = "without a clock" if row["clock"] is None else f"at {_clock(row['clock'])}"
    return f"the {row['op']} of {row['stream']} key {text} {at}, transaction {row['transaction']}"


def _clock(clock: Row) -> Clock:
    return Clock(clock["logical"], clock["counter"])


task_changes = 50_000
"""About how many changes make one part: a table of many small parts is slow to read."""

STAGED = "parts binary"


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What one batch has done."""

    batch: int
    #: changes of the streams of the pipeline
    changes: int
    #: rows that were published, of all tables
    rows: int
    clock: Clock
    #: how far the visible clock is ahead while there is something to do, in milliseconds
    lag_ms: int
    changes_after: int
    seconds: float


class Stopped(Exception):
    """The pipeline is being stopped: this batch was not begun."""


class BatchWorker:
    """Takes the batches that Spark hands out, and knows the pipeline's last step."""

    def __init__(
        self,
        db: Database,
        plan: Plan,
        checkpoint: Checkpoint,
        last: WriterStep | None,
        report: Callable[[BatchReport], None],
        feed: Database | None = None,
        say: Say = silent,
    ) -> None:
        self._db = db
        self._say = say
        #: where the changes come from, and its number if that is another database
        self._source = feed or db
        self._feed = None if feed is None else feed.database_id
        self._endpoint = db.endpoint
        self._plan = plan
        self._checkpoint = checkpoint
        self._report = report
        #: where the query was told to begin
        self.begin = done_through(last)
        self.last = last
        #: why the pipeline has to end
        self.failure: MotetError | None = None
        self.batches = 0
        #: held while a batch is worked on
        self._turn = threading.Lock()
        self._is_stopping = False

    def take(self, feed: DataFrame, batch: int) -> None:
        """Do what is left to do of a batch; what it raises ends the query."""
        with self._turn:
            if self._is_stopping:
                raise Stopped
            try:
                self._work(feed, batch)
            except Exception as error:
                self.failure = self.failure_of(error)
                raise

    def failure_of(self, error: BaseException) -> MotetError:
        """What an error means for the pipeline."""
        return failure_of(error, f"{self._plan.name} has stopped")

    def finish(self) -> None:
        """Wait for the batch that is being worked on, and begin no other."""
        with self._turn:
            self._is_stopping = True

    def _work(self, feed: DataFrame, batch: int) -> None:
        began = time.monotonic()
        handed_out = self._checkpoint.slice_of(batch, self.begin)
        step = decide(WriterName(self._plan.name), self.last, handed_out, self._feed)
        if step is None:
            return
        todo = worked_on(step)
        if handed_out.after != todo.after:
            feed = self._read(feed.sparkSession, todo)
        job = new_job()
        lease = StagingLease(self._db, job, [table.name for table in self._plan.tables])
        with going_on(self._say, f"batch {batch}", feed.sparkSession), lease:
            changes, parts = self._stage(feed, batch, job)
        if self._db.publish(parts, step=step, job=job if lease.is_open else None).duplicate:
            self._confirm(step)
        self.last = step
        self.batches += 1
        rows = sum(part.rows for part in parts)
        lag_ms, left = lag(self._source, self._plan.stream_names, step.through)
        seconds = time.monotonic() - began
        self._report(BatchReport(batch, changes, rows, step.through, lag_ms, left, seconds))

    def _read(self, spark: SparkSession, todo: Slice) -> DataFrame:
        """The changes of a batch that are still to be worked on, read once more.

        They cannot be told from the others by their clocks: those may be null, while the clock is off.
        """
        return (
            spark.read.format("motet")
            .option("endpoint", self._source.endpoint)
            .option("streams", ",".join(self._plan.stream_names))
            .option("after", str(place_after(todo.after)))
            .option("up_to", str(todo.through))
            .load()
        )

    def _stage(self, feed: DataFrame, batch: int, job: str) -> tuple[int, list[TablePart]]:
        """How many changes there are, and the parts that they make. No changes make no rows."""
        feed = feed.persist()  # read once, though each table looks at it
        try:
            count = feed.count()
            if not count:
                return 0, []
            if count > task_changes:
                self._say(f"batch {batch}: makes rows of {count} changes")
            tasks = min(-(-count // task_changes), feed_splits_max)
            staged = [self._staged(table, feed, tasks, job) for table in self._plan.tables]
            try:
                found = reduce(DataFrame.unionAll, staged).collect()  # one job for all tables
            except SPARK_ERRORS as error:
                raise self._located(error, feed, batch) from None
        finally:
            feed.unpersist()
        return count, [part for row in found for part in parts_from_bytes(bytes(row.parts))]

    def _staged(self, table: PlannedTable, feed: DataFrame, tasks: int, job: str) -> DataFrame:
        """The parts that a table's rows become, one row for each."""
        try:
            rows = table.rows_of(self._plan.changes(feed)).coalesce(tasks)
        except Exception as error:
            if isinstance(error, MotetError):
                raise
            where = f"table {table.name} ({place_of(table)})"
            raise located(error, f"{self._plan.name} has stopped", where) from error
        return numbered(rows).mapInArrow(self._stager(table, job), STAGED)

    def _located(self, error: BaseException, feed: DataFrame, batch: int) -> BaseException:
        """The error with the table, the function and the change it came from, if they can be found."""
        self._say(f"batch {batch} has failed: looking for the table and the change")
        culprit = find_culprit(feed, self._plan)
        if culprit is None:
            return error
        return located(culprit.error, f"{self._plan.name} has stopped", culprit.where)

    def _stager(
        self, table: PlannedTable, job: str
    ) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        endpoint, name, columns = self._endpoint, table.name, table.schema.names

        def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            named = (batch.rename_columns(columns) for batch in batches)
            parts = stage_batches(endpoint, name, job, named)
            if parts:
                data = pa.array([parts_to_bytes(parts)], pa.binary())
                yield pa.RecordBatch.from_arrays([data], names=["parts"])

        return stage

    def _confirm(self, step: WriterStep) -> None:
        """The database knew of the step: our own one, whose answer was lost, or that of another driver."""
        info = self._db.writer(step.writer)
        if info is None or info.step != step:
            raise WriterFenced(f"another driver of {step.writer} has published this slice")
