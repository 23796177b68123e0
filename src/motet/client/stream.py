"""One stream: raw entries in, and the entries of its shards back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Protocol

from motet.client.calls import Calls
from motet.client.change import Entry, Position
from motet.client.rows import (
    Key,
    Schemas,
    key_bytes,
    need_pyarrow,
    page_limit,
    stream_name,
    token_of,
    value_bytes,
    whole_number,
)
from motet.core.onelog.messages import Append, Appended, Describe, Described, Entries, ReadEntries
from motet.core.streams.messages import Source
from motet.errors import BadInput, MotetError, NoSuchStream
from motet.ids import Offset, ShardId, StreamName
from motet.limits import stream_shards_max

offset_max = (1 << 63) - 1

tail_pause_seconds_min, tail_pause_seconds_max = 0.002, 0.05
"""How long a tail waits when there is nothing new: at first, and after a while."""


class HasOffset(Protocol):
    """An entry, or the position of one."""

    @property
    def offset(self) -> Offset:
        """Its place in its shard."""


class AsyncStream:
    """A stream by its name; whether there is one shows when it is used."""

    name: StreamName

    def __init__(self, calls: Calls, name: str, schemas: Schemas) -> None:
        self._calls = calls
        self._schemas = schemas
        self.name = stream_name(name)

    async def append(
        self, key: Key, value: bytes, token: tuple[str, int] | None = None
    ) -> Position:
        """Append a raw entry, durably.

        With a token (a producer and its own rising count) it is appended once however often it is
        sent, so a lost answer is asked for again; without one that is an ``OutcomeUnknown``.
        """
        key, value, named = key_bytes(key), value_bytes(value), token_of(token)
        send = self._calls.once if named is None else self._calls.repeated
        done = await send(lambda n: Append(n, self.name, key, value, named), Appended)
        return Position(done.shard, done.epoch, done.offset, done.clock, done.duplicate)

    async def read(
        self,
        shard: int = 0,
        after: int | HasOffset | None = None,
        limit: int = 1000,
        source: Source = "leader",
    ) -> list[Entry]:
        """Entries of a shard in order, after an offset, an entry or a position.

        There may be fewer than ``limit`` even if more follow; none at all means the end. With the source
        ``replica`` any node that holds the shard may answer, and what it does not know of yet is missing.
        """
        check_source(source)
        whole_number("shard", shard, 0, stream_shards_max - 1)
        page_limit(limit)
        begin = Offset(offset_of(after))
        found = await self._calls.repeated(
            lambda n: ReadEntries(n, self.name, ShardId(shard), begin, limit), Entries
        )
        schema = await self._schemas.of(self.name)
        return [
            Entry(change, schema, epoch)
            for change, epoch in zip(found.entries, found.epochs, strict=True)
        ]

    async def stats(self) -> list[dict[str, Any]]:
        """Of each shard its leader, its ensemble, and how many entries it has."""
        described = await self._calls.repeated(Describe, Described)
        for info in described.streams:
            if info.name == self.name:
                return [
                    # An embedded database has no leaders, and one epoch for all of its streams.
                    {
                        "shard": number,
                        "leader": None,
                        "ensemble": [],
                        "epoch": None,
                        "first_offset": info.firsts[number] if info.firsts else 0,
                        "next_offset": entries,
                    }
                    for number, entries in enumerate(info.entries)
                ]
        raise NoSuchStream(f"there is no stream {self.name!r}")

    async def append_batch(self, data: object) -> list[Position]:
        """Append all rows of anything Arrow with the columns ``key`` and ``value``, in their order.

        Rows of one shard stay in order; each is durable on its own, so a failure may leave some of them
        appended.
        """
        need_pyarrow("append_batch")
        from motet.columnar.raw_records import KeyValues

        rows = KeyValues.of(data).rows()
        return list(await asyncio.gather(*(self.append(key, value) for key, value in rows)))

    async def read_arrow(
        self, shard: int = 0, after: int | HasOffset | None = None, limit: int = 10_000
    ) -> Any:
        """Entries of a shard as a ``pyarrow.Table``: offset, epoch, clock, at, key, value."""
        need_pyarrow("read_arrow")
        from motet.columnar.raw_records import entries_table

        entries = await self.read(shard, after, limit)
        return entries_table([(entry.raw, entry.epoch) for entry in entries])

    async def tail(
        self, shard: int = 0, after: int | HasOffset | None = None, stop_after: int | None = None
    ) -> AsyncIterator[Entry]:
        """The entries of a shard, for ever: until the database is closed, or so many have come."""
        follow = StreamTail(self, shard, after, stop_after)
        while entries := await follow.next_items():
            for entry in entries:
                yield entry

    def follow(
        self, shard: int = 0, after: int | HasOffset | None = None, stop_after: int | None = None
    ) -> StreamTail:
        """What a tail is made of, also without an event loop."""
        return StreamTail(self, shard, after, stop_after)

    def is_closing(self) -> bool:
        return self._calls.is_closing()

    async def pause(self, seconds: float) -> None:
        """Wait so long, or until the database is closed."""
        await self._calls.pause(seconds)

    def __repr__(self) -> str:
        return f"<Stream {self.name} of {self._calls.name}>"


class StreamTail:
    """Follows one shard; has nothing to give back when it is dropped."""

    def __init__(
        self,
        stream: AsyncStream,
        shard: int,
        after: int | HasOffset | None,
        stop_after: int | None,
    ) -> None:
        self._stream = stream
        self._shard = whole_number("shard", shard, 0, stream_shards_max - 1)
        self._after = offset_of(after)
        self._left = stop_after
        if stop_after is not None:
            whole_number("stop_after", stop_after, 0, offset_max)

    async def next_items(self) -> list[Entry]:
        """The next ones, as soon as there are some; none when it is over."""
        pause_seconds = tail_pause_seconds_min
        while self._left != 0 and not self._stream.is_closing():
            try:
                entries = await self._stream.read(self._shard, self._after)
            except MotetError:
                if self._stream.is_closing():
                    break
                raise
            if entries:
                return self._counted(entries)
            await self._stream.pause(pause_seconds)
            pause_seconds = min(2 * pause_seconds, tail_pause_seconds_max)
        return []

    def _counted(self, entries: list[Entry]) -> list[Entry]:
        if self._left is not None:
            del entries[self._left :]
            self._left -= len(entries)
        if entries:
            self._after = entries[-1].offset
        return entries


def offset_of(after: int | HasOffset | None) -> int:
    """The offset after which a reader begins; -1 for the beginning."""
    if after is None:
        return -1
    offset: object = after if isinstance(after, int) else getattr(after, "offset", after)
    return whole_number("after", offset, -1, offset_max)


def check_source(source: object) -> None:
    """``BadInput`` for what does not say who may answer a read."""
    if source not in ("leader", "replica"):
        raise BadInput(f"source is 'leader' or 'replica', not {source!r}")
