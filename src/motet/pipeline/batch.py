"""One batch after the other: rows are made and staged by Spark's workers, and published in one step.

B1  All rows that a slice makes, of all tables, become visible together, with the clock they reflect.
B2  A slice is published once: the step that says so is in the same record as the rows (see ``progress``).
B3  Nothing is told to Spark before it is published: a batch that ends well for Spark is done.

What a killed driver or a failed task has staged stays as garbage that nobody sees.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from motet.core.clock.hlc import Clock
from motet.core.tables.records import StagedPart, WriterStep
from motet.errors import MotetError, WriterFenced
from motet.ids import WriterName
from motet.limits import feed_splits_max
from motet.pipeline.arrow_types import numbered
from motet.pipeline.checkpoint import Checkpoint
from motet.pipeline.culprit import find_culprit, place_of
from motet.pipeline.failure import SPARK_ERRORS, Say, failure_of, going_on, located, silent
from motet.pipeline.plan import Plan, PlannedTable
from motet.pipeline.progress import Slice, decide, done_through, place_after, worked_on
from motet.pipeline.status import lag
from motet.pipeline.table_writer import stage_batches, staged_from_bytes, staged_to_bytes

if TYPE_CHECKING:
    from motet.client.sync import Database

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
        with going_on(self._say, f"batch {batch}", feed.sparkSession):
            changes, parts = self._stage(feed, batch)
        if self._db.publish(parts, step=step).duplicate:
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

    def _stage(self, feed: DataFrame, batch: int) -> tuple[int, list[StagedPart]]:
        """How many changes there are, and the parts that they make. No changes make no rows."""
        feed = feed.persist()  # read once, though each table looks at it
        try:
            count = feed.count()
            if not count:
                return 0, []
            if count > task_changes:
                self._say(f"batch {batch}: makes rows of {count} changes")
            tasks = min(-(-count // task_changes), feed_splits_max)
            staged = [self._staged(table, feed, tasks) for table in self._plan.tables]
            try:
                found = reduce(DataFrame.unionAll, staged).collect()  # one job for all tables
            except SPARK_ERRORS as error:
                raise self._located(error, feed, batch) from None
        finally:
            feed.unpersist()
        return count, [part for row in found for part in staged_from_bytes(bytes(row.parts))]

    def _staged(self, table: PlannedTable, feed: DataFrame, tasks: int) -> DataFrame:
        """The parts that a table's rows become, one row for each."""
        try:
            rows = table.rows_of(self._plan.changes(feed)).coalesce(tasks)
        except Exception as error:
            if isinstance(error, MotetError):
                raise
            where = f"table {table.name} ({place_of(table)})"
            raise located(error, f"{self._plan.name} has stopped", where) from error
        return numbered(rows).mapInArrow(self._stager(table), STAGED)

    def _located(self, error: BaseException, feed: DataFrame, batch: int) -> BaseException:
        """The error with the table, the function and the change it came from, if they can be found."""
        self._say(f"batch {batch} has failed: looking for the table and the change")
        culprit = find_culprit(feed, self._plan)
        if culprit is None:
            return error
        return located(culprit.error, f"{self._plan.name} has stopped", culprit.where)

    def _stager(
        self, table: PlannedTable
    ) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        endpoint, name, columns = self._endpoint, table.name, table.schema.names

        def stage(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            named = (batch.rename_columns(columns) for batch in batches)
            parts = stage_batches(endpoint, name, named)
            if parts:
                data = pa.array([staged_to_bytes(parts)], pa.binary())
                yield pa.RecordBatch.from_arrays([data], names=["parts"])

        return stage

    def _confirm(self, step: WriterStep) -> None:
        """The database knew of the step: our own one, whose answer was lost, or that of another driver."""
        info = self._db.writer(step.writer)
        if info is None or info.step != step:
            raise WriterFenced(f"another driver of {step.writer} has published this slice")
