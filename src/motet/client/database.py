"""The database as a client sees it, for asyncio: streams, transactions, and the feed.

Everything that waits is a coroutine; it is the same over a socket and within one process. The face without
an event loop is in :mod:`motet.client.sync`.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Protocol, Self, TypeVar

from motet.client.calls import Calls
from motet.client.change import Change
from motet.client.feed import Feed, Page, Tail
from motet.client.link import Link, answer_seconds_max, parse_endpoint
from motet.client.rows import shard_count, stream_name, whole_number
from motet.client.stream import AsyncStream
from motet.client.transaction import AsyncTransaction, attempts_default, pauses_seconds
from motet.core.clock.hlc import Clock
from motet.core.streams.messages import (
    CreateStream,
    Describe,
    Described,
    StreamInfo,
    StreamReady,
    StreamsAnswer,
)
from motet.errors import BadConfig, BadInput, Conflict, MotetError, NodeError, OutcomeUnknown
from motet.format.frame import FrameKind
from motet.ids import Address, TransactionId
from motet.real.entropy import RealEntropy

T = TypeVar("T")

ENDPOINT_VARIABLE = "MOTET_ENDPOINT"
connect_seconds_max = 3.0
"""How long one endpoint of several is tried."""

page_limit_default = 1000


class Home(Protocol):
    """What a database lives in: a node of this process, or one behind an endpoint."""

    async def endpoint(self) -> str:
        """Where others can reach it."""


class AsyncDatabase:
    """A database; made by ``motet.aio.open`` or ``motet.aio.connect``."""

    def __init__(self, calls: Calls, database: int, home: Home, opened: AsyncExitStack) -> None:
        self._calls = calls
        self._home = home
        #: what ends with us, the last first
        self._opened = opened
        self._feed = Feed(calls, database)
        self._entropy = RealEntropy()
        #: makes the ids of our transactions different from those of all other clients
        self._session = self._entropy.nonce()
        self._transactions = 0

    # Life

    async def endpoint(self) -> str:
        """Where other processes reach it; an embedded one serves from the first time it is asked."""
        if self._calls.is_closing():
            raise NodeError(f"{self._calls.name} is closed", hint="open it once more")
        return await self._home.endpoint()

    async def close(self) -> None:
        """Let what is under way be answered, and end; a second time is fine."""
        if not self._calls.is_closing():
            await self._calls.close()
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
        wanted, count = stream_name(name), shard_count(shards)
        if schema is not None:
            raise BadInput(
                "typed streams are not part of this release",
                hint="leave schema out: rows are JSON then",
            )
        if replicas is not None:
            whole_number("replicas", replicas, 1, 1)
        await self._calls.repeated(lambda n: CreateStream(n, wanted, count), StreamReady)
        return self.stream(name)

    def stream(self, name: str) -> AsyncStream:
        """A stream by its name."""
        return AsyncStream(self._calls, name)

    async def streams(self) -> list[StreamInfo]:
        """All streams, by name, with their shards and how many entries these have."""
        described = await self._calls.repeated(Describe, Described)
        return sorted(described.streams, key=lambda info: info.name)

    # Transactions

    def transaction(self) -> AsyncTransaction:
        """A transaction: ``async with db.transaction() as txn``. Leaving the block commits it."""
        self._transactions += 1
        name = TransactionId(f"{self._session:016x}-{self._transactions}")
        return AsyncTransaction(self._calls, name)

    async def transact(
        self,
        run: Callable[[AsyncTransaction], Awaitable[T]],
        attempts: int = attempts_default,
    ) -> T:
        """Run a function in a transaction, again from its start when it met a ``Conflict``."""
        for pause_seconds in pauses_seconds(attempts, self._entropy):
            try:
                return await self._attempt(run)
            except Conflict:
                await self._calls.pause(pause_seconds)
        return await self._attempt(run)

    async def _attempt(self, run: Callable[[AsyncTransaction], Awaitable[T]]) -> T:
        async with self.transaction() as txn:
            return await run(txn)

    # Clocks and the feed

    async def clock(self) -> Clock:
        """The highest clock handed out."""
        return (await self._calls.repeated(Describe, Described)).clock

    async def visible_clock(self, *streams: str, wait: bool = False) -> Clock:
        """No change of these streams at or below this clock appears any more.

        With ``wait``, one that everything committed before the call is at or below.
        """
        return await self._feed.visible(streams, wait)

    async def changes(
        self,
        *streams: str,
        after: str | Clock | None = None,
        limit: int = page_limit_default,
        up_to: Clock | None = None,
    ) -> Page:
        """The next page of the feed of these streams: whole transactions, in the order of their clocks.

        A page may be longer than ``limit`` when its only transaction is.
        """
        return await self._feed.changes(streams, after, limit, up_to)

    async def tail(
        self,
        *streams: str,
        after: str | Clock | None = None,
        limit: int = page_limit_default,
        stop_after: int | None = None,
    ) -> AsyncIterator[Change]:
        """All changes of these streams, for ever: until the database is closed, or so many have come."""
        tail = self.follow(streams, after, limit, stop_after)
        while changes := await tail.next_changes():
            for change in changes:
                yield change

    def follow(
        self,
        streams: tuple[str, ...],
        after: str | Clock | None,
        limit: int,
        stop_after: int | None,
    ) -> Tail:
        """What a tail is made of."""
        return Tail(self._feed, self._calls, streams, after, limit, stop_after)

    async def pause(self, seconds: float) -> None:
        """Wait so long, or until the database is closed."""
        await self._calls.pause(seconds)


class _Remote:
    """A database behind an endpoint."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint

    async def endpoint(self) -> str:
        return self._endpoint


async def begin(
    link: Link[StreamsAnswer], node: Address, name: str, home: Home, opened: AsyncExitStack
) -> AsyncDatabase:
    """The database at the other end of a link, once it has said which one it is."""
    calls = Calls(link, node, name)
    described = await calls.once(Describe, Described, connect_seconds_max)
    return AsyncDatabase(calls, described.database, home, opened)


async def connect(endpoint: str | None = None) -> AsyncDatabase:
    """The database at an endpoint: the first of a comma separated list that answers."""
    failures = []
    for one in _endpoints(endpoint):
        try:
            return await _connect_to(one)
        except MotetError as error:
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    whats = ", ".join(failure.what for failure in failures)
    raise NodeError(f"no endpoint answers: {whats}", hint="start a node, or name another endpoint")


async def _connect_to(endpoint: str) -> AsyncDatabase:
    node = Address(endpoint)
    async with AsyncExitStack() as opening:
        link: Link[StreamsAnswer] = Link({node: endpoint}, FrameKind.STREAMS, StreamsAnswer)
        await opening.enter_async_context(link)
        await link.reach(node, connect_seconds_max)
        opened = AsyncExitStack()
        try:
            database = await begin(link, node, endpoint, _Remote(endpoint), opened)
        except OutcomeUnknown:
            raise NodeError(
                f"{endpoint} does not answer as a database",
                hint="check the address: it is what db.endpoint says there",
            ) from None
        opened.push_async_exit(opening.pop_all())
        return database


def _endpoints(text: str | None) -> list[str]:
    given = os.environ.get(ENDPOINT_VARIABLE, "") if text is None else text
    endpoints = [part.strip() for part in given.split(",") if part.strip()]
    if not endpoints:
        raise BadConfig(
            "no endpoint is given",
            hint=f'motet.connect("127.0.0.1:7400"), or set ${ENDPOINT_VARIABLE}',
        )
    for endpoint in endpoints:
        parse_endpoint(endpoint)
    return endpoints


assert connect_seconds_max <= answer_seconds_max
