"""SQL over the tables of a database, all read at one version; and the system's own tables.

These are gathered from whoever knows, as far as a query names them. The feed is among them, as
``system.changes`` and ``system.transaction_commit_clock``: all changes of all streams up to one clock, which
every query takes for itself. What does not fit one page is put into a file for as long as the query takes.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from motet.client.cursors import OLDEST
from motet.client.publication import Snapshot
from motet.client.rows import need_library, need_pyarrow
from motet.client.system_tables import SystemTables
from motet.client.table_reading import At, Consistency, check_consistency, version_of
from motet.client.tables import SYSTEM_PREFIX, Tables
from motet.core.clock.hlc import Clock
from motet.core.streams.change import FeedChange
from motet.errors import BadInput
from motet.ids import TableName, TransactionId
from motet.limits import page_changes_max

if TYPE_CHECKING:
    from motet.client.database import AsyncDatabase
    from motet.client.feed import Page


CHANGES, COMMIT_CLOCKS = "changes", "transaction_commit_clock"


class Queries:
    """Asks a database questions in SQL."""

    def __init__(self, face: AsyncDatabase, tables: Tables) -> None:
        self._face = face
        self._tables = tables
        self._system = SystemTables(face, tables)

    async def run(
        self,
        query: str,
        parameters: Sequence[object] | None,
        consistency: Consistency,
        at: At | Clock,
        timeout: float | None = None,  # noqa: ASYNC109 - it bounds a thread as well
        memory_bytes: int | None = None,
    ) -> Any:
        """The answer as a ``pyarrow.Table``."""
        need_pyarrow("SQL")
        need_library("duckdb", "SQL")
        check_consistency(consistency)
        if not isinstance(query, str):
            raise BadInput(f"a query is text, not {type(query).__name__}")
        at = version_of(at) if isinstance(at, str) else at  # bad text, whatever the query names
        from motet.sql.session import SqlTable, functions_of, query_bounds, run_sql, tables_of

        bounds = query_bounds(timeout, memory_bytes)
        with tempfile.TemporaryDirectory(prefix="motet-feed-") as folder:
            try:
                async with asyncio.timeout(bounds.seconds_left):
                    wanted = await asyncio.to_thread(tables_of, query)
                    called = await asyncio.to_thread(functions_of, query)
                    clocks = await self._clocks(called)
                    extra = await self._system_tables(wanted, at, Path(folder))
                    names = await self._named(wanted)
            except TimeoutError:
                raise bounds.too_slow() from None

            def answer(snapshot: Snapshot | None) -> Any:
                shown = {} if snapshot is None else snapshot.tables
                tables = {
                    str(name): SqlTable(each.definition, self._tables.files.sources(each.files()))
                    for name, each in shown.items()
                }
                return run_sql(query, tables, parameters, extra, clocks, bounds)

            async def use(snapshot: Snapshot) -> Any:
                return await asyncio.to_thread(answer, snapshot)

            if names:
                version = version_of(at) if isinstance(at, Clock) else at
                return await self._tables.read(names, version, consistency, use)
            return await asyncio.to_thread(answer, None)

    async def _named(self, wanted: set[str]) -> list[TableName]:
        """The tables that a query names, as they are called."""
        if not wanted - {each for each in wanted if each.lower().startswith(SYSTEM_PREFIX)}:
            return []
        known = {each.name.lower(): each.name for each in await self._tables.named()}
        return [known[name.lower()] for name in sorted(wanted) if name.lower() in known]

    # The system's own tables

    async def _clocks(self, called: set[str]) -> dict[str, Clock]:
        """What the functions of SQL that give a clock say, as far as a query calls them."""
        found = {}
        # In this order: the visible clock is never above a cluster clock that is asked for later.
        if "visible_clock" in called:
            found["visible_clock"] = await self._face.visible_clock()
        if "cluster_clock" in called:
            found["cluster_clock"] = await self._face.clock()
        return found

    async def _system_tables(
        self, wanted: set[str], at: At | Clock, folder: Path
    ) -> dict[str, Any]:
        """Those of the system that a query names; a feed that is long goes into the folder."""
        names = {
            each.lower().removeprefix(SYSTEM_PREFIX)
            for each in wanted
            if each.lower().startswith(SYSTEM_PREFIX)
        }
        up_to, version = (at, None) if isinstance(at, Clock) else (None, at)
        found = {
            SYSTEM_PREFIX + name: await self._system.table(name, version)
            for name in self._system.names
            if name in names
        }
        if names & {CHANGES, COMMIT_CLOCKS}:
            found |= await self._feed(names, up_to, folder)
        return found

    async def _feed(self, names: set[str], at: Clock | None, folder: Path) -> dict[str, Any]:
        """The feed up to a clock: the one that was asked for, else all that was committed before."""
        from motet.columnar.feed import feed_table
        from motet.columnar.spool import Spool
        from motet.sql.statement import (
            JsonStream,
            changes_schema,
            commit_clock_schema,
            commit_clock_table,
        )

        spools = {
            CHANGES: Spool(folder / CHANGES, changes_schema()),
            COMMIT_CLOCKS: Spool(folder / COMMIT_CLOCKS, commit_clock_schema()),
        }
        streams = [str(info.name) for info in await self._face.streams()]
        if streams:
            up_to = await self._face.visible_clock(*streams, wait=True) if at is None else at
            told: set[TransactionId] = set()
            async for page in self._pages(streams, up_to):
                if CHANGES in names:
                    spools[CHANGES].add(feed_table(page.runs, [JsonStream()]))
                if COMMIT_CLOCKS in names:
                    spools[COMMIT_CLOCKS].add(commit_clock_table(_untold(page.raw, told)))
        return {SYSTEM_PREFIX + name: spools[name].done() for name in spools if name in names}

    async def _pages(self, streams: list[str], up_to: Clock) -> AsyncIterator[Page]:
        """All that is kept: streams that are pruned up to different clocks are read one after the other."""
        by_begin: dict[Clock, list[str]] = {}
        for name, begin in (await self._face.feed_begins(*streams)).items():
            by_begin.setdefault(begin, []).append(name)
        for some in by_begin.values():
            after, more = OLDEST, True
            while more:
                page = await self._face.changes(
                    *some, after=after, limit=page_changes_max, up_to=up_to
                )
                after, more = page.cursor, page.more
                yield page


def _untold(changes: tuple[FeedChange, ...], told: set[TransactionId]) -> list[FeedChange]:
    """Those of transactions that were not told before: parts of one may be read with other streams."""
    parts = Counter(change.transaction for change in changes)
    known = told.intersection(parts)
    told |= {each.transaction for each in changes if parts[each.transaction] < each.count}
    return [change for change in changes if change.transaction not in known]
