"""Appends to one shard: what many callers want at the same moment travels in one request.

Each caller waits for its own record. Requests are pipelined up to a bound; what arrives while they are full
waits and goes together. Records without a token share a block; one with a token is a chunk of its own,
since a retry of it must be recognised by itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from motet.client.change import Position
from motet.client.cluster.router import Router
from motet.core.clock.hlc import Clock
from motet.core.datanode.messages import AppendRecords, ChunkPlace, RecordsAppended
from motet.core.datanode.records import Chunk
from motet.core.streams.change import Token
from motet.errors import MotetError
from motet.format.record_block import encode_block
from motet.ids import Offset, RequestId, ShardId, ShardName
from motet.limits import block_records_max, entry_bytes_max

requests_max = 4
"""Requests of one client to one shard that are under way at once."""

request_records_min = 32
"""What waits is spread over all requests that may be under way, so that client and cluster work at the same
time; but a request of fewer records than this would cost more than it gains."""


class Item(NamedTuple):
    """A record, and who waits for it."""

    key: bytes
    value: bytes
    token: Token | None
    future: asyncio.Future[Position]


class ShardAppender:
    """The way of one client's records into one shard."""

    def __init__(self, router: Router, shard: ShardName, number: ShardId, seconds: float) -> None:
        self._router = router
        self._shard = shard
        self._number = number
        self._seconds = seconds
        self._queue: deque[Item] = deque()
        self._under_way = 0
        self._is_due = False
        self._tasks: set[asyncio.Task[None]] = set()

    def append(self, key: bytes, value: bytes, token: Token | None) -> asyncio.Future[Position]:
        """Put a record behind those that wait."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Position] = loop.create_future()
        self._queue.append(Item(key, value, token, future))
        if not self._is_due and self._under_way < requests_max:
            self._is_due = True
            loop.call_soon(self._flush)
        return future

    async def append_block(self, count: int, block: bytes) -> ChunkPlace:
        """Append records as one chunk, all of them or none; it goes beside what others want."""
        done = await self._request((Chunk(count, None, block),), may_repeat=False)
        self._router.see(done.places[0].clock)
        self._router.session.reached(self._shard, _behind(done, count))
        return done.places[0]

    def _flush(self) -> None:
        self._is_due = False
        while self._queue and self._under_way < requests_max:
            free = requests_max - self._under_way
            items = self._take(max(request_records_min, -(-len(self._queue) // free)))
            self._under_way += 1
            task = asyncio.get_running_loop().create_task(self._send(items))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _take(self, records: int) -> list[Item]:
        """The next request, of at most so many records.

        With tokens or without, so that all of it may be repeated, or nothing.
        """
        queue = self._queue
        has_tokens = queue[0].token is not None
        items: list[Item] = []
        size_bytes = 0
        while queue and len(items) < min(records, block_records_max):
            item = queue[0]
            size_bytes += len(item.key) + len(item.value)
            if items and size_bytes > entry_bytes_max:
                break
            if (item.token is not None) != has_tokens:
                break
            items.append(queue.popleft())
        return items

    async def _send(self, items: list[Item]) -> None:
        try:
            self._settle(items, await self._ask(items))
        except MotetError as error:
            for item in items:
                if not item.future.done():
                    item.future.set_exception(type(error)(error.what, hint=error.advice))
        finally:
            self._under_way -= 1
            if self._queue and not self._is_due:
                self._flush()

    async def _ask(self, items: list[Item]) -> RecordsAppended:
        return await self._request(_chunks(items), may_repeat=items[0].token is not None)

    async def _request(self, chunks: tuple[Chunk, ...], *, may_repeat: bool) -> RecordsAppended:
        def make(request: RequestId, clock: Clock) -> AppendRecords:
            return AppendRecords(request, clock, self._shard, chunks)

        return await self._router.ask_leader(
            self._shard,
            make,
            RecordsAppended,
            may_repeat=may_repeat,
            seconds=self._seconds,
        )

    def _settle(self, items: list[Item], done: RecordsAppended) -> None:
        self._router.see(max(place.clock for place in done.places))
        size = len(items) if items[0].token is None else 1
        self._router.session.reached(self._shard, _behind(done, size))
        if items[0].token is None:
            self._settle_block(items, done.places[0])
            return
        for item, place in zip(items, done.places, strict=True):
            self._settle_block([item], place)

    def _settle_block(self, items: list[Item], place: ChunkPlace) -> None:
        offset, epoch, clock, number = place.first_offset, place.epoch, place.clock, self._number
        for item in items:
            if not item.future.done():
                item.future.set_result(
                    Position(number, epoch, offset, clock, duplicate=place.duplicate)
                )
            offset = Offset(offset + 1)


def _behind(done: RecordsAppended, last_size: int) -> Offset:
    """The offset behind all records of a request."""
    return Offset(max(place.first_offset for place in done.places) + last_size)


def _chunks(items: list[Item]) -> tuple[Chunk, ...]:
    if items[0].token is None:
        block = encode_block([item.key for item in items], [item.value for item in items])
        return (Chunk(len(items), None, block),)
    return tuple(Chunk(1, item.token, encode_block([item.key], [item.value])) for item in items)
