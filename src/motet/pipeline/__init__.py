"""Spark, through PySpark: the data source ``motet``, pipelines over the feed, and their audit.

A pipeline file needs ``pipeline.table``; the other names are for programs that run pipelines themselves. Each
is imported when it is first used: importing this package costs next to nothing, and works without Spark.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from motet.pipeline.batch import BatchReport
    from motet.pipeline.changes import Changes
    from motet.pipeline.check import TableCheck, check_pipeline
    from motet.pipeline.definition import table
    from motet.pipeline.load import Pipeline, load_pipeline
    from motet.pipeline.read_table import read_table
    from motet.pipeline.register import register
    from motet.pipeline.remove import RemovedPipeline, remove_pipeline
    from motet.pipeline.run import RunReport, run_pipeline
    from motet.pipeline.session import local_session
    from motet.pipeline.status import PipelineStatus, pipeline_status

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
    "BatchReport": "motet.pipeline.batch",
    "Changes": "motet.pipeline.changes",
    "Pipeline": "motet.pipeline.load",
    "PipelineStatus": "motet.pipeline.status",
    "RemovedPipeline": "motet.pipeline.remove",
    "RunReport": "motet.pipeline.run",
    "TableCheck": "motet.pipeline.check",
    "check_pipeline": "motet.pipeline.check",
    "load_pipeline": "motet.pipeline.load",
    "local_session": "motet.pipeline.session",
    "pipeline_status": "motet.pipeline.status",
    "read_table": "motet.pipeline.read_table",
    "register": "motet.pipeline.register",
    "remove_pipeline": "motet.pipeline.remove",
    "run_pipeline": "motet.pipeline.run",
    "table": "motet.pipeline.definition",
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


class _Package(ModuleType):
    """Importing ``motet.pipeline.register`` must not put the module in the place of the function."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
