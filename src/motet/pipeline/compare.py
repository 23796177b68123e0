"""Compares the rows that a table should have with those it has, as a Spark job.

Rows of a ``merge`` table are compared as a bag: how often each row is there. Of a ``replacing`` table one row
per key is expected: that with the highest version, of several such the latest, and none if it is a
tombstone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql.window import Window

from motet.pipeline.arrow_types import quoted
from motet.pipeline.definition import TableDefinition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
