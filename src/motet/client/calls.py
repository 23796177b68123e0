"""Requests about streams and tables to one node: each is answered, refused with its error, or unknown.

``once`` is for what must not be done twice. ``repeated`` is for what may be: reading, creating what may be
there already, and appending under a token. It asks again when no answer came.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from motet.client.clock_visibility import ClockVisibility
from motet.client.link import Link, answer_seconds_max
from motet.core.clock.hlc import Clock
from motet.core.onelog.conversation import StreamsMessage, StreamsRequest
from motet.core.onelog.messages import (
    Appended,
    ClockEnabled,
    ClockFixed,
    Commit,
    CommitDone,
    CommitFixed,
    DescribeFeed,
    FeedDescribed,
    FeedObeyed,
    FixClock,
    KeyRead,
    StreamReady,
    StreamsAnswer,
    StreamsRefused,
    Wanted,
)
from motet.core.streams.change import RowChange
from motet.errors import NodeError, OutcomeUnknown, error_of
from motet.ids import Address, RequestId, StreamName, TransactionId

Expected = TypeVar("Expected", bound=StreamsMessage)
Make = Callable[[RequestId], StreamsRequest]

WRITTEN = (
    Appended,
    ClockEnabled,
    FeedObeyed,
    StreamReady,
)
"""Answers to requests that change something: what became of one that was lost is not known."""

attempts_max = 3
"""How often something is asked that may be asked again."""


class ToldClock(NamedTuple):
    """The clock of a transaction, and whether its user gets to see it."""

    clock: Clock
    has_clock: bool


Changes = Sequence[tuple[StreamName, RowChange]]
"""The changes of a transaction; ``changes[i][1].index`` is i."""


class Calls:
    """The way from a client's objects to their node; each answer is waited for so many seconds."""

    def __init__(
        self,
        link: Link[StreamsAnswer],
        node: Address,
        name: str,
        seconds: float = answer_seconds_max,
    ) -> None:
        self._link = link
        self._node = node
        #: what errors call the database
        self.name = name
        self._seconds = seconds
        self.clock_visibility = ClockVisibility()
        self._closing = asyncio.Event()

    def is_closing(self) -> bool:
        return self._closing.is_set()

    async def once(
        self, make: Make, kind: type[Expected], seconds: float | None = None
    ) -> Expected:
        """Ask, a single time."""
        if self.is_closing():
            raise closed(self.name)
        answer = await self._link.ask(
            self._node, lambda n: make(RequestId(n)), seconds or self._seconds
        )
        if isinstance(answer, StreamsRefused):
            raise error_of(answer.code, answer.what, answer.advice)
        if not isinstance(answer, kind):
            raise NodeError(f"the node answered with {type(answer).__name__}, not {kind.__name__}")
        return answer

    async def repeated(
        self, make: Make, kind: type[Expected], seconds: float | None = None
    ) -> Expected:
        """Ask, and again if no answer comes."""
        lost: OutcomeUnknown | None = None
        for _ in range(attempts_max):
            try:
                return await self.once(make, kind, seconds)
            except OutcomeUnknown as error:
                lost = error
            except NodeError:
                if lost is None or kind not in WRITTEN:
                    raise
            if self.is_closing():
                break
        assert lost is not None
        raise lost  # one of them may have been done

    async def commit(
        self, name: TransactionId, _begin: Clock, reads: Sequence[KeyRead], changes: Changes
    ) -> ToldClock:
        """Commit a transaction that has read and changed this, and began at that clock: its age."""
        read, wanted = tuple(reads), _wanted(changes)
        done = await self.once(lambda n: Commit(n, name, read, wanted), CommitDone)
        return ToldClock(done.clock, done.has_clock)

    async def fix_clock(
        self, name: TransactionId, _begin: Clock, reads: Sequence[KeyRead], changes: Changes
    ) -> ToldClock:
        """Fix the clock that it will have."""
        read, wanted = tuple(reads), _wanted(changes)
        done = await self.once(lambda n: FixClock(n, name, read, wanted), ClockFixed)
        return ToldClock(done.clock, done.has_clock)

    async def commit_fixed(self, name: TransactionId) -> ToldClock:
        """Commit a transaction whose clock is fixed."""
        done = await self.once(lambda n: CommitFixed(n, name), CommitDone)
        return ToldClock(done.clock, done.has_clock)

    async def feed_begins(self, streams: tuple[StreamName, ...]) -> dict[StreamName, Clock]:
        """For each stream: its feed can be read after this clock; zero: all of it."""
        kept = await self.repeated(lambda n: DescribeFeed(n, streams), FeedDescribed)
        return {each.stream: each.low_watermark for each in kept.streams}

    async def pause(self, seconds: float) -> None:
        """Wait so long, or until the database is closed."""
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            return

    async def close(self) -> None:
        """Ask nothing any more, and let what is under way be answered."""
        self._closing.set()
        await self._link.idle(self._seconds)


def closed(name: str) -> NodeError:
    """What is said to whoever uses a database after its end."""
    return NodeError(f"{name} is closed", hint="open it, or connect to it, once more")


def _wanted(changes: Changes) -> tuple[Wanted, ...]:
    """As an embedded database is told of them."""
    return tuple([Wanted(stream, c.key, c.op, c.row, c.before) for stream, c in changes])
