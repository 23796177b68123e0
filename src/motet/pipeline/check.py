"""Recomputes the tables of a pipeline by batch jobs, at the clock they reflect, and compares.

What is compared is one moment: the version at which the pipeline's last step was published. A pipeline may go
on publishing meanwhile. A table whose function looks at one change at a time is recomputed from the whole
feed in one job; the others slice by slice, along the steps that are remembered with the pipeline (see
``is_row_wise``). Of those the last 10,000 are, so of a pipeline that has taken more such tables cannot be
recomputed.

Rows of a ``merge`` table are compared as a bag: how often each row is there. Of a ``replacing`` table one row
per key is expected: that with the highest version, of several such the latest, and none if it is a
tombstone.
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
from pyspark.sql.window import Window

from motet.client.publication import WriterInfo
from motet.core.clock.hlc import ZERO, Clock
from motet.errors import BadPipeline
from motet.pipeline.arrow_types import quoted, spark_schema
from motet.pipeline.definition import Pipeline, TableDefinition
from motet.pipeline.failure import (
    SPARK_ERRORS,
    Say,
    failure_of,
    going_on,
    quiet,
    silent,
    started_session,
)
from motet.pipeline.plan import Plan, PlannedTable, check_feed, check_tables, make_plan
from motet.pipeline.progress import Slice, place_after, slices_of

if TYPE_CHECKING:
    from motet.client.sync import Database


examples_max = 5

ORDER = "motet order"
"""The column in which expected rows come with their place: a later row has a higher one."""

ROW, COPIES = "row", "copies"


@dataclass(frozen=True, slots=True)
class Difference:
    """How two bags of rows differ."""

    #: rows that should be there and are not, and the other way round
    missing: int
    extra: int
    #: some of them as JSON, with what they are
    examples: tuple[tuple[str, str], ...]

    @property
    def is_none(self) -> bool:
        return not (self.missing or self.extra)


def expected_rows(rows: DataFrame, definition: TableDefinition) -> DataFrame:
    """What a reader of the table should see of the rows that were made for it, each with its place."""
    if definition.engine == "merge":
        return rows.drop(ORDER)
    key = [f.col(quoted(column)) for column in definition.order_by]
    latest = [f.col(ORDER).desc()]
    if definition.version is not None:
        latest.insert(0, f.col(quoted(definition.version)).desc_nulls_last())
    rank = f.row_number().over(Window.partitionBy(*key).orderBy(*latest))
    kept = rows.withColumn("motet rank", rank).where("`motet rank` = 1")
    if definition.tombstone is not None:
        kept = kept.where(~f.coalesce(f.col(quoted(definition.tombstone)), f.lit(False)))
    return kept.drop(ORDER, "motet rank")


def compare(expected: DataFrame, actual: DataFrame) -> Difference:
    """Where two DataFrames with the same columns differ, however their rows are ordered."""
    fields = actual.schema.fields
    wanted = expected.select([f.col(quoted(field.name)).cast(field.dataType) for field in fields])
    both = _counted(wanted, 1).unionAll(_counted(actual, -1))
    differing = both.groupBy(ROW).agg(f.sum(COPIES).alias(COPIES)).where(f.col(COPIES) != 0)
    differing = differing.persist()
    try:
        copies = f.col(COPIES)
        missing, extra = differing.agg(
            f.coalesce(f.sum(f.when(copies > 0, copies)), f.lit(0)),
            f.coalesce(f.sum(f.when(copies < 0, -copies)), f.lit(0)),
        ).collect()[0]
        shown = differing.select(f.to_json(ROW).alias(ROW), COPIES).limit(examples_max).collect()
    finally:
        differing.unpersist()
    examples = tuple(("missing" if row.copies > 0 else "extra", row.row) for row in shown)
    return Difference(int(missing), int(extra), examples)


def _counted(rows: DataFrame, copies: int) -> DataFrame:
    """Whole rows as one column, and how much each of them counts."""
    whole = f.struct(*(f.col(quoted(name)) for name in rows.columns)).alias(ROW)
    return rows.select(whole, f.lit(copies).alias(COPIES))


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
    audit = _Audit(db, feed or db, spark, plan, info)
    audit.check_steps()
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
        self, db: Database, source: Database, spark: SparkSession, plan: Plan, info: WriterInfo
    ) -> None:
        self._db = db
        self._source = source
        self._spark = spark
        self._plan = plan
        assert info.step is not None
        self._last = info.step
        #: the moment of the last step
        self._version = info.version
        self._slices = slices_of(db.writer_steps(info.step.writer), info.step)

    def check_steps(self) -> None:
        """``BadPipeline`` unless all steps are remembered that a table has to be recomputed by."""
        by_steps = [table.name for table in self._plan.tables if not table.is_row_wise]
        if by_steps and self._slices[0].after != ZERO:
            raise BadPipeline(
                f"{self._plan.name} has taken {self._last.epoch + 1} steps, and the first of them are "
                f"forgotten: table {by_steps[0]} depends on where they ended",
                hint="check a pipeline of this file under another --name, with other names for its tables",
            )

    def check(self, table: PlannedTable) -> TableCheck:
        actual = self._read("table", table.name, at=str(self._version))
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


def _grouped(items: list[tuple[int, Slice]], size: int) -> Iterator[list[tuple[int, Slice]]]:
    for first in range(0, len(items), size):
        yield items[first : first + size]
