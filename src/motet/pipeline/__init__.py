"""Spark, through PySpark: the data source ``motet``, pipelines over the feed, and their audit.

A pipeline file needs ``pipeline.table``; the other names are for programs that run pipelines themselves. Each
is imported when it is first used: importing this package costs next to nothing, and works without Spark.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from motet.pipeline.batch import BatchReport
    from motet.pipeline.check import TableCheck, check_pipeline
    from motet.pipeline.definition import Pipeline, load_pipeline, table
    from motet.pipeline.plan import Changes
    from motet.pipeline.run import RunReport, run_pipeline
    from motet.pipeline.session import local_session, read_table, register
    from motet.pipeline.status import (
        PipelineStatus,
        RemovedPipeline,
        pipeline_status,
        remove_pipeline,
    )

__all__ = [
    "BatchReport",
    "Changes",
    "Pipeline",
    "PipelineStatus",
    "RemovedPipeline",
    "RunReport",
    "TableCheck",
    "check_pipeline",
    "load_pipeline",
    "local_session",
    "pipeline_status",
    "read_table",
    "register",
    "remove_pipeline",
    "run_pipeline",
    "table",
]

_HOMES = {
    name: f"motet.pipeline.{module}"
    for module, names in {
        "batch": "BatchReport",
        "check": "TableCheck check_pipeline",
        "definition": "Pipeline load_pipeline table",
        "plan": "Changes",
        "run": "RunReport run_pipeline",
        "session": "local_session read_table register",
        "status": "PipelineStatus RemovedPipeline pipeline_status remove_pipeline",
    }.items()
    for name in names.split()
}
_NEED_SPARK = frozenset(
    {"BatchReport", "Changes", "RunReport", "TableCheck", "check_pipeline", "run_pipeline"}
)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'motet.pipeline' has no attribute {name!r}")
    if name in _NEED_SPARK:
        from motet.pipeline.session import need_libraries

        need_libraries()
    found = getattr(import_module(_HOMES[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
