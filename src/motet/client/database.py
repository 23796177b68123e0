"""The database as a client sees it, for asyncio: streams, transactions, the feed, and tables.

Everything that waits is a coroutine; it is the same over a socket and within one process. The face without
an event loop is in :mod:`motet.client.sync`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from itertools import count
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from motet.client.calls import Calls
from motet.client.change import Change
from motet.client.cursors import Bookmark, NodeOrders, bookmark_clock, bookmark_text
from motet.client.feed import Feed
from motet.client.feed_face import FeedFace
from motet.client.link import Link
from motet.client.publication import Publication, Snapshot, TableInfo, TablePart, WriterInfo
from motet.client.query import Queries
from motet.client.rows import Schemas, shard_count, stream_name, transaction_id, whole_number
from motet.client.stream import AsyncStream
from motet.client.table_reading import At, Consistency
from motet.client.tables import AsyncTable, Tables, writer_name
from motet.client.transaction import AsyncTransaction, Attempts, TransactionStatus, attempts_default
from motet.core.clock.hlc import ZERO, Clock, plus
from motet.core.clock.writer_step import WriterStep
from motet.core.mergetree.messages import PublishedStep
from motet.core.metadata.definitions import TableDefinition, TableEngine
from motet.core.onelog.messages import (
    ClockEnabled,
    CreateStream,
    Describe,
    Described,
    EnableClock,
    GetTransaction,
    StreamInfo,
    StreamReady,
    StreamsAnswer,
    TransactionIs,
)
from motet.errors import BadBookmark, BadInput, Conflict, NodeError
from motet.errors.shards import CursorExpired
from motet.ids import Address, TableId, TableName, TransactionId
from motet.limits import writer_note_length_max
from motet.real.process import RealEntropy

T = TypeVar("T")

connect_seconds_max = 3.0
"""How long one endpoint of several is tried."""


class Home(Protocol):
    """What a database lives in: a node of this process, or one at an endpoint."""

    async def endpoint(self) -> str:
        """Where others can reach it."""


class AsyncDatabase(FeedFace):
    """A database; made by ``motet.aio.open`` or ``motet.aio.connect``."""

    def __init__(
        self, calls: Calls, database: int, home: Home, tables: Tables, opened: AsyncExitStack
    ) -> None:
        self._calls = calls
        self._home = home
        #: its own number: a cursor or a checkpoint of another one is refused
        self.database_id = database
        #: what ends with us, the last first
        self._opened = opened
        self.schemas = Schemas(calls)
        self._feed = Feed(calls, database, self.schemas)
        self._orders = NodeOrders(calls)
        self._entropy = RealEntropy()
        self._tables = tables
        self._queries = Queries(self, self._tables)
        #: makes the ids of our transactions different from those of all other clients
        self._session = self._entropy.nonce()
        self._transactions = count(1)

    # Life

    async def endpoint(self) -> str:
        """Where other processes reach it; an embedded one serves from the first time it is asked."""
        if self._calls.is_closing():
            raise NodeError(f"{self._calls.name} is closed", hint="open it once more")
        return await self._home.endpoint()

    async def close(self) -> None:
        """Let what is under way be answered, and end; a second time is fine."""
        if not self._calls.is_closing():
            await asyncio.gather(self._calls.close(), self._tables.close())
            await self._opened.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<Database {self._calls.name}{', closed' if self._calls.is_closing() else ''}>"

    # Streams

    async def create_stream(
        self,
        name: str,
        schema: object | None = None,
        shards: int = 4,
        replicas: int | None = None,
    ) -> AsyncStream:
        """Create a stream; the same once more is fine, another one of that name is ``StreamExists``."""
        wanted, number = stream_name(name), shard_count(shards)
        kept = self.schemas.encoded(schema, wanted)
        if replicas is not None:
            whole_number("replicas", replicas, 1, 1)
        ready = await self._calls.repeated(
            lambda n: CreateStream(n, wanted, number, kept), StreamReady
        )
        self.schemas.learn([ready.info])
        return self.stream(name)

    async def delete_stream(self, name: str) -> None:
        """Delete a stream of a cluster, with all its data."""
        stream_name(name)
        raise NodeError(
            "an embedded database does not delete streams in this release",
            hint="begin a new folder, or use a cluster",
        )

    def stream(self, name: str) -> AsyncStream:
        """A stream by its name."""
        return AsyncStream(self._calls, name, self.schemas)

    async def streams(self) -> list[StreamInfo]:
        """All streams, by name, with their shards and how many entries these have."""
        described = await self._calls.repeated(Describe, Described)
        return sorted(described.streams, key=lambda info: info.name)

    # Transactions

    def transaction(self) -> AsyncTransaction:
        """A transaction: ``async with db.transaction() as txn``. Leaving the block commits it."""
        return self._transaction_since(self._age())

    def _transaction_since(self, begin: Clock) -> AsyncTransaction:
        return AsyncTransaction(self._calls, self.next_transaction_id(), self.schemas, begin)

    def _age(self) -> Clock:
        """How old a transaction is that begins now; one node makes its own order, whatever their age."""
        return ZERO

    def next_transaction_id(self) -> TransactionId:
        """A name that no other transaction of any client has."""
        # Also asked by several threads at once.
        return TransactionId(f"{self._session:016x}-{next(self._transactions)}")

    def attempts(self, attempts: int) -> Attempts:
        """The transactions of a ``transact``; all are as old as the first one."""
        begin = self._age()
        return Attempts(lambda: self._transaction_since(begin), attempts, self._entropy)

    async def transact(
        self,
        run: Callable[[AsyncTransaction], Awaitable[T]],
        attempts: int = attempts_default,
    ) -> T:
        """Run a function in a transaction, again from its start when it met a ``Conflict``.

        It is as old as the first time then: of rivals the older one waits and the younger one gives up, so
        whoever tries again gets there.
        """
        tries = self.attempts(attempts)
        while True:
            try:
                async with tries.transaction() as txn:
                    return await run(txn)
            except Conflict as conflict:
                await self.pause(tries.pause_seconds(conflict))

    async def transaction_status(self, transaction: str) -> TransactionStatus:
        """What became of a transaction; ``OutcomeUnknown`` while a shard that may know cannot be asked."""
        name = transaction_id(transaction)
        found = await self._calls.repeated(lambda n: GetTransaction(n, name), TransactionIs)
        return TransactionStatus(name, found.standing, found.clock if found.has_clock else None)

    async def transaction_changes(self, transaction: str) -> list[Change]:
        """The changes of a transaction; none if it is not committed, or if they are pruned.

        Also of one that has no clock for its readers: it has its place in the feed.
        """
        name = transaction_id(transaction)
        found = await self._calls.repeated(lambda n: GetTransaction(n, name), TransactionIs)
        streams = [info.name for info in await self.streams()]
        if found.clock is None or not streams:
            return []
        # It may be committed and not yet visible.
        await self.visible_clock(*streams, wait=True)
        with suppress(CursorExpired):
            page = await self.changes(*streams, after=plus(found.clock, -1), up_to=found.clock)
            return [change for change in page if change.transaction == name]
        return []

    # Clocks and the feed

    async def clock(self) -> Clock:
        """The highest clock handed out."""
        return (await self._calls.repeated(Describe, Described)).clock

    async def clock_enabled(self) -> bool:
        """The setting ``clock.enabled``: whether users get to see clocks of what is committed now."""
        return (await self._calls.repeated(Describe, Described)).clock_enabled

    async def enable_clock(self, enabled: bool = True) -> None:
        """Set ``clock.enabled``, for everybody.

        While it is off, ``txn.clock`` and the clocks of changes are None. Order, locks, the feed and its
        cursors go on; and what is committed after it is on again is above everything before.
        """
        if not isinstance(enabled, bool):
            raise BadInput(f"enabled is True or False, not {enabled!r}")
        await self._enable_clock(enabled)

    async def _enable_clock(self, enabled: bool) -> None:
        await self._calls.repeated(lambda n: EnableClock(n, enabled), ClockEnabled)

    async def bookmark(self) -> str:
        """What this client has seen and done, as a text: ``connect(..., after=bookmark)`` goes on after it.

        Whoever does reads what was written here and nothing older than what was read here, and writes at
        higher clocks.
        """
        return bookmark_text(Bookmark(self.database_id, await self.clock()))

    async def resume_after(self, bookmark: str) -> None:
        """Have the guarantees of a bookmark from here on."""
        clock = bookmark_clock(bookmark, database=self.database_id, name=self._calls.name)
        if await self.visible_clock(wait=True) < clock:
            raise BadBookmark(
                f"the bookmark is ahead of {self._calls.name}", hint="is this an older copy of it?"
            )

    # Tables

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

    def table(self, name: str) -> AsyncTable:
        """A table by its name."""
        return AsyncTable(self._tables, name, self._calls.name)

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
        return await self._tables.steps(writer_name(name))

    async def note_writer(self, name: str, error: str) -> None:
        """Remember an ordered writer's last error; empty when all is well. A long one is cut."""
        await self._tables.note_writer(writer_name(name), error[:writer_note_length_max])

    async def pause(self, seconds: float) -> None:
        """Wait so long, or until the database is closed."""
        await self._calls.pause(seconds)


async def begin(
    link: Link[StreamsAnswer],
    node: Address,
    name: str,
    home: Home,
    tables: Tables,
    opened: AsyncExitStack,
) -> AsyncDatabase:
    """The database at the other end of a link, once it has said which one it is."""
    calls = Calls(link, node, name)
    described = await calls.once(Describe, Described, connect_seconds_max)
    database = AsyncDatabase(calls, described.database, home, tables, opened)
    database.schemas.learn(described.streams)
    return database
