"""One stream without an event loop: the same calls, each waiting for its coroutine in the portal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from motet.client.change import Entry, Position
from motet.client.portal import Portal
from motet.client.rows import Key
from motet.client.stream import AsyncStream, HasOffset, StreamTail
from motet.core.streams.messages import Source
from motet.ids import StreamName

if TYPE_CHECKING:
    from motet.client.sync import Database


class Stream:
    """One stream of a database."""

    def __init__(self, database: Database, portal: Portal, inner: AsyncStream) -> None:
        #: a database that nobody holds any more is closed
        self._database = database
        self._portal = portal
        self._inner = inner

    @property
    def name(self) -> StreamName:
        return self._inner.name

    def append(self, key: Key, value: bytes, token: tuple[str, int] | None = None) -> Position:
        """Append a raw entry, durably.

        With a token (a producer and its own rising count) it is appended once however often it is
        sent, so a lost answer is asked for again; without one that is an ``OutcomeUnknown``.
        """
        return self._portal.call(self._inner.append, key, value, token)

    def read(
        self,
        shard: int = 0,
        after: int | HasOffset | None = None,
        limit: int = 1000,
        source: Source = "leader",
    ) -> list[Entry]:
        """Entries of a shard in order, behind an offset, an entry or a position.

        There may be fewer than ``limit`` even if more follow; none at all means the end. With the source
        ``replica`` any node that holds the shard may answer, and what it does not know of yet is missing.
        """
        return self._portal.call(self._inner.read, shard, after, limit, source)

    def stats(self) -> list[dict[str, Any]]:
        """Of each shard its leader, its ensemble, and how many entries it has."""
        return self._portal.call(self._inner.stats)

    def tail(
        self, shard: int = 0, after: int | HasOffset | None = None, stop_after: int | None = None
    ) -> Iterator[Entry]:
        """The entries of a shard, for ever: until the database is closed, or so many have come."""
        # Not the generator itself: bad input is to be told now, not when the first entry is wanted.
        return self._follow(self._inner.follow(shard, after, stop_after))

    def _follow(self, tail: StreamTail) -> Iterator[Entry]:
        while entries := self._portal.call(tail.next_entries):
            yield from entries

    def append_batch(self, data: object) -> list[Position]:
        """Append all rows of anything Arrow with the columns ``key`` and ``value``, in their order.

        Rows of one shard stay in order; each is durable on its own, so a failure may leave some of them
        appended.
        """
        return self._portal.call(self._inner.append_batch, data)

    def read_arrow(
        self, shard: int = 0, after: int | HasOffset | None = None, limit: int = 10_000
    ) -> Any:
        """Entries of a shard as a ``pyarrow.Table``: offset, epoch, clock, at, key, value."""
        return self._portal.call(self._inner.read_arrow, shard, after, limit)

    def __repr__(self) -> str:
        return repr(self._inner)
