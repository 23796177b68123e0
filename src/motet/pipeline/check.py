"""Recomputes the tables of a pipeline by batch jobs, at the clock they reflect, and compares.

What is compared is one moment: the pipeline's last step, and the tables as they were before the next one. A
pipeline may go on publishing meanwhile.

A table whose function looks at one change at a time is recomputed from the whole feed in one job. The
others are recomputed slice by slice, along the steps that the parts of the tables were published in (see
``row_wise``).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from motet.core.clock.hlc import ZERO, Clock, plus
from motet.core.tables.messages import VisiblePart
from motet.core.tables.records import WriterStep
from motet.errors import BadPipeline
from motet.pipeline.arrow_types import spark_schema
from motet.pipeline.compare import ORDER, Difference, compare, expected_rows
from motet.pipeline.failure import SPARK_ERRORS, failure_of
from motet.pipeline.load import Pipeline
from motet.pipeline.plan import Plan, PlannedTable, check_feed, check_tables, make_plan
from motet.pipeline.progress import Slice, place_after, slices_of
from motet.pipeline.quiet import quiet
from motet.pipeline.told import Say, going_on, silent, started_session

if TYPE_CHECKING:
    from motet.client.sync import Database

slices_per_job = 16
"""Slices that are recomputed side by side: a plan of all of them at once would be too large for Spark."""


@dataclass(frozen=True, slots=True)
class TableCheck:
    """How a table compares with its recomputation."""

    table: str
    #: what the table reflects
    clock: Clock
    #: rows that it has
    rows: int
    #: how many slices it took to recompute it; one for the whole feed at once
    slices: int
    difference: Difference


def check_pipeline(
    db: Database,
    pipeline: Pipeline,
    *,
    report: Callable[[TableCheck], None] = lambda _: None,
    feed: Database | None = None,
    say: Say = silent,
) -> list[TableCheck]:
    """Recompute each table of a pipeline, and say where it differs; ``feed`` as in ``run_pipeline``."""
    info = db.writer(pipeline.name)
    if info is None or info.step is None:
        raise BadPipeline(
            f"{pipeline.name} has not published anything yet",
            hint="run it first, or correct --name",
        )
    spark = started_session(f"motet {pipeline.name}", say)
    plan = make_plan(spark, pipeline, (feed or db).streams())
    check_feed(plan.name, info.step, feed)
    check_tables(db, plan)
    audit = _Audit(db, feed or db, spark, plan, info.step)
    checks = []
    for table in plan.tables:
        what = f"recomputing table {table.name}"
        say(f"{what} up to {info.step.through}")
        try:
            with quiet(spark), going_on(say, what, spark):
                checks.append(audit.check(table))
        except SPARK_ERRORS as error:
            raise failure_of(error, f"table {table.name} cannot be recomputed") from None
        report(checks[-1])
    return checks


class _Audit:
    """One moment of a pipeline."""

    def __init__(
        self, db: Database, source: Database, spark: SparkSession, plan: Plan, last: WriterStep
    ) -> None:
        self._db = db
        self._source = source
        self._spark = spark
        self._plan = plan
        self._last = last
        snapshot = db.snapshot(*(table.name for table in plan.tables))
        parts = [part for table in snapshot.tables.values() for part in table.parts]
        own = [part.step for part in parts if part.step and part.step.writer == last.writer]
        self._slices = slices_of(own, last)
        self._at = moment_of(parts, last, snapshot.clock)

    def check(self, table: PlannedTable) -> TableCheck:
        actual = self._read("table", table.name, at=str(self._at))
        slices = [Slice(ZERO, self._last.through)] if table.is_row_wise else self._own_slices()
        with tempfile.TemporaryDirectory(prefix="motet-check-") as folder:
            made = self._made(table, slices, Path(folder, "rows"))
            difference = compare(expected_rows(made, table.definition), actual)
        return TableCheck(table.name, self._last.through, actual.count(), len(slices), difference)

    def _own_slices(self) -> list[Slice]:
        """The slices that have changes: the others are never shown to a table function."""
        return [
            one for one in self._slices if has_changes(self._source, self._plan.stream_names, one)
        ]

    def _made(self, table: PlannedTable, slices: list[Slice], folder: Path) -> DataFrame:
        """The rows that all these slices make, each with its place."""
        jobs = [
            reduce(DataFrame.unionAll, [self._of_slice(table, *one) for one in some])
            for some in _grouped(list(enumerate(slices)), slices_per_job)
        ]
        if not jobs:
            none = self._spark.createDataFrame([], spark_schema(table.schema))
            return none.withColumn(ORDER, f.lit(0))
        if len(jobs) == 1:
            return jobs[0]
        for job in jobs:
            job.write.mode("append").parquet(str(folder))
        return self._spark.read.parquet(str(folder))

    def _of_slice(self, table: PlannedTable, number: int, slice_: Slice) -> DataFrame:
        feed = self._read(
            "streams",
            ",".join(self._plan.stream_names),
            after=str(place_after(slice_.after)),
            up_to=str(slice_.through),
        )
        rows = table.rows_of(self._plan.changes(feed))
        place = f.struct(f.lit(number).alias("slice"), f.monotonically_increasing_id().alias("row"))
        return rows.withColumn(ORDER, place)

    def _read(self, what: str, name: str, **options: str) -> DataFrame:
        place = self._source if what == "streams" else self._db
        reader = self._spark.read.format("motet").option("endpoint", place.endpoint)
        return reader.options(**options).option(what, name).load()


def has_changes(db: Database, streams: tuple[str, ...], slice_: Slice) -> bool:
    """Whether there is a change of these streams in a slice."""
    after: Clock | str = place_after(slice_.after)
    while True:
        page = db.changes(*streams, after=after, up_to=slice_.through, limit=1)
        if page.changes or not page.more:
            return bool(page.changes)
        after = page.cursor


def moment_of(parts: list[VisiblePart], last: WriterStep, now: Clock) -> Clock:
    """The latest clock at which the last step is visible, and nothing of a later one."""
    later = [
        part.clock
        for part in parts
        if part.step and part.step.writer == last.writer and part.step.epoch > last.epoch
    ]
    return plus(min(later), -1) if later else now


def _grouped(items: list[tuple[int, Slice]], size: int) -> Iterator[list[tuple[int, Slice]]]:
    for first in range(0, len(items), size):
        yield items[first : first + size]
