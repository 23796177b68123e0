"""What many callers append to a shard: what travels together, who hears what, and what is asked again."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, cast

import pytest

from motet.client.change import Position
from motet.client.cluster.appender import ShardAppender, requests_max
from motet.client.cluster.router import MakeData, Router
from motet.client.cluster.session import Session
from motet.core.clock.hlc import Clock
from motet.core.streams.change import Token
from motet.core.streams.messages import AppendRecords, ChunkPlace, DataAnswer, RecordsAppended
from motet.errors import OutcomeUnknown
from motet.errors.shards import NotLeader
from motet.format.record_block import decode_block
from motet.ids import Epoch, LogName, Offset, RequestId, ShardId, ShardName
from motet.limits import entry_bytes_max

SHARD = LogName(ShardName("s.0"))
SEEN = Clock(7, 0)


class Shard:
    """Stands for the router and the leader behind it: it answers when it is told to."""

    def __init__(self) -> None:
        self.session = Session()
        self.asked: list[AppendRecords] = []
        self.begun: list[asyncio.Future[DataAnswer]] = []
        self.has_leader = True
        self.seen = Clock(0, 0)
        #: asked for by ``ask_leader``: whether it might have been done before
        self.insisted: list[bool] = []
        self._next = 0

    def begin_with_leader(
        self, _shard: ShardName, make: MakeData, _seconds: float
    ) -> asyncio.Future[DataAnswer] | None:
        if not self.has_leader:
            return None
        self._ask(make)
        future: asyncio.Future[DataAnswer] = asyncio.get_running_loop().create_future()
        self.begun.append(future)
        return future

    def flush(self) -> None:
        pass

    def see(self, clock: Clock) -> None:
        self.seen = max(self.seen, clock)

    async def ask_leader(
        self,
        _shard: ShardName,
        make: MakeData,
        _kind: type[RecordsAppended],
        *,
        may_repeat: bool,
        seconds: float,
        begun: asyncio.Future[DataAnswer] | None = None,
    ) -> RecordsAppended:
        assert seconds
        self.insisted.append(may_repeat)
        if begun is not None:
            try:
                await begun
            except OutcomeUnknown:
                if not may_repeat:
                    raise
            except NotLeader:
                pass
        return self._place(self._ask(make))

    def _ask(self, make: MakeData) -> AppendRecords:
        message = make(RequestId(len(self.asked)), self.seen)
        assert isinstance(message, AppendRecords)
        self.asked.append(message)
        return message

    def _place(self, message: AppendRecords) -> RecordsAppended:
        places = []
        for chunk in message.chunks:
            places.append(ChunkPlace(Epoch(3), Offset(self._next), SEEN, duplicate=False))
            self._next += chunk.count
        return RecordsAppended(message.request, tuple(places))

    def answer(self) -> None:
        """Put all that was asked into the log."""
        for message, future in zip(self.asked[-len(self.begun) :], self.begun, strict=True):
            future.set_result(self._place(message))
        self.begun = []


def appender_of(shard: Shard) -> ShardAppender:
    return ShardAppender(cast("Router", shard), SHARD, ShardId(0), 5.0)


def records_of(message: AppendRecords) -> list[tuple[bytes, bytes]]:
    return [
        record
        for chunk in message.chunks
        for record in zip(*decode_block(chunk.block), strict=True)
    ]


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


def test_what_is_wanted_at_one_moment_is_spread_over_a_few_requests_and_stays_in_order() -> None:
    async def main() -> None:
        shard = Shard()
        appender = appender_of(shard)
        values = [b"%d" % number for number in range(500)]
        waiting = [appender.append(b"k", value, None) for value in values]
        await turn()
        assert len(shard.asked) == requests_max
        assert [v for message in shard.asked for _, v in records_of(message)] == values
        late = appender.append(b"k", b"late", None)
        await turn()
        assert len(shard.asked) == requests_max, "no more are under way at once"
        shard.answer()
        await turn()
        assert [(await each).offset for each in waiting] == list(range(500))
        assert records_of(shard.asked[-1]) == [(b"k", b"late")]
        shard.answer()
        assert await late == Position(ShardId(0), 3, Offset(500), SEEN)
        assert shard.seen == SEEN

    asyncio.run(main())


def test_records_with_tokens_are_chunks_of_their_own_and_travel_by_themselves() -> None:
    async def main() -> None:
        shard = Shard()
        appender = appender_of(shard)
        tokens = [None, Token("p", 1), Token("p", 2), None]
        waiting = [appender.append(b"k", b"%d" % n, token) for n, token in enumerate(tokens)]
        await turn()
        shard.answer()
        await turn()
        shape = [
            [(chunk.count, chunk.token) for chunk in message.chunks] for message in shard.asked
        ]
        assert shape == [[(1, None)], [(1, Token("p", 1)), (1, Token("p", 2))], [(1, None)]]
        assert [(await each).offset for each in waiting] == [0, 1, 2, 3]

    asyncio.run(main())


def test_a_request_is_no_larger_than_an_entry() -> None:
    async def main() -> None:
        shard = Shard()
        appender = appender_of(shard)
        value = bytes(entry_bytes_max // 3)
        waiting = [appender.append(b"k", value, None) for _ in range(2 * requests_max)]
        await turn()
        assert Counter(len(records_of(message)) for message in shard.asked) == {2: requests_max}
        shard.answer()
        await asyncio.gather(*waiting)

    asyncio.run(main())


@pytest.mark.parametrize("token", [None, Token("p", 1)])
def test_a_refusal_has_changed_nothing_so_the_next_leader_is_asked(token: Token | None) -> None:
    async def main() -> None:
        shard = Shard()
        waiting = appender_of(shard).append(b"k", b"v", token)
        await turn()
        shard.begun.pop().set_exception(NotLeader("another one does"))
        assert (await waiting).offset == 0
        assert shard.insisted == [token is not None]
        assert shard.asked[0].chunks == shard.asked[1].chunks

    asyncio.run(main())


def test_without_a_leader_one_is_looked_for() -> None:
    async def main() -> None:
        shard = Shard()
        shard.has_leader = False
        assert (await appender_of(shard).append(b"k", b"v", None)).offset == 0
        assert shard.insisted == [False]

    asyncio.run(main())


def test_what_may_have_been_done_is_asked_again_only_with_a_token() -> None:
    async def main() -> None:
        shard = Shard()
        appender = appender_of(shard)
        plain, named = (appender.append(b"k", b"v", token) for token in (None, Token("p", 1)))
        await turn()
        for future in shard.begun:
            future.set_exception(OutcomeUnknown("the connection was lost"))
        results: tuple[Any, Any] = await asyncio.gather(plain, named, return_exceptions=True)
        assert isinstance(results[0], OutcomeUnknown)
        assert results[1].offset == 0
        assert len(shard.asked) == 3

    asyncio.run(main())
