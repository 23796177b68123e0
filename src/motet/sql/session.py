"""SQL over the parts of some tables: DuckDB in memory, made for one query and closed after it.

A table is a view of the files of its parts; one that replaces shows the latest row of each key, worked out
by the same code that everybody else uses. Nothing else can be seen: no variable of the caller's, no other
file, and nothing can be written. What DuckDB says against a query is a ``BadInput``; one that goes beyond its
bounds is a ``QueryStopped``.

The time counts from the call to the last row of the answer. The memory bounds what DuckDB works with, which
spills to disk before that, and the answer, each for itself. A table that keeps the latest row of a key is
read into memory as a whole, and is refused before that if its files say that it cannot fit.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.dataset as pa_dataset

from motet.columnar.part_reader import read_table
from motet.columnar.part_sources import CheckedRanges, LocalPart, PartSource, RemotePart
from motet.columnar.schema import decode_schema
from motet.core.clock.hlc import Clock
from motet.core.metadata.definitions import TableDefinition
from motet.errors import BadInput, DiskReadFailed, MotetError, NoSuchTable
from motet.errors.queries import QueryStopped
from motet.limits import MIB, sql_memory_bytes_min, sql_seconds_default, sql_seconds_max
from motet.sql.statement import (
    checked_statement,
    functions_of,
    refusal,
    tables_of,
    with_system_tables,
)

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


def size_in_memory(source: PartSource) -> int:
    """What the rows of a part need at least."""
    with source.open() as file:
        metadata = file.metadata
    groups = range(metadata.num_row_groups)
    return sum(metadata.row_group(number).total_byte_size for number in groups)


__all__ = ["Parameters", "SqlTable", "functions_of", "run_sql", "tables_of"]

Parameters = Sequence[object] | Mapping[str, object] | None

GLOB_CHARACTERS = frozenset("*?[")
"""In a path, DuckDB takes them for a pattern."""


class SqlTable(msgspec.Struct, frozen=True):
    """A table at some version."""

    definition: TableDefinition
    #: its parts, of each shard oldest first
    sources: list[PartSource]

    @property
    def paths(self) -> list[Path]:
        """The files of its parts that are on this machine."""
        return [each.path.absolute() for each in self.sources if isinstance(each, LocalPart)]


def run_sql(
    query: str,
    tables: Mapping[str, SqlTable],
    parameters: Parameters = None,
    extra: Mapping[str, Any] | None = None,
    clocks: Mapping[str, Clock] | None = None,
    bounds: QueryBounds | None = None,
) -> pa.Table:
    """The answer. ``extra`` has ready-made tables, the system's own under names like ``system.parts``.

    Such a table is a ``pyarrow.Table`` or a dataset. ``clocks`` are functions without arguments.
    """
    extra = {} if extra is None else extra
    bounds = query_bounds(None, None) if bounds is None else bounds
    #: what has gone wrong with parts that are elsewhere
    failures: list[MotetError] = []
    with (
        tempfile.TemporaryDirectory(prefix="motet-sql-") as overflow,
        _connected(bounds) as connection,
    ):
        checked_statement(query, connection)
        try:
            connection.execute("set TimeZone = 'UTC'")
            connection.execute(f"set temp_directory = {_text(overflow)}")
            for name, table in tables.items():
                _show(connection, name, table, bounds, failures)
            for name, rows in extra.items():
                connection.register(name, rows)
            _define(connection, clocks or {})
            _lock(connection, [path for table in tables.values() for path in table.paths])
            ready = with_system_tables(query, extra)
            bounds.check_time()
            with interrupted_at_end(connection, bounds):
                answer = connection.sql(ready, params=_plain(parameters))
                types = list(map(str, answer.types))
                return _whole_numbers(collected(answer, bounds), types)
        except (duckdb.Error, AnswerFailed, pa.ArrowException, OSError) as error:
            if failures:
                raise failures[0] from None
            raise _refused(error, query, {*tables, *extra}, bounds) from None


def _whole_numbers(rows: pa.Table, types: Sequence[str]) -> pa.Table:
    """Sums of whole numbers as such: DuckDB makes them 128 bits wide, which Arrow only has as decimals."""
    for place, kind in enumerate(types):
        if kind == "HUGEINT":
            with suppress(pa.ArrowInvalid):  # too large for 64 bits: then it stays a decimal
                narrow = rows.column(place).cast(pa.int64())
                rows = rows.set_column(place, rows.field(place).with_type(pa.int64()), narrow)
    return rows


def _plain(parameters: Parameters) -> object:
    """DuckDB knows lists and dicts."""
    if parameters is None or isinstance(parameters, Mapping):
        return None if parameters is None else dict(parameters)
    return list(parameters)


def _connected(bounds: QueryBounds) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(
        ":memory:",
        config={
            "python_enable_replacements": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "memory_limit": f"{bounds.memory_bytes}B",
        },
    )


def _show(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    table: SqlTable,
    bounds: QueryBounds,
    failures: list[MotetError],
) -> None:
    """Make a table visible under its name."""
    definition, sources = table.definition, table.sources
    is_local = len(table.paths) == len(sources)
    is_odd = any(GLOB_CHARACTERS & set(str(path)) for path in table.paths)
    if definition.engine == "replacing" or not sources or (is_local and is_odd):
        size_bytes = sum(map(size_in_memory, sources))
        bounds.check_fits(f"table {name}, which is read as a whole,", size_bytes)
        connection.register(name, read_table(definition, sources))
        return
    if not is_local:
        connection.register(name, _dataset(definition, sources, failures))
        return
    for source in sources:
        assert isinstance(source, LocalPart)
        source.checked_path()
    columns = ", ".join(_name(column.name) for column in definition.columns)
    paths = ", ".join(map(_text, map(str, table.paths)))
    connection.execute(
        f"create view {_name(name)} as select {columns} "  # noqa: S608
        f"from read_parquet([{paths}], hive_partitioning = false)"
    )


class _Noted(CheckedRanges):
    """Ranges of a file; what goes wrong is noted, since Arrow and DuckDB make a text of it."""

    def __init__(self, part: RemotePart, failures: list[MotetError]) -> None:
        super().__init__(part.manifest, part.fetch)
        self._failures = failures

    def read(self, size: int | None = -1) -> bytes:
        try:
            return super().read(size)
        except MotetError as error:
            self._failures.append(error)
            raise


def _dataset(
    definition: TableDefinition, sources: Sequence[PartSource], failures: list[MotetError]
) -> pa_dataset.Dataset:
    """Parts of which some are elsewhere: of these, what a query needs is fetched."""
    parquet = pa_dataset.ParquetFileFormat()
    files = [
        pa.PythonFile(_Noted(each, failures), mode="r")
        if isinstance(each, RemotePart)
        else _local(each)
        for each in sources
    ]
    fragments = [parquet.make_fragment(file) for file in files]
    return pa_dataset.FileSystemDataset(fragments, decode_schema(definition.schema), parquet)


def _local(source: PartSource) -> Any:
    assert isinstance(source, LocalPart)
    return pa.memory_map(str(source.checked_path()))


def _define(connection: duckdb.DuckDBPyConnection, clocks: Mapping[str, Clock]) -> None:
    """Functions that give a clock; and the id of the transaction, of which a query has none."""
    connection.execute("create macro transaction_id() as null::varchar")
    for name, clock in clocks.items():
        fields = f"'logical': {clock.logical}::bigint, 'counter': {clock.counter}::integer"
        connection.execute(f"create macro {_name(name)}() as {{{fields}}}")


def _lock(connection: duckdb.DuckDBPyConnection, paths: Sequence[Path]) -> None:
    """From here on nothing but these files can be opened, and no setting changed."""
    listed = ", ".join(map(_text, map(str, paths)))
    connection.execute(f"set allowed_paths = [{listed}]")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")


def _refused(error: Exception, query: str, known: set[str], bounds: QueryBounds) -> MotetError:
    said = str(error)
    if isinstance(error, duckdb.OutOfMemoryException) or said.startswith("Out of Memory"):
        return bounds.too_large(said.splitlines()[0])
    if isinstance(error, duckdb.IOException) or said.startswith("IO Error"):
        return DiskReadFailed(f"the parts of a table cannot be read: {error}")
    if isinstance(error, duckdb.CatalogException):
        there = {name.lower() for name in known}
        for name in sorted(tables_of(query)):
            if name.lower() not in there:
                return NoSuchTable(f"there is no table {name!r}")
    return refusal(error)


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
