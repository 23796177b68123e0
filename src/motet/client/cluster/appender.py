"""Appends to one shard: what many callers want at the same moment travels in one request.

Each caller waits for its own record. Requests are pipelined up to a bound; what arrives while they are full
waits and goes together. Records without a token share a block; one with a token is a chunk of its own,
since a retry of it must be recognised by itself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import TypeAlias

from motet.client.change import Position
from motet.client.cluster.router import Router
from motet.core.clock.hlc import Clock
from motet.core.streams.change import Token
from motet.core.streams.entries import Chunk
from motet.core.streams.messages import AppendRecords, ChunkPlace, DataAnswer, RecordsAppended
from motet.errors import MotetError
from motet.format.record_block import encode_block
from motet.ids import Offset, RequestId, ShardId, ShardName
from motet.limits import block_records_max, entry_bytes_max

requests_max = 4
"""Requests of one client to one shard that are under way at once."""

request_records_min = 32
"""What waits is spread over all requests that may be under way, so that client and cluster work at the same
time; but a request of fewer records than this would cost more than it gains."""


Item: TypeAlias = tuple[bytes, bytes, Token | None, asyncio.Future[Position]]
"""A record, key and value, with its token, and who waits for it. A tuple: one is made for every append."""


class Request:
    """Records that travel together, and who waits for them."""

    __slots__ = ("chunk_records", "chunks", "futures", "may_repeat", "shard")

    def __init__(
        self,
        shard: ShardName,
        chunks: tuple[Chunk, ...],
        futures: Sequence[asyncio.Future[Position]],
        chunk_records: int,
        *,
        may_repeat: bool,
    ) -> None:
        self.shard = shard
        self.chunks = chunks
        #: one for each record
        self.futures = futures
        #: in each chunk
        self.chunk_records = chunk_records
        self.may_repeat = may_repeat

    @staticmethod
    def of(shard: ShardName, items: list[Item]) -> Request:
        """With tokens each record is a chunk of its own, and all of it may be repeated."""
        keys, values, tokens, futures = zip(*items, strict=True)
        if tokens[0] is None:
            block = Chunk(len(keys), None, encode_block(keys, values))
            return Request(shard, (block,), futures, len(keys), may_repeat=False)
        chunks = tuple(
            Chunk(1, token, encode_block([key], [value]))
            for key, value, token in zip(keys, values, tokens, strict=True)
        )
        return Request(shard, chunks, futures, 1, may_repeat=True)

    def make(self, request: RequestId, clock: Clock) -> AppendRecords:
        return AppendRecords(request, clock, self.shard, self.chunks)


class ShardAppender:
    """The way of one client's records into one shard."""

    def __init__(self, router: Router, shard: ShardName, number: ShardId, seconds: float) -> None:
        self._router = router
        self._shard = shard
        self._number = number
        self._seconds = seconds
        self._queue: deque[Item] = deque()
        self._queued_bytes = 0
        #: some that wait may have tokens
        self._has_tokens = False
        self._under_way = 0
        self._is_due = False
        self._tasks: set[asyncio.Task[None]] = set()

    def append(self, key: bytes, value: bytes, token: Token | None) -> asyncio.Future[Position]:
        """Put a record after those that wait."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Position] = loop.create_future()
        self._queue.append((key, value, token, future))
        self._queued_bytes += len(key) + len(value)
        if token is not None:
            self._has_tokens = True
        if not self._is_due and self._under_way < requests_max:
            self._is_due = True
            loop.call_soon(self._flush)
        return future

    async def append_block(self, count: int, block: bytes) -> ChunkPlace:
        """Append records as one chunk, all of them or none; it goes beside what others want."""
        request = Request(self._shard, (Chunk(count, None, block),), (), count, may_repeat=False)
        done = await self._router.ask_leader(
            self._shard, request.make, RecordsAppended, may_repeat=False, seconds=self._seconds
        )
        self._router.see(done.places[0].clock)
        self._router.session.reached(self._shard, _next_offset(done, count))
        return done.places[0]

    def _flush(self) -> None:
        self._is_due = False
        while self._queue and self._under_way < requests_max:
            free = requests_max - self._under_way
            items = self._take(max(request_records_min, -(-len(self._queue) // free)))
            self._under_way += 1
            self._begin(Request.of(self._shard, items))
        self._router.flush()

    def _begin(self, request: Request) -> None:
        """Send it without a task: nearly always the first answer is all there is to it."""
        begun = self._router.begin_with_leader(self._shard, request.make, self._seconds)
        if begun is None:
            self._go_on(request, None)
        else:
            begun.add_done_callback(lambda done: self._answered(request, done))

    def _answered(self, request: Request, done: asyncio.Future[DataAnswer]) -> None:
        answer = None if done.cancelled() or done.exception() else done.result()
        if isinstance(answer, RecordsAppended):
            self._settle(request, answer)
            self._is_over()
        else:
            self._go_on(request, done)

    def _go_on(self, request: Request, begun: asyncio.Future[DataAnswer] | None) -> None:
        task = asyncio.get_running_loop().create_task(self._insist(request, begun))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _insist(self, request: Request, begun: asyncio.Future[DataAnswer] | None) -> None:
        """Ask again, as leaders change, as long as that is safe."""
        try:
            done = await self._router.ask_leader(
                self._shard,
                request.make,
                RecordsAppended,
                may_repeat=request.may_repeat,
                seconds=self._seconds,
                begun=begun,
            )
            self._settle(request, done)
        except MotetError as error:
            for future in request.futures:
                if not future.done():
                    future.set_exception(type(error)(error.what, hint=error.advice))
        finally:
            self._is_over()

    def _is_over(self) -> None:
        self._under_way -= 1
        if self._queue and not self._is_due:
            self._flush()

    def _take(self, records: int) -> list[Item]:
        """The next request, of at most so many records.

        With tokens or without, so that all of it may be repeated, or nothing.
        """
        queue = self._queue
        count = min(records, block_records_max, len(queue))
        if self._has_tokens or self._queued_bytes > entry_bytes_max:
            count = self._fitting(count)
        items = [queue.popleft() for _ in range(count)]
        if queue:
            self._queued_bytes -= sum([len(key) + len(value) for key, value, _, _ in items])
        else:
            self._queued_bytes, self._has_tokens = 0, False
        return items

    def _fitting(self, most: int) -> int:
        """How many of those that wait, at most so many, can go together."""
        has_tokens = self._queue[0][2] is not None
        count = size_bytes = 0
        for key, value, token, _ in islice(self._queue, most):
            size_bytes += len(key) + len(value)
            if count and (size_bytes > entry_bytes_max or (token is not None) != has_tokens):
                break
            count += 1
        return count

    def _settle(self, request: Request, done: RecordsAppended) -> None:
        """Tell all who wait where their records are."""
        size, futures, number = request.chunk_records, request.futures, self._number
        self._router.see(max([place.clock for place in done.places]))
        self._router.session.reached(self._shard, _next_offset(done, size))
        for at, place in enumerate(done.places):
            epoch, clock, is_known = place.epoch, place.clock, place.duplicate
            here = futures[at * size : (at + 1) * size]
            for offset, future in enumerate(here, place.first_offset):
                if not future.done():
                    future.set_result(Position(number, epoch, Offset(offset), clock, is_known))


def _next_offset(done: RecordsAppended, last_size: int) -> Offset:
    """The offset after all records of a request."""
    return Offset(max(place.first_offset for place in done.places) + last_size)
