"""What is shown of an error of Spark's."""

from __future__ import annotations

from py4j.protocol import Py4JError

from motet.errors import BadSchema, PipelineFailed, WriterFenced
from motet.errors.shards import CursorExpired
from motet.pipeline.failure import failure_of, first_line, located

TRACE = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "somewhere.py", line 7, in stage
    block_of(data)
motet.errors.BadSchema: BAD_SCHEMA the column 'sku' is null, and it may not be; compare it; with care

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:1)
"""

PARSING = """Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times
\tat org.apache.spark.scheduler.DAGScheduler.x(DAGScheduler.scala:2)
Caused by: org.apache.spark.SparkException: [MALFORMED_RECORD_IN_PARSING] Malformed records: [null]
\tat org.apache.spark.sql.x(y.scala:1)
Caused by: java.lang.RuntimeException: Cannot parse the value 'x' as an INT
\t... 12 more
"""


def test_an_error_of_ours_in_a_worker_is_that_error() -> None:
    error = failure_of(Py4JError(TRACE), "shop has stopped")
    assert isinstance(error, BadSchema)
    assert error.what == "the column 'sku' is null, and it may not be"
    assert error.advice == "compare it; with care"


def test_an_error_of_a_shard_is_known_as_well() -> None:
    trace = TRACE.replace(
        "motet.errors.BadSchema: BAD_SCHEMA", "motet.errors.shards.CursorExpired: CURSOR_EXPIRED"
    )
    assert isinstance(failure_of(Py4JError(trace), "shop has stopped"), CursorExpired)


def test_where_it_came_from_is_put_before_what_happened() -> None:
    ours = located(Py4JError(TRACE), "shop has stopped", "table sales")
    assert isinstance(ours, BadSchema)
    assert ours.what == "table sales: the column 'sku' is null, and it may not be"
    theirs = located(Py4JError(PARSING), "shop has stopped", "table sales")
    assert theirs.what == "shop has stopped: table sales: Cannot parse the value 'x' as an INT"
    plain = located(ValueError("no money"), "shop has stopped", "table sales")
    assert plain.what == "shop has stopped: table sales: ValueError: no money"


def test_of_another_the_last_cause_is_told() -> None:
    error = failure_of(Py4JError(PARSING), "shop has stopped")
    assert isinstance(error, PipelineFailed)
    assert error.what == "shop has stopped: Cannot parse the value 'x' as an INT"


def test_one_of_ours_stays_as_it_is_and_a_plain_one_is_told() -> None:
    fenced = WriterFenced("overtaken")
    assert failure_of(fenced, "shop has stopped") is fenced
    failed = failure_of(ValueError("no money"), "shop has stopped")
    assert isinstance(failed, PipelineFailed)
    assert failed.what == "shop has stopped: ValueError: no money"


def test_the_first_line_says_something() -> None:
    assert first_line(ValueError("\n  one \ntwo")) == "one"
    assert first_line(ValueError()) == "ValueError"
