"""Runs a pipeline on Structured Streaming: one feed reader for all its streams, one step per batch.

Everything that can be wrong is found before anything is done, the cheap things first: the file, the
checkpoint, Java and Spark, the table functions, the tables.

How it fares is kept in the database: the last step with the rows (see ``batch``), and the error that the last
run ended with, until one works again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from motet.client.cursors import OLDEST
from motet.client.publication import WriterInfo
from motet.core.clock.hlc import Clock
from motet.errors import BadInput, MotetError, PipelineFailed, WriterFenced
from motet.errors.shards import CursorExpired
from motet.limits import writer_note_length_max
from motet.pipeline.batch import BatchReport, BatchWorker
from motet.pipeline.checkpoint import Checkpoint, default_folder
from motet.pipeline.definition import Pipeline
from motet.pipeline.failure import SPARK_ERRORS, Say, quiet, silent, started_session
from motet.pipeline.plan import Plan, check_feed, create_tables, make_plan
from motet.pipeline.progress import (
    FeedCursor,
    cursor_name,
    done_through,
    expired,
    no_common_begin,
    place_after,
)
from motet.pipeline.session import stopping
from motet.pipeline.status import lag

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from motet.client.sync import Database

changes_per_batch_default = 100_000
"""Changes of one step at most: a few seconds of work, so that tables follow and a crash costs little."""

POLL = "200 milliseconds"
"""How often is looked for changes when there was nothing to do."""

look_seconds = 0.2
"""How often a running pipeline is asked whether it is to stop."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """What a run has done."""

    pipeline: str
    #: steps that this run has published
    steps: int
    #: the clock that the tables reflect; None if nothing was ever published
    clock: Clock | None


def run_pipeline(
    db: Database,
    pipeline: Pipeline,
    *,
    once: bool = False,
    checkpoint: Path | None = None,
    changes_max: int = changes_per_batch_default,
    report: Callable[[BatchReport], None] = lambda _: None,
    stop: threading.Event | None = None,
    feed: Database | None = None,
    say: Say = silent,
    after: Literal["oldest"] | None = None,
) -> RunReport:
    """Run a pipeline until ``stop`` is set, or with ``once`` until it has caught up.

    Its tables are in ``db``, and so are the streams, unless ``feed`` is another database or a cluster.
    A batch that has begun is finished first. Without ``stop``, ^C and SIGTERM end it in that way if this is
    the main thread. The session is the one that is running, else a new local one. ``say`` gets lines
    for people about what is being done.

    A pipeline that has published nothing begins at the beginning of its streams: ``CursorExpired`` if they
    are pruned to different places, unless ``after="oldest"`` tells it to begin where all of them are kept.
    """
    if after not in (None, OLDEST):
        raise BadInput(
            f"a pipeline cannot begin after {after!r}", hint="use after='oldest', or none"
        )
    folder = checkpoint or default_folder(None, db.database_id, pipeline.name)
    notes = Checkpoint(folder, (feed or db).database_id, pipeline.name)
    try:
        spark = started_session(f"motet {pipeline.name}", say)
        # Not sooner: Spark has an own idea of ^C when it starts.
        with quiet(spark), stopping(stop) as asked:
            return _run(
                db, feed, spark, pipeline, notes, once, changes_max, report, asked, say, after
            )
    finally:
        notes.close()


def _run(
    db: Database,
    feed: Database | None,
    spark: SparkSession,
    pipeline: Pipeline,
    notes: Checkpoint,
    once: bool,
    changes_max: int,
    report: Callable[[BatchReport], None],
    stop: threading.Event,
    say: Say,
    after: Literal["oldest"] | None,
) -> RunReport:
    plan = make_plan(spark, pipeline, (feed or db).streams())
    info = db.writer(plan.name)
    last = None if info is None else info.step
    check_feed(plan.name, last, feed)
    cursor = FeedCursor(feed or db, cursor_name(db, plan.name, feed), plan.stream_names)
    if last is None and after is None:
        _check_begin(feed or db, plan, cursor)
    create_tables(db, plan, info)
    done = done_through(last)
    notes.remember(plan.streams, done)
    health = _Health(db, plan.name, info)

    def published(batch: BatchReport) -> None:
        if not cursor.is_held:
            raise PipelineFailed(
                f"{plan.name} was removed while it ran",
                hint="run it again: it goes on from what is published",
            )
        cursor.advance(batch.clock)
        health.works()
        report(batch)

    worker = BatchWorker(db, plan, notes, last, published, feed, say)
    try:
        first = cursor.hold(done)
        _, behind = lag(feed or db, plan.stream_names, first)
        begin = f"after {done}" if last is not None else "from the oldest change that is kept"
        say(f"{plan.name} reads {', '.join(plan.stream_names)} {begin}: {behind} changes behind")
        notes.skip_pruned((feed or db).low_watermark(*plan.stream_names))
        query = _start(spark, feed or db, plan, notes, worker, once, changes_max)
        _follow(query, worker, stop)
    except (MotetError, *SPARK_ERRORS) as error:
        # What Spark says is often only that a batch has failed: the worker knows why.
        failure = worker.failure or worker.failure_of(error)
        if isinstance(failure, CursorExpired):
            failure = expired(plan.name, done_through(worker.last), failure)
        health.failed(failure)
        raise failure from None
    health.works()
    clock = None if worker.last is None else worker.last.through
    return RunReport(plan.name, worker.batches, clock)


def _check_begin(source: Database, plan: Plan, cursor: FeedCursor) -> None:
    try:
        cursor.check_begin()
    except CursorExpired as error:
        oldest = source.oldest(*plan.stream_names)
        raise no_common_begin(plan.name, oldest, error) from None


def _start(
    spark: SparkSession,
    source: Database,
    plan: Plan,
    notes: Checkpoint,
    worker: BatchWorker,
    once: bool,
    changes_max: int,
) -> StreamingQuery:
    reader = (
        spark.readStream.format("motet")
        .option("endpoint", source.endpoint)
        .option("streams", ",".join(plan.stream_names))
        .option("maxChangesPerBatch", str(changes_max))
        .option("startingClock", str(place_after(worker.begin)))
    )
    writer = (
        reader.load()
        .writeStream.foreachBatch(worker.take)
        .option("checkpointLocation", str(notes.folder))
    )
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=POLL)
    return writer.start()


def _follow(query: StreamingQuery, worker: BatchWorker, stop: threading.Event) -> None:
    """Wait until the query ends, or end it between two batches."""
    try:
        while not query.awaitTermination(look_seconds):  # type: ignore[arg-type]
            if stop.is_set():
                worker.finish()
                break
    finally:
        with suppress(*SPARK_ERRORS, OSError):  # its Java process may be what has failed
            query.stop()
    if worker.failure is not None:
        raise worker.failure


class _Health:
    """The last error of a pipeline, as the database keeps it."""

    def __init__(self, db: Database, name: str, info: WriterInfo | None) -> None:
        self._db = db
        self._name = name
        self._has_error = info is not None and bool(info.error)

    def works(self) -> None:
        """It works again."""
        if self._has_error:
            self._db.note_writer(self._name, "")
            self._has_error = False

    def failed(self, error: MotetError) -> None:
        """It has ended with an error. One that was overtaken is no matter of the one that goes on."""
        if not isinstance(error, WriterFenced):
            with suppress(MotetError):  # the database may be what failed
                self._db.note_writer(self._name, str(error)[:writer_note_length_max])
