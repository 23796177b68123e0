"""A sweep on Spark: every job is a task of its own, wherever there is room.

Jobs are plain data; a worker imports Motet, does one, and answers with a row. They take from milliseconds to
minutes, so there is a partition for each, and the long ones are not known before: Spark hands out the next
whenever a worker is free.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from motet import limits
from motet.errors import BadInput
from motet.pipeline.failure import SPARK_ERRORS, failure_of
from motet.verify.sweep import Done, Job, Sweep, run_job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

look_every_s = 0.5

_encode = msgspec.json.Encoder().encode


def run_sweep(
    spark: SparkSession, jobs: Sequence[Job], *, progress: Callable[[int, int], None] | None = None
) -> Sweep:
    """Run all jobs; ``progress`` hears how many of how many are done."""
    if not jobs:
        raise BadInput("a sweep of nothing", hint="name seeds, mutants, a grid or histories")
    if len(jobs) > limits.sweep_jobs_max:
        raise BadInput(
            f"a sweep of {len(jobs):,} jobs exceeds the limit of {limits.sweep_jobs_max:,}",
            hint="run it in several",
        )
    began = time.monotonic()
    context = spark.sparkContext
    group = f"motet-sweep-{time.monotonic_ns()}"
    rows: list[bytes] = []
    failed: list[BaseException] = []

    def work() -> None:
        context.setJobGroup(group, "motet verify sweep")
        try:
            told = context.parallelize([_encode(job) for job in jobs], len(jobs))
            rows.extend(told.mapPartitions(_run).collect())
        except SPARK_ERRORS as error:
            failed.append(error)

    worker = threading.Thread(target=work, name="motet-sweep")
    worker.start()
    while worker.is_alive():
        worker.join(look_every_s)
        if progress is not None:
            progress(_completed(spark, group), len(jobs))
    if failed:
        raise failure_of(failed[0], "the sweep") from None
    done = tuple(msgspec.json.decode(row, type=Done) for row in rows)
    return Sweep(done, time.monotonic() - began, str(context.master))


def _run(encoded: Iterable[bytes]) -> Iterator[bytes]:
    for row in encoded:
        yield _encode(run_job(msgspec.json.decode(row, type=Job)))


def _completed(spark: SparkSession, group: str) -> int:
    tracker = spark.sparkContext.statusTracker()
    done = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in () if info is None else info.stageIds:
            known = tracker.getStageInfo(stage)
            done += 0 if known is None else known.numCompletedTasks
    return done
