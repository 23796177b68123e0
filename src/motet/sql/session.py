"""SQL over the parts of some tables: DuckDB in memory, made for one query and closed after it.

A table is a view of the files of its parts; one that replaces shows the latest row of each key, worked out
by the same code that everybody else uses. Nothing else can be seen: no variable of the caller's, no other
file, and nothing can be written. What DuckDB says against a query is a ``BadInput``; one that goes beyond its
bounds is a ``QueryStopped`` (:mod:`motet.sql.bounds`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa

from motet.columnar.table_read import read_table
from motet.core.clock.hlc import Clock
from motet.core.tables.records import TableSpec
from motet.errors import DiskReadFailed, MotetError, NoSuchTable
from motet.sql.bounds import (
    AnswerFailed,
    QueryBounds,
    collected,
    interrupted_at_end,
    query_bounds,
    size_in_memory,
)
from motet.sql.statement import (
    checked_statement,
    functions_of,
    refusal,
    tables_of,
    with_system_tables,
)

__all__ = ["Parameters", "SqlTable", "functions_of", "run_sql", "tables_of"]

Parameters = Sequence[object] | Mapping[str, object] | None

GLOB_CHARACTERS = frozenset("*?[")
"""In a path, DuckDB takes them for a pattern."""


class SqlTable(msgspec.Struct, frozen=True):
    """A table at some clock."""

    spec: TableSpec
    schema: Any  # a pyarrow.Schema
    #: the files of its parts, oldest first
    paths: list[Path]


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
    with (
        tempfile.TemporaryDirectory(prefix="motet-sql-") as overflow,
        _connected(bounds) as connection,
    ):
        checked_statement(query, connection)
        try:
            connection.execute("set TimeZone = 'UTC'")
            connection.execute(f"set temp_directory = {_text(overflow)}")
            for name, table in tables.items():
                _show(connection, name, table, bounds)
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
        except (duckdb.Error, AnswerFailed) as error:
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
    connection: duckdb.DuckDBPyConnection, name: str, table: SqlTable, bounds: QueryBounds
) -> None:
    """Make a table visible under its name."""
    is_replacing = table.spec.engine == "replacing"
    is_odd = any(GLOB_CHARACTERS & set(str(path.absolute())) for path in table.paths)
    if is_replacing or is_odd or not table.paths:
        size_bytes = sum(size_in_memory(str(path)) for path in table.paths)
        bounds.check_fits(f"table {name}, which is read as a whole,", size_bytes)
        connection.register(name, read_table(table.spec, [str(path) for path in table.paths]))
        return
    columns = ", ".join(_name(column) for column in table.schema.names)
    paths = ", ".join(_text(str(path.absolute())) for path in table.paths)
    connection.execute(
        f"create view {_name(name)} as select {columns} "  # noqa: S608
        f"from read_parquet([{paths}], hive_partitioning = false)"
    )


def _define(connection: duckdb.DuckDBPyConnection, clocks: Mapping[str, Clock]) -> None:
    """Functions that give a clock; and the id of the transaction, of which a query has none."""
    connection.execute("create macro transaction_id() as null::varchar")
    for name, clock in clocks.items():
        fields = f"'logical': {clock.logical}::bigint, 'counter': {clock.counter}::integer"
        connection.execute(f"create macro {_name(name)}() as {{{fields}}}")


def _lock(connection: duckdb.DuckDBPyConnection, paths: Sequence[Path]) -> None:
    """From here on nothing but these files can be opened, and no setting changed."""
    listed = ", ".join(_text(str(path.absolute())) for path in paths)
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
