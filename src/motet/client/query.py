"""SQL over the tables of a database, all read at one clock; and the system's own tables.

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

import msgspec

from motet.client.cursors import OLDEST
from motet.client.feed_status import FeedStatus, ShardStanding
from motet.client.rows import need_library, need_pyarrow
from motet.client.tables import Consistency, Tables, check_consistency
from motet.core.clock.hlc import Clock
from motet.core.streams.change import FeedChange
from motet.core.tables.checks import SYSTEM_PREFIX
from motet.errors import BadInput, NotInCluster
from motet.ids import TransactionId
from motet.limits import page_changes_max

if TYPE_CHECKING:
    from motet.client.database import AsyncDatabase
    from motet.client.feed import Page


CHANGES, COMMIT_CLOCKS = "changes", "transaction_commit_clock"
GATHERED = (
    "tables",
    "parts",
    "streams",
    "writers",
    "shards",
    "nodes",
    "clock",
    "incomplete_transactions",
)
"""The system's tables that are no feed."""


class Queries:
    """Asks a database questions in SQL."""

    def __init__(self, face: AsyncDatabase, tables: Tables) -> None:
        self._face = face
        self._tables = tables

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
        need_pyarrow("SQL")
        need_library("duckdb", "SQL")
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
                    clocks = await self._clocks(called)
                    extra = await self._system_tables(wanted, at, Path(folder))
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
        self, wanted: set[str], at: Clock | None, folder: Path
    ) -> dict[str, Any]:
        """Those of the system that a query names; a feed that is long goes into the folder."""
        names = {
            each.lower().removeprefix(SYSTEM_PREFIX)
            for each in wanted
            if each.lower().startswith(SYSTEM_PREFIX)
        }
        found = {SYSTEM_PREFIX + n: await self._gathered(n, at) for n in GATHERED if n in names}
        if names & {CHANGES, COMMIT_CLOCKS}:
            found |= await self._feed(names, at, folder)
        return found

    async def _feed(self, names: set[str], at: Clock | None, folder: Path) -> dict[str, Any]:
        """The feed up to a clock: the one that was asked for, else all that was committed before."""
        from motet.columnar.feed import feed_table
        from motet.columnar.part_file import Spool
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

    async def _gathered(self, name: str, at: Clock | None) -> Any:
        """One of the tables that are no feed."""
        from motet.sql import statement as system

        face = self._face
        match name:
            case "tables":
                return system.tables_table(await self._tables.all())
            case "parts":
                names = [info.spec.name for info in await self._tables.all()]
                snapshots = [await self._tables.snapshot_of(name, at) for name in names]
                return system.parts_table([(each.spec, each.parts) for each in snapshots])
            case "streams":
                return system.streams_table(await face.streams())
            case "writers":
                return system.writers_table(await face.writers())
            case "nodes":
                rows = [msgspec.structs.asdict(each) for each in await face.nodes()]
            case "incomplete_transactions":
                found = await face.incomplete_transactions()
                rows = [msgspec.structs.asdict(each) for each in found]
            case "shards":
                status = await face.feed_status()
                rows = [_shard_row(status, each) for each in status.shards]
            case "clock":
                status = await face.feed_status()
                clocks = {"clock": status.clock, "visible": status.visible}
                behind_ms = status.behind_ms(status.visible)
                rows = [{**clocks, "behind_ms": behind_ms, "enabled": status.clock_enabled}]
            case _:
                raise AssertionError(f"no table of the system: {name}")
        return system.standing_table(name, rows)


def _shard_row(status: FeedStatus, shard: ShardStanding) -> dict[str, object]:
    return {
        "stream": shard.stream,
        "shard": shard.shard,
        "leader": shard.leader,
        "ensemble": list(shard.ensemble),
        "closed": shard.closed,
        "behind_ms": status.behind_ms(shard.closed),
        "held_by": shard.transaction,
        "error": shard.error or None,
    }


def _untold(changes: tuple[FeedChange, ...], told: set[TransactionId]) -> list[FeedChange]:
    """Those of transactions that were not told before: parts of one may be read with other streams."""
    parts = Counter(change.transaction for change in changes)
    known = told.intersection(parts)
    told |= {each.transaction for each in changes if parts[each.transaction] < each.count}
    return [change for change in changes if change.transaction not in known]
