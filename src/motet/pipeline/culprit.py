"""Which table, and which change, a batch has failed for.

Spark works on all tables in one job, and its error names neither. So after a failure each table is worked on
alone, without writing anything, until one fails; then its half of the changes that fails, and so on, down to
one change. That is some twenty short jobs. It ends early when it takes too long, or when what fails needs
several changes: then the table is known, and between which clocks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as f

from motet.core.clock.hlc import Clock
from motet.errors import MotetError
from motet.pipeline.arrow_types import numbered, quoted
from motet.pipeline.failure import SPARK_ERRORS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

    from motet.pipeline.plan import Plan, PlannedTable

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
