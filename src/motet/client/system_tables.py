"""The system's own tables for SQL, gathered from whoever knows, as far as a query names them.

The feed is among them, as ``system.changes`` and ``system.transaction_commit_clock``: all changes of all
streams up to one clock, which every query takes for itself. What does not fit one page is put into a file for
as long as the query takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from motet.client.cursor import OLDEST
from motet.client.tables import Tables
from motet.core.clock.hlc import Clock
from motet.core.streams.change import FeedChange
from motet.core.tables.checks import SYSTEM_PREFIX
from motet.ids import TransactionId
from motet.limits import page_changes_max

if TYPE_CHECKING:
    from motet.client.database import AsyncDatabase
    from motet.client.feed import Page

CHANGES, COMMIT_CLOCKS = "changes", "transaction_commit_clock"
Maker = Callable[[Clock | None], Awaitable[Any]]


class SystemTables:
    """What there is, as tables."""

    def __init__(self, face: AsyncDatabase, tables: Tables) -> None:
        self._face = face
        self._tables = tables
        self._makers: dict[str, Maker] = {
            "tables": self._table_rows,
            "parts": self._part_rows,
            "streams": self._stream_rows,
            "writers": self._writer_rows,
            "shards": self._shard_rows,
            "nodes": self._node_rows,
            "clock": self._clock_rows,
            "incomplete_transactions": self._incomplete_rows,
        }

    async def clocks(self, called: set[str]) -> dict[str, Clock]:
        """What the functions of SQL that give a clock say, as far as a query calls them."""
        found = {}
        if "cluster_clock" in called:
            found["cluster_clock"] = await self._face.clock()
        if "visible_clock" in called:
            found["visible_clock"] = await self._face.visible_clock()
        return found

    async def named(self, wanted: set[str], at: Clock | None, folder: Path) -> dict[str, Any]:
        """Those that a query names; a feed that is long goes into the folder."""
        names = {
            each.lower().removeprefix(SYSTEM_PREFIX)
            for each in wanted
            if each.lower().startswith(SYSTEM_PREFIX)
        }
        found = {
            SYSTEM_PREFIX + name: await make(at)
            for name, make in self._makers.items()
            if name in names
        }
        if names & {CHANGES, COMMIT_CLOCKS}:
            found |= await self._feed(names, at, folder)
        return found

    async def _feed(self, names: set[str], at: Clock | None, folder: Path) -> dict[str, Any]:
        """The feed up to a clock: the one that was asked for, else all that was committed before."""
        from motet.columnar.feed import feed_table
        from motet.columnar.spool import Spool
        from motet.sql.system import (
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

    async def _table_rows(self, _at: Clock | None) -> Any:
        from motet.sql.system import tables_table

        return tables_table(await self._tables.all())

    async def _part_rows(self, at: Clock | None) -> Any:
        from motet.sql.system import parts_table

        names = [info.spec.name for info in await self._tables.all()]
        snapshots = [await self._tables.snapshot_of(name, at) for name in names]
        return parts_table([(each.spec, each.parts) for each in snapshots])

    async def _stream_rows(self, _at: Clock | None) -> Any:
        from motet.sql.system import streams_table

        return streams_table(await self._face.streams())

    async def _writer_rows(self, _at: Clock | None) -> Any:
        from motet.sql.system import writers_table

        return writers_table(await self._face.writers())

    async def _shard_rows(self, _at: Clock | None) -> Any:
        from motet.sql.system import standing_table

        status = await self._face.feed_status()
        rows = [
            {
                "stream": each.stream,
                "shard": each.shard,
                "leader": each.leader,
                "ensemble": list(each.ensemble),
                "closed": each.closed,
                "behind_ms": status.behind_ms(each.closed),
                "held_by": each.transaction,
                "error": each.error or None,
            }
            for each in status.shards
        ]
        return standing_table("shards", rows)

    async def _node_rows(self, _at: Clock | None) -> Any:
        from motet.sql.system import standing_table

        nodes = await self._face.nodes()
        return standing_table("nodes", [msgspec.structs.asdict(each) for each in nodes])

    async def _clock_rows(self, _at: Clock | None) -> Any:
        from motet.sql.system import standing_table

        found = await self._face.feed_status()
        behind_ms = found.behind_ms(found.visible)
        row = {
            "clock": found.clock,
            "visible": found.visible,
            "behind_ms": behind_ms,
            "enabled": found.clock_enabled,
        }
        return standing_table("clock", [row])

    async def _incomplete_rows(self, _at: Clock | None) -> Any:
        from motet.sql.system import standing_table

        found = await self._face.incomplete_transactions()
        rows = [msgspec.structs.asdict(each) for each in found]
        return standing_table("incomplete_transactions", rows)


def _untold(changes: tuple[FeedChange, ...], told: set[TransactionId]) -> list[FeedChange]:
    """Those of transactions that were not told before: parts of one may be read with other streams."""
    parts = Counter(change.transaction for change in changes)
    known = told.intersection(parts)
    told |= {each.transaction for each in changes if parts[each.transaction] < each.count}
    return [change for change in changes if change.transaction not in known]
