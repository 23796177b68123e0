"""One stream: raw entries in, and the entries of its shards back."""

from __future__ import annotations

from typing import Protocol

from motet.client.calls import Calls
from motet.client.change import Entry, Position
from motet.client.rows import (
    Key,
    key_bytes,
    page_limit,
    stream_name,
    token_of,
    value_bytes,
    whole_number,
)
from motet.client.schemas import Schemas
from motet.core.streams.messages import Append, Appended, Entries, ReadEntries
from motet.ids import Offset, ShardId
from motet.limits import stream_shards_max

offset_max = (1 << 63) - 1


class HasOffset(Protocol):
    """An entry, or the position of one."""

    @property
    def offset(self) -> Offset:
        """Its place in its shard."""


class AsyncStream:
    """A stream by its name; whether there is one shows when it is used."""

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
        self, shard: int = 0, after: int | HasOffset | None = None, limit: int = 1000
    ) -> list[Entry]:
        """Entries of a shard in order, behind an offset, an entry or a position.

        There may be fewer than ``limit`` even if more follow; none at all means the end.
        """
        whole_number("shard", shard, 0, stream_shards_max - 1)
        page_limit(limit)
        behind = Offset(_offset_of(after))
        found = await self._calls.repeated(
            lambda n: ReadEntries(n, self.name, ShardId(shard), behind, limit), Entries
        )
        schema = await self._schemas.of(self.name)
        return [Entry(change, schema) for change in found.entries]

    def __repr__(self) -> str:
        return f"<Stream {self.name} of {self._calls.name}>"


def _offset_of(after: int | HasOffset | None) -> int:
    if after is None:
        return -1
    offset: object = after if isinstance(after, int) else getattr(after, "offset", after)
    return whole_number("after", offset, -1, offset_max)
