"""What a program does with its Spark session: register the data source, and read a table at full speed.

Registering gives the source an endpoint, and pushes filters where that is safe; without it each use names its
endpoint. Spark 4.3 keeps what a filter has left of a read with the DataFrame, not with the query: after
``df.where("k = 1").count()`` a plain ``df.count()`` would count no more than that. There the option ``where``
does the same safely, because it belongs to what is loaded.

The data source hands every row from a Python process to Java, which costs a scan a quarter of its speed or
more. The parts of a table are plain Parquet and never change: a session on the machine that has them can read
the files of a snapshot itself, with its own pruning of columns and pushing of filters (``read_table``).
Everything else goes through the source: tables that keep the latest row of a key, parts on another machine, a
table without rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motet.client.part_folder import token_of
from motet.client.part_store import DirectParts
from motet.client.sync import connect
from motet.core.clock.hlc import Clock
from motet.errors import BadInput
from motet.pipeline.options import ENDPOINT_VARIABLE, SourceOptions, find_endpoint, parse_options
from motet.pipeline.session import need_libraries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from motet.client.snapshot import TableSnapshot


PUSHDOWN_SETTING = "spark.sql.python.filterPushdown.enabled"
SPARKS_SIDE = "org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2"
SHARED_PLAN = "setReadInfo"
"""By this method a query puts its plan where the others of its DataFrame find it."""


def register(spark: SparkSession, endpoint: str | None = None) -> None:
    """Make ``format("motet")`` of this session know where the database is, and push filters if it can.

    Without an endpoint, at ``$MOTET_ENDPOINT`` if that is set, else each use has to name it.
    """
    need_libraries()
    found = find_endpoint(endpoint)
    if endpoint is not None and found is None:
        hint = f"db.endpoint, or none for ${ENDPOINT_VARIABLE}"
        raise BadInput("the endpoint is empty", hint=hint)
    from motet.pipeline.source import MotetSource

    class RegisteredSource(MotetSource):
        """The source of one session; it travels to Spark's processes by value."""

        endpoint_default = found
        pushes_filters = keeps_filters_apart(spark)
        side_by_side = tasks_at_once(spark)

    if RegisteredSource.pushes_filters:
        spark.conf.set(PUSHDOWN_SETTING, "true")
    spark.dataSource.register(RegisteredSource)


def keeps_filters_apart(spark: Any) -> bool:
    """Whether the filters of one query stay away from the other queries of its DataFrame."""
    java = getattr(spark, "_jvm", None)
    if java is None:
        return False  # Spark is elsewhere, and cannot be asked
    methods = java.java.lang.Class.forName(SPARKS_SIDE).getMethods()
    return all(method.getName() != SHARED_PLAN for method in methods)


def tasks_at_once(spark: Any) -> int | None:
    """How many tasks of a session can run side by side, if it says so."""
    java = getattr(spark, "_jvm", None)
    return None if java is None else int(spark.sparkContext.defaultParallelism)


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
