"""SQL over the tables of a database, all read at one clock; and the system's own tables."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from motet.client.system_tables import SystemTables
from motet.client.tables import Consistency, Tables, check_consistency, need_arrow
from motet.core.clock.hlc import Clock
from motet.errors import BadInput, MissingLibrary, NotInCluster


class Queries:
    """Asks questions in SQL."""

    def __init__(self, tables: Tables, system: SystemTables) -> None:
        self._tables = tables
        self._system = system

    async def run(
        self,
        query: str,
        parameters: Sequence[object] | None,
        consistency: Consistency,
        at: Clock | None,
        timeout: float | None = None,  # noqa: ASYNC109 - it bounds a thread as well
        memory_bytes: int | None = None,
    ) -> Any:
        """The answer as a ``pyarrow.Table``."""
        need_arrow()
        need_duckdb()
        check_consistency(consistency)
        if not isinstance(query, str):
            raise BadInput(f"a query is text, not {type(query).__name__}")
        from motet.sql.session import functions_of, query_bounds, run_sql, tables_of

        bounds = query_bounds(timeout, memory_bytes)
        with tempfile.TemporaryDirectory(prefix="motet-feed-") as folder:
            try:
                async with asyncio.timeout(bounds.seconds_left):
                    wanted = await asyncio.to_thread(tables_of, query)
                    called = await asyncio.to_thread(functions_of, query)
                    tables = await self._named(wanted, at)
                    clocks = await self._system.clocks(called)
                    extra = await self._system.named(wanted, at, Path(folder))
            except TimeoutError:
                raise bounds.too_slow() from None
            return await asyncio.to_thread(
                run_sql, query, tables, parameters, extra, clocks, bounds
            )

    async def _named(self, wanted: set[str], at: Clock | None) -> dict[str, Any]:
        """The tables that a query names, at one clock."""
        from motet.sql.session import SqlTable

        try:
            known = {info.spec.name.lower(): info.spec.name for info in await self._tables.all()}
        except NotInCluster:
            known = {}  # its system tables can be asked all the same
        names = [known[name.lower()] for name in sorted(wanted) if name.lower() in known]
        tables: dict[str, SqlTable] = {}
        if names:
            snapshot = await self._tables.snapshot(names, at)
            for name, table in snapshot.tables.items():
                paths = await self._tables.paths(table)
                tables[name] = SqlTable(table.spec, table.schema, paths)
        return tables


def need_duckdb() -> None:
    """``MissingLibrary`` when DuckDB is not installed."""
    try:
        import duckdb  # noqa: F401
    except ImportError:
        raise MissingLibrary(
            "SQL needs duckdb, which is not installed", hint="pip install motet[sql]"
        ) from None
