"""What went wrong in a job of Spark's, for people: the cause, without the stack traces around it."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from motet.errors import MotetError, PipelineFailed, error_of

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
