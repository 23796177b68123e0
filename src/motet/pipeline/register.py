"""Registers the data source with a Spark session: with an endpoint of its own, and with filters pushed down.

Without it the source works too; each use names its endpoint then.

Filters are pushed only where that is safe. Spark 4.3 keeps what a filter has left of a read with the
DataFrame, not with the query: after ``df.where("k = 1").count()`` a plain ``df.count()`` would count no
more than that. There the option ``where`` does the same safely, because it belongs to what is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from motet.errors import BadInput
from motet.pipeline.options import ENDPOINT_VARIABLE, find_endpoint
from motet.pipeline.session import need_libraries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
