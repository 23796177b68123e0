"""The system's own tables that are no feed: gathered from whoever knows, when a query names them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from motet.client.feed_status import FeedStatus, ShardStanding
from motet.client.publication import TableInfo, WriterInfo
from motet.client.table_reading import At
from motet.client.table_standings import LogOf, ReplicaAt
from motet.client.tables import Tables
from motet.ids import TableId, TableName

if TYPE_CHECKING:
    from motet.client.database import AsyncDatabase

Row = dict[str, object]


class SystemTables:
    """Gathers them for one database."""

    def __init__(self, face: AsyncDatabase, tables: Tables) -> None:
        self._face = face
        self._tables = tables
        self._gather = {
            "tables": self._all_tables,
            "parts": self._parts,
            "replicas": self._replicas,
            "replication_queue": self._replication_queue,
            "log": self._log,
            "quorum": self._quorum,
            "writers": self._writers,
            "nodes": self._nodes,
            "incomplete_transactions": self._incomplete,
            "shards": self._shards,
            "clock": self._clock,
        }
        self.names = ("streams", *self._gather)

    async def table(self, name: str, at: At) -> Any:
        """One of them as a ``pyarrow.Table``; ``at`` counts for parts."""
        from motet.sql.statement import standing_table, streams_table

        if name == "streams":
            return streams_table(await self._face.streams())
        return standing_table(name, await self._gather[name](at))

    # Tables

    async def _all_tables(self, _at: At) -> Sequence[Row]:
        return [_table_row(each) for each in await self._tables.all()]

    async def _parts(self, at: At) -> Sequence[Row]:
        names = [each.name for each in await self._tables.named()]
        if not names:
            return []
        snapshot = await self._tables.snapshot(names, at)
        return [
            {
                "table": table.name,
                "shard": part.shard,
                "name": part.name,
                "id": part.id,
                "partition": part.partition,
                "rows": part.rows,
                "bytes": part.size_bytes,
                "hash": part.location.header.hash,
            }
            for table in snapshot.tables.values()
            for part in table.parts
        ]

    async def _replicas(self, _at: At) -> Sequence[Row]:
        names = await self._names()
        return [_replica_row(each, names) for each in await self._tables.standings.replicas()]

    async def _replication_queue(self, _at: At) -> Sequence[Row]:
        names = await self._names()
        return [
            {
                "table": names.get(each.standing.table),
                "shard": each.standing.shard,
                "node": each.node,
                "entry": queued.number,
                "part": queued.part,
                "reason": queued.reason,
                "tries": queued.tries,
            }
            for each in await self._tables.standings.replicas()
            for queued in each.standing.queue
        ]

    async def _log(self, _at: At) -> Sequence[Row]:
        return [
            {
                "table": log.table,
                "shard": log.shard,
                "entry": each.number,
                "type": each.kind,
                "parts": list(each.parts),
                "detail": each.detail,
                "zxid": each.version,
                "created": each.created_ms,
            }
            for log in await self._logs()
            for each in log.entries
        ]

    async def _logs(self) -> list[LogOf]:
        return await self._tables.standings.logs(await self._tables.named())

    async def _quorum(self, _at: At) -> Sequence[Row]:
        return [
            {
                "table": log.table,
                "shard": log.shard,
                "part": each.part,
                "wanted": each.wanted,
                "members": list(each.members),
                "since": each.since_ms,
            }
            for log in await self._logs()
            for each in log.quorums
        ]

    async def _names(self) -> dict[TableId, TableName]:
        return {each.definition.id: each.name for each in await self._tables.named()}

    async def _writers(self, _at: At) -> Sequence[Row]:
        return [_writer_row(each) for each in await self._tables.writers()]

    # Streams

    async def _nodes(self, _at: At) -> Sequence[Row]:
        return _rows(await self._face.nodes())

    async def _incomplete(self, _at: At) -> Sequence[Row]:
        return _rows(await self._face.incomplete_transactions())

    async def _shards(self, _at: At) -> Sequence[Row]:
        status = await self._face.feed_status()
        return [_shard_row(status, each) for each in status.shards]

    async def _clock(self, _at: At) -> Sequence[Row]:
        status = await self._face.feed_status()
        behind_ms = status.behind_ms(status.visible)
        clocks = {"clock": status.clock, "visible": status.visible}
        return [{**clocks, "behind_ms": behind_ms, "enabled": status.clock_enabled}]


def _rows(structs: Iterable[msgspec.Struct]) -> list[Row]:
    return [msgspec.structs.asdict(each) for each in structs]


def _table_row(info: TableInfo) -> Row:
    definition = info.definition
    return {
        "name": info.name,
        "id": definition.id,
        "engine": definition.engine,
        "order_by": list(definition.order_by),
        "partition_by": definition.partition_by,
        "shard_by": list(definition.shard_by),
        "version": definition.version,
        "tombstone": definition.tombstone,
        "dedup": definition.dedup,
        "dedup_window": info.settings.dedup_window,
        "columns": [column.name for column in definition.columns],
        "shards": definition.shards,
        "replicas": info.replicas,
        "parts": info.parts,
        "rows": info.rows,
        "bytes": info.size_bytes,
        "created": info.created_ms,
    }


def _replica_row(replica: ReplicaAt, names: dict[TableId, TableName]) -> Row:
    standing = replica.standing
    return {
        "table": names.get(standing.table),
        "table_id": standing.table,
        "shard": standing.shard,
        "node": replica.node,
        "endpoint": replica.endpoint or None,
        "phase": standing.phase,
        "why": standing.why or None,
        "log_pointer": standing.log_pointer,
        "head": standing.head,
        "queue": len(standing.queue),
        "parts": standing.parts,
        "bytes": standing.size_bytes,
    }


def _writer_row(info: WriterInfo) -> Row:
    return {
        "name": info.writer,
        "epoch": info.step and info.step.epoch,
        "through": info.step and info.step.through,
        "version": info.version and str(info.version),
        "published": info.published_ms or None,
        "rows": info.rows,
        "steps": info.steps,
        "tables": list(info.tables),
        "error": info.error,
    }


def _shard_row(status: FeedStatus, shard: ShardStanding) -> Row:
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
