"""What a pipeline says about what it is doing: when something begins, and now and then while it goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from motet.pipeline.failure import SPARK_ERRORS
from motet.pipeline.java import find_java
from motet.pipeline.session import is_running, local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
