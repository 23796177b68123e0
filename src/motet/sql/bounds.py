"""How long a query may take and how much memory it may use; what is said to one that goes beyond that.

The time counts from the call to the last row of the answer. The memory bounds what DuckDB works with, which
spills to disk before that, and the answer, each for itself. A table that keeps the latest row of a key is
read into memory as a whole, and is refused before that if its files say that it cannot fit.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from motet.errors import BadInput
from motet.errors.queries import QueryStopped
from motet.limits import MIB, sql_memory_bytes_min, sql_seconds_default, sql_seconds_max

answer_batch_rows = 1 << 17
"""Rows of the answer that are taken at a time; in between it is seen how large it has become."""

interrupt_pause_seconds = 0.05
"""A query that was interrupted before it had begun hears nothing of it: it is interrupted again."""


class AnswerFailed(Exception):
    """What DuckDB said in the middle of an answer: there it comes as an error of Arrow's."""


class QueryBounds(msgspec.Struct, frozen=True):
    """The bounds of one query."""

    seconds: float
    memory_bytes: int
    #: by ``time.monotonic``
    deadline: float

    @property
    def seconds_left(self) -> float:
        return max(self.deadline - time.monotonic(), 0.0)

    def check_time(self) -> None:
        """``QueryStopped`` when there is none left."""
        if not self.seconds_left:
            raise self.too_slow()

    def check_fits(self, what: str, size_bytes: int) -> None:
        """``QueryStopped`` when this is too much for the memory."""
        if size_bytes > self.memory_bytes:
            raise self.too_large(f"{what} has at least {size_bytes} bytes")

    def too_slow(self) -> QueryStopped:
        return QueryStopped(
            f"the query was stopped after timeout={self.seconds:g} seconds",
            hint="give it more with db.sql(…, timeout=seconds) or --timeout, or ask for less",
        )

    def too_large(self, why: str) -> QueryStopped:
        return QueryStopped(
            f"the query needs more than memory_bytes={self.memory_bytes}: {why}",
            hint="give it more with db.sql(…, memory_bytes=…) or --memory-bytes, or ask for less",
        )


def query_bounds(timeout: float | None, memory_bytes: int | None) -> QueryBounds:
    """The bounds of a query that begins now; None for what is usual."""
    seconds = sql_seconds_default if timeout is None else timeout
    memory = usual_memory_bytes() if memory_bytes is None else memory_bytes
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise BadInput(f"timeout is a number of seconds, not {type(timeout).__name__}")
    if not 0 < seconds <= sql_seconds_max:
        raise BadInput(f"timeout={timeout!r} is not within 0 and {sql_seconds_max} seconds")
    if isinstance(memory, bool) or not isinstance(memory, int):
        raise BadInput(f"memory_bytes is a whole number, not {type(memory_bytes).__name__}")
    if memory < sql_memory_bytes_min:
        raise BadInput(f"memory_bytes={memory} is less than a query needs: {sql_memory_bytes_min}")
    return QueryBounds(float(seconds), memory, time.monotonic() + seconds)


def usual_memory_bytes() -> int:
    """Half of what this machine has."""
    return max(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2, 256 * MIB)


@contextmanager
def interrupted_at_end(
    connection: duckdb.DuckDBPyConnection, bounds: QueryBounds
) -> Iterator[None]:
    """Interrupts what runs on a connection when its time is over; then it is ``QueryStopped``."""
    done, is_over = threading.Event(), threading.Event()

    def watch() -> None:
        pause = bounds.seconds_left
        while not done.wait(pause):
            is_over.set()
            connection.interrupt()
            pause = interrupt_pause_seconds

    watching = threading.Thread(target=watch, name="sql-timeout", daemon=True)
    watching.start()
    try:
        yield
    except (duckdb.Error, AnswerFailed):
        if is_over.is_set():
            raise bounds.too_slow() from None
        raise
    finally:
        done.set()
        watching.join()


def collected(answer: duckdb.DuckDBPyRelation, bounds: QueryBounds) -> pa.Table:
    """All rows of an answer, if they fit."""
    reader = answer.to_arrow_reader(answer_batch_rows)
    batches: list[pa.RecordBatch] = []
    size_bytes = 0
    try:
        for batch in reader:
            batches.append(batch)
            size_bytes += batch.nbytes
            bounds.check_fits("its answer", size_bytes)
    except (pa.ArrowException, OSError) as error:
        raise AnswerFailed(str(error)) from None
    return pa.Table.from_batches(batches, schema=reader.schema)


def size_in_memory(path: str) -> int:
    """What the rows of a Parquet file need at least."""
    metadata = pq.read_metadata(path)
    groups = range(metadata.num_row_groups)
    return sum(metadata.row_group(number).total_byte_size for number in groups)
