"""The calls of a database about tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from motet.client.publication import Publication, Snapshot, TableInfo, TablePart, WriterInfo
from motet.client.query import Queries
from motet.client.table import AsyncTable
from motet.client.table_reading import At, Consistency
from motet.client.table_writers import writer_name
from motet.client.tables import Tables
from motet.core.clock.hlc import Clock
from motet.core.clock.writer_step import WriterStep
from motet.core.mergetree.messages import PublishedStep
from motet.core.metadata.definitions import TableDefinition, TableEngine
from motet.errors import BadInput
from motet.ids import TableId, TableName
from motet.limits import writer_note_length_max


class TablesFace:
    """What a database has for tables, SQL and ordered writers."""

    _tables: Tables
    _queries: Queries
    #: what errors call the database
    _name: str

    async def create_table(
        self,
        name: str,
        schema: object,
        order_by: str | Sequence[str],
        partition_by: str | None = None,
        shards: int = 1,
        replicas: int | None = None,
        shard_by: str | Sequence[str] | None = None,
        engine: TableEngine = "merge",
        version: str | None = None,
        tombstone: str | None = None,
        dedup: str | None = None,
        disk: str = "local",
    ) -> AsyncTable:
        """Create a table; the same once more is fine, another one of that name is ``TableExists``.

        ``merge`` keeps all rows; ``replacing`` keeps of each key (``order_by``) the row with the highest
        ``version``, or the last one, and none if that says true in its ``tombstone`` column. Rows go to
        shards by a hash of ``shard_by`` (the first column of the key), and to partitions by ``partition_by``:
        a column, ``day``, ``month`` or ``year`` of a time, or ``bucket(n, column)``. With ``dedup="content"``
        equal blocks are inserted once.
        """

        def definition(table: TableName, number: TableId) -> TableDefinition:
            from motet.columnar.definitions import make_definition

            return make_definition(
                *(table, number, schema, order_by),
                partition_by=partition_by,
                shards=shards,
                shard_by=shard_by,
                engine=engine,
                version=version,
                tombstone=tombstone,
                dedup=dedup,
                disk=disk,
            )

        await self._tables.create(name, replicas, definition)
        return self.table(name)

    async def drop_table(self, name: str) -> None:
        """Drop a table with all its rows; its name is free at once."""
        await self._tables.drop(name)

    async def rename_table(self, name: str, new_name: str) -> None:
        """Give a table another name; ``TableExists`` if another one has that."""
        await self._tables.rename(name, new_name)

    async def set_table(self, name: str, **settings: int | None) -> None:
        """Change settings of a table, while it is in use; None takes one back.

        ``dedup_window``: how many hashes of blocks a shard remembers, with ``dedup="content"`` (1,000).
        """
        await self._tables.set(name, settings)

    def table(self, name: str) -> AsyncTable:
        """A table by its name."""
        return AsyncTable(self._tables, name, self._name)

    async def tables(self) -> list[TableInfo]:
        """All tables, by name, with their size."""
        return await self._tables.all()

    async def stage(
        self, table: str, data: object, quorum: int | str = "majority", job: str | None = None
    ) -> list[TablePart]:
        """Have rows held as parts of a table that nobody sees before they are published.

        So many replicas hold each of them, for an hour, or as long as the staging job is open. They can be
        pickled, and published by another process.
        """
        return await self._tables.stage(table, data, quorum, job)

    async def open_job(self, job: str, tables: Sequence[str]) -> None:
        """Open a staging job: parts that are staged in it for these tables are held until it ends.

        Its name is new; to repeat the call is fine. It ends when it is published, or a minute after it was
        renewed last.
        """
        await self._tables.open_job(job, tables)

    async def renew_job(self, job: str, tables: Sequence[str]) -> None:
        """Say that a staging job goes on, every 20 seconds; ``StagingEnded`` if it does not."""
        await self._tables.renew_job(job, tables)

    async def publish(
        self,
        parts: Sequence[TablePart | Sequence[TablePart]],
        *,
        token: str | tuple[str, int] | None = None,
        step: WriterStep | None = None,
        replace: Sequence[str] | Mapping[str, Sequence[str]] | None = None,
        job: str | None = None,
    ) -> Publication:
        """Make staged parts of any tables visible, all at once or not at all.

        With a writer's step also only if it is the next one of that writer: ``WriterFenced`` if not; one
        that was done already changes nothing. ``replace`` names partitions, of each table if there are
        several: what they had before is dropped at the same version. A staging ``job`` that is open ends
        with it.
        """
        return await self._tables.publish(parts, token, step, replace, job)

    async def snapshot(self, *tables: str, at: At = None, through: Clock | None = None) -> Snapshot:
        """Some tables at one version: that of this moment, or another one.

        ``at`` is a version, its text, a snapshot, or a moment with its time zone. ``through`` is a clock of
        the feed, for tables of a pipeline: they are shown as they were when it had first published up to
        there.
        """
        if through is None:
            return await self._tables.snapshot(tables, at)
        if at is not None:
            raise BadInput("a snapshot is at a version or through a clock, not both")
        return await self._tables.snapshot_through(tables, through)

    async def sql(
        self,
        query: str,
        parameters: Sequence[object] | None = None,
        consistency: Consistency = "sequential",
        at: At | Clock = None,
        timeout: float | None = None,  # noqa: ASYNC109 - it bounds a thread as well
        memory_bytes: int | None = None,
    ) -> Any:
        """Ask in SQL (DuckDB's), all tables at one version; a ``pyarrow.Table``.

        ``at`` is as for ``snapshot``; a clock bounds ``system.changes``, and is for queries of no table.

        ``QueryStopped`` after so many seconds (an hour), or if it needs more memory than that (half of what
        the machine has).
        """
        return await self._queries.run(query, parameters, consistency, at, timeout, memory_bytes)

    # Ordered writers

    async def writer(self, name: str) -> WriterInfo | None:
        """How far an ordered writer is; None if it has never published or said anything."""
        found = await self._tables.writers(writer_name(name))
        return found[0] if found else None

    async def writers(self) -> list[WriterInfo]:
        """All ordered writers, by name."""
        return await self._tables.writers()

    async def writer_steps(self, name: str) -> list[PublishedStep]:
        """The last 10,000 steps of an ordered writer, each with its version, the oldest first."""
        return await self._tables.ordered_writers.steps(writer_name(name))

    async def note_writer(self, name: str, error: str) -> None:
        """Remember an ordered writer's last error; empty when all is well. A long one is cut."""
        await self._tables.ordered_writers.note(writer_name(name), error[:writer_note_length_max])
