"""SQL over the tables of a database, all read at one clock; and the system's own tables."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from motet.client.calls import Calls
from motet.client.tables import Consistency, Tables, check_consistency, need_arrow
from motet.client.writers import Writers
from motet.core.clock.hlc import Clock
from motet.core.streams.messages import Describe, Described
from motet.core.tables.checks import SYSTEM_PREFIX
from motet.errors import BadInput, MissingLibrary


class Queries:
    """Asks questions in SQL."""

    def __init__(self, calls: Calls, tables: Tables, writers: Writers) -> None:
        self._calls = calls
        self._tables = tables
        self._writers = writers

    async def run(
        self,
        query: str,
        parameters: Sequence[object] | None,
        consistency: Consistency,
        at: Clock | None,
    ) -> Any:
        """The answer as a ``pyarrow.Table``."""
        need_arrow()
        need_duckdb()
        check_consistency(consistency)
        if not isinstance(query, str):
            raise BadInput(f"a query is text, not {type(query).__name__}")
        from motet.sql.session import SqlTable, run_sql, tables_of

        wanted = await asyncio.to_thread(tables_of, query)
        known = {info.spec.name.lower(): info.spec.name for info in await self._tables.all()}
        names = [known[name.lower()] for name in sorted(wanted) if name.lower() in known]
        tables: dict[str, SqlTable] = {}
        if names:
            snapshot = await self._tables.snapshot(names, at)
            for name, table in snapshot.tables.items():
                paths = await self._tables.paths(table)
                tables[name] = SqlTable(table.spec, table.schema, paths)
        extra = await self._system(wanted, at)
        return await asyncio.to_thread(run_sql, query, tables, parameters, extra)

    async def _system(self, wanted: set[str], at: Clock | None) -> dict[str, Any]:
        """The system's own tables, as far as they are asked for."""
        makers = {
            "tables": self._system_tables,
            "parts": self._system_parts,
            "streams": self._system_streams,
            "writers": self._system_writers,
        }
        extra = {}
        for name, make in makers.items():
            if SYSTEM_PREFIX + name in {each.lower() for each in wanted}:
                extra[SYSTEM_PREFIX + name] = await make(at)
        return extra

    async def _system_tables(self, _at: Clock | None) -> Any:
        from motet.sql.system import tables_table

        return tables_table(await self._tables.all())

    async def _system_parts(self, at: Clock | None) -> Any:
        from motet.sql.system import parts_table

        names = [info.spec.name for info in await self._tables.all()]
        snapshots = [await self._tables.snapshot_of(name, at) for name in names]
        return parts_table([(each.spec, each.parts) for each in snapshots])

    async def _system_streams(self, _at: Clock | None) -> Any:
        from motet.sql.system import streams_table

        described = await self._calls.repeated(Describe, Described)
        return streams_table(described.streams)

    async def _system_writers(self, _at: Clock | None) -> Any:
        from motet.sql.system import writers_table

        return writers_table(await self._writers.all())


def need_duckdb() -> None:
    """``MissingLibrary`` when DuckDB is not installed."""
    try:
        import duckdb  # noqa: F401
    except ImportError:
        raise MissingLibrary(
            "SQL needs duckdb, which is not installed", hint="pip install motet[sql]"
        ) from None
