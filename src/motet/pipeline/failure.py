"""What a pipeline tells people: what it is doing, and the cause of an error without stack traces.

A failed batch is one line, not four traces of Spark's; ``MOTET_DEBUG=1`` lets Spark print them.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from motet.errors import MotetError, PipelineFailed, error_of
from motet.pipeline.java import find_java
from motet.pipeline.session import is_running, local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SPARK_ERRORS = (PySparkException, Py4JError)
"""What Spark raises, also when its Java process is gone."""

_OURS = re.compile(r"(?:^|\s)motet\.errors(?:\.\w+)+: ([A-Z_]+) (.+?); (.+)$", re.MULTILINE)
"""The last line of a traceback of one of our errors, in the text of one of Spark's."""

_CAUSE = re.compile(r"^(?:Caused by: )?[\w.$]*(?:Exception|Error): (.+)$", re.MULTILINE)


def first_line(error: BaseException) -> str:
    """The first line of an error that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def located(error: BaseException, what: str, where: str) -> MotetError:
    """The error that something ends with, and where it came from."""
    if isinstance(error, SPARK_ERRORS):
        error = failure_of(error, "")
    if isinstance(error, PipelineFailed):
        return PipelineFailed(f"{what}: {where}: {error.what.removeprefix(': ')}")
    if isinstance(error, MotetError):
        return error_of(error.code, f"{where}: {error.what}", error.advice)
    return PipelineFailed(f"{what}: {where}: {type(error).__name__}: {first_line(error)}")


def failure_of(error: BaseException, what: str) -> MotetError:
    """The error that something ends with: ours as it is, else ``PipelineFailed`` with what, and the cause."""
    if isinstance(error, MotetError):
        return error
    if not isinstance(error, SPARK_ERRORS):
        return PipelineFailed(f"{what}: {type(error).__name__}: {first_line(error)}")
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        return error_of(*ours[-1])
    causes = _CAUSE.findall(text)
    cause = causes[-1].strip() if causes else first_line(error)
    return PipelineFailed(f"{what}: {cause}")


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


Say = Callable[[str], None]

tell_seconds = 10.0
"""How long something may go on without a word."""


def silent(_: str) -> None:
    """For programs: nothing is said."""


@contextmanager
def going_on(say: Say, what: str, spark: SparkSession | None = None) -> Iterator[None]:
    """While the block lasts, say now and then that it does, and how many of Spark's tasks are done."""
    if say is silent:
        yield
        return
    over = threading.Event()
    began = time.monotonic()

    def tell() -> None:
        while not over.wait(tell_seconds):
            done = "" if spark is None else _tasks(spark)
            say(f"{what}: {time.monotonic() - began:.0f} s so far{done}")

    thread = threading.Thread(target=tell, name=what, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


def started_session(app: str, say: Say) -> SparkSession:
    """The session that is running, or a new one, which takes a while."""
    if is_running():
        return local_session(app)
    find_java()  # without one there is nothing to start
    say("starting Spark")
    began = time.monotonic()
    with going_on(say, "starting Spark"):
        spark = local_session(app)
    say(f"Spark {spark.version} has started, in {time.monotonic() - began:.1f} s")
    return spark


def _tasks(spark: SparkSession) -> str:
    """Of the stages that run, as far as Spark tells."""
    with suppress(*SPARK_ERRORS, OSError):
        tracker = spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
        tasks = sum(stage.numTasks for stage in stages if stage is not None)
        if tasks:
            return f", {done} of {tasks} tasks"
    return ""
