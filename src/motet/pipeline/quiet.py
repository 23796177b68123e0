"""Keeps Spark from printing what is told as an error anyway: a failed batch is one line, not four traces.

``MOTET_DEBUG=1`` lets Spark print them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from motet.pipeline.failure import SPARK_ERRORS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOGGERS = (
    "org.apache.spark.executor.Executor",
    "org.apache.spark.scheduler.TaskSetManager",
    "org.apache.spark.sql.execution.streaming",
    "org.apache.spark.util.Utils",
)
"""Those that print the trace of a task or of a query that failed."""


@contextmanager
def quiet(spark: SparkSession) -> Iterator[None]:
    """While it lasts, tasks and queries of this session fail without a trace on the terminal."""
    if os.environ.get("MOTET_DEBUG"):
        yield
        return
    log4j: Any = spark.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    before = {name: log4j.LogManager.getLogger(name).getLevel() for name in LOGGERS}
    for name in LOGGERS:
        log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)
    try:
        yield
    finally:
        with suppress(*SPARK_ERRORS, OSError):  # its Java process may be gone
            for name, level in before.items():
                log4j.core.config.Configurator.setLevel(name, level)
