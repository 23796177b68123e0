"""The database as a client sees it, for asyncio: streams, transactions, the feed, and tables.

Everything that waits is a coroutine; it is the same over a socket and within one process. The face without
an event loop is in :mod:`motet.client.sync`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from itertools import count
from types import TracebackType
from typing import Protocol, Self, TypeVar

from motet.client.calls import Calls
from motet.client.change import Change
from motet.client.cursors import Bookmark, NodeOrders, bookmark_clock, bookmark_text
from motet.client.feed import Feed
from motet.client.feed_face import FeedFace
from motet.client.link import Link
from motet.client.query import Queries
from motet.client.rows import Schemas, shard_count, stream_name, transaction_id, whole_number
from motet.client.stream import AsyncStream
from motet.client.tables import Tables
from motet.client.tables_face import TablesFace
from motet.client.transaction import AsyncTransaction, Attempts, TransactionStatus, attempts_default
from motet.core.clock.hlc import ZERO, Clock, plus
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
from motet.ids import Address, TransactionId
from motet.real.process import RealEntropy

T = TypeVar("T")

connect_seconds_max = 3.0
"""How long one endpoint of several is tried."""


class Home(Protocol):
    """What a database lives in: a node of this process, or one at an endpoint."""

    async def endpoint(self) -> str:
        """Where others can reach it."""


class AsyncDatabase(FeedFace, TablesFace):
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
        self._tables, self._name = tables, calls.name
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
