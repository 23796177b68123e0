"""Two protocols in one process, connected without a socket: what a socket would do, this does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from motet.real.in_process import PipeEnd, connect_in_memory


class Side(asyncio.Protocol):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.told: list[str] = []
        self.end: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.end = transport

    def data_received(self, data: bytes) -> None:
        self.received.append(data)

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")

    def connection_lost(self, _error: Exception | None) -> None:
        self.told.append("lost")


Pair = tuple[Side, Side, PipeEnd, PipeEnd]


def connected(test: Callable[[Pair], Awaitable[None]]) -> None:
    async def run() -> None:
        one, other = Side(), Side()
        ends = connect_in_memory(one, other)
        assert (one.end, other.end) == ends
        await test((one, other, *ends))

    asyncio.run(run())


async def settle() -> None:
    """Turns enough for all that follows from what was done."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_what_is_written_arrives_in_order_and_together_but_not_at_once() -> None:
    async def test(pair: Pair) -> None:
        one, other, left, right = pair
        left.write(b"a")
        left.write(b"b")
        right.write(b"x")
        assert (one.received, other.received) == ([], [])
        await settle()
        assert (one.received, other.received) == ([b"x"], [b"ab"])

    connected(test)


def test_who_does_not_read_is_not_given_anything_and_who_writes_is_told() -> None:
    async def test(pair: Pair) -> None:
        one, other, left, right = pair
        left.set_write_buffer_limits(high=10)
        right.pause_reading()
        left.write(bytes(10))
        assert one.told == []
        left.write(b"!")
        await settle()
        assert (one.told, other.received, left.get_write_buffer_size()) == (["pause"], [], 11)
        assert not right.is_reading()
        right.resume_reading()
        await settle()
        assert (one.told, other.received) == (["pause", "resume"], [bytes(10) + b"!"])
        assert left.get_write_buffer_size() == 0

    connected(test)


def test_closing_lets_what_was_written_arrive() -> None:
    async def test(pair: Pair) -> None:
        one, other, left, right = pair
        left.write(b"bye")
        left.close()
        left.close()
        left.write(b"too late")
        right.write(b"nobody listens")
        await settle()
        assert (one.received, one.told) == ([], ["lost"])
        assert (other.received, other.told) == ([b"bye"], ["lost"])
        assert left.is_closing()
        assert right.is_closing()

    connected(test)


def test_aborting_does_not() -> None:
    async def test(pair: Pair) -> None:
        one, other, left, _ = pair
        left.write(b"never mind")
        left.abort()
        await settle()
        assert (one.told, other.received, other.told) == (["lost"], [], ["lost"])

    connected(test)


def test_who_does_not_read_hears_of_the_end_when_it_reads_again() -> None:
    async def test(pair: Pair) -> None:
        _, other, left, right = pair
        right.pause_reading()
        left.write(b"last")
        left.close()
        await settle()
        assert other.told == []
        right.resume_reading()
        await settle()
        assert (other.received, other.told) == ([b"last"], ["lost"])

    connected(test)
