"""Reading a table at the speed of Spark's own reader, where its files are at hand.

The data source hands every row from a Python process to Java, which costs a scan a quarter of its speed or
more. The parts of a table are plain Parquet and never change: a session on the machine that has them can read
the files of a snapshot itself, with its own pruning of columns and pushing of filters. Everything else goes
through the source: tables that keep the latest row of a key, parts on another machine, a table without rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from motet.client.parts import DirectParts, token_of
from motet.client.sync import connect
from motet.core.clock.hlc import Clock
from motet.pipeline.options import SourceOptions, parse_options
from motet.pipeline.session import need_libraries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from motet.client.publication import TableSnapshot

PATTERN = frozenset("*?[]{}\\")
"""In a path Spark takes these for a pattern, and there is no way to say that they are none."""


def read_table(
    spark: SparkSession,
    table: str,
    *,
    endpoint: str | None = None,
    columns: Sequence[str] = (),
    at: Clock | None = None,
) -> DataFrame:
    """A table at a clock, or now: a snapshot, whatever is done with the DataFrame.

    The rows are those of ``format("motet")``. Where Spark reads the files itself, every column may be null as
    far as it knows.
    """
    need_libraries()
    from motet.pipeline.table_reader import table_snapshot, table_spark_schema

    given = {"table": table, "columns": ",".join(columns), "at": str(at) if at else ""}
    texts = {name: text for name, text in given.items() if text or name == "table"}
    options = parse_options(texts, endpoint)
    snapshot = table_snapshot(options)
    files = _files_at_hand(spark, snapshot, options)
    if files:
        return spark.read.schema(table_spark_schema(snapshot, options)).parquet(*files)
    reader = spark.read.format("motet").options(**{**texts, "at": str(snapshot.clock)})
    return reader.option("endpoint", options.endpoint).load()


def _files_at_hand(
    spark: SparkSession, snapshot: TableSnapshot, options: SourceOptions
) -> list[str]:
    """The files of the snapshot, as Spark names them; none if it cannot read them by itself."""
    if snapshot.spec.engine != "merge" or not _is_local(spark):
        return []
    with connect(options.endpoint) as db:
        locator = db.parts_locator()
    folder = Path(locator.folder)
    is_here = bool(locator.token) and token_of(folder) == locator.token
    if not is_here or PATTERN & set(locator.folder):
        return []
    store = DirectParts(folder)
    return [f"file:{store.source(key, size)}" for key, size in snapshot.files()]


def _is_local(spark: SparkSession) -> bool:
    """Whether the session and all its executors are processes of this machine."""
    if getattr(spark, "_jvm", None) is None:
        return False  # Spark is elsewhere, and cannot be asked
    return (spark.sparkContext.master or "").startswith("local")
