"""The port for ZooKeeper clients: whatever it is told, it answers or hangs up, counts, and serves others."""

from __future__ import annotations

import asyncio
import functools
import struct
from collections.abc import Awaitable, Callable

import pytest
from tests.node.zookeeper.served import HELLO, HELLO_REPLY_BYTES, Served, served

from motet.core.keeper.messages import Answer, Ask, Connect, Hangup, answer_bytes
from motet.format.zookeeper.codec import encode_request
from motet.format.zookeeper.four_letter import WORDS
from motet.format.zookeeper.jute import PAYLOAD_BYTES_MAX
from motet.format.zookeeper.messages import (
    Data,
    Exists,
    GetData,
    Nothing,
    Ping,
    SetData,
    Stat,
    Unknown,
)
from motet.limits import keeper_asked_bytes_max, unfinished_bytes_max
from motet.node.zookeeper import connection
from motet.real import budgets

LENGTH = struct.Struct(">i")
STAT = Stat(*range(11))


def in_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """A test that is a coroutine function."""

    @functools.wraps(test)
    def run() -> None:
        asyncio.run(bounded())

    async def bounded() -> None:
        async with asyncio.timeout(120):
            await test()

    del run.__wrapped__
    return run


async def is_cut_off(here: Served, *said: bytes, why: str = "garbage") -> None:
    """Whoever says this is cut off and counted; others are served."""
    before = here.server.refusals.get(why, 0)
    peer = await here.peer()
    for data in said:
        await peer.say(data)
    await peer.hear_to_the_end()
    await here.until(lambda: here.server.refusals.get(why, 0) == before + 1)
    await here.serves()


@in_loop
async def test_a_length_that_cannot_be_is_the_end() -> None:
    async with served() as here:
        for length in (-1, -(1 << 31), (1 << 31) - 1, PAYLOAD_BYTES_MAX + 1, 0x16030100):
            await is_cut_off(here, LENGTH.pack(length))
            await is_cut_off(here, HELLO, LENGTH.pack(length))
        assert here.server.refusals == {"garbage": 10}


@in_loop
async def test_the_longest_message_is_waited_for() -> None:
    async with served() as here:
        peer = await here.peer()
        await peer.greet()
        body = struct.pack(">ii", 7, 4711)
        await peer.say(LENGTH.pack(PAYLOAD_BYTES_MAX) + body.ljust(PAYLOAD_BYTES_MAX, b"x"))
        assert await peer.hear(20) == struct.pack(">iiqi", 16, 7, 1, 0)
        assert here.front.told[-1][1] == Ask(7, Unknown(4711))
        assert here.server.refusals == {}


@in_loop
async def test_a_handshake_that_is_none_is_the_end() -> None:
    async with served() as here:
        await is_cut_off(here, LENGTH.pack(0))
        for cut in (1, 20, len(HELLO) - 6):
            await is_cut_off(here, LENGTH.pack(cut) + HELLO[4 : 4 + cut])
        await is_cut_off(here, encode_request(1, Ping()))  # a request comes after it
        await is_cut_off(here, encode_request(1, Exists("/", watch=False)))
        assert here.front.count(Connect) == 6, "only those who came after"


@in_loop
async def test_a_request_that_is_none_is_the_end_of_a_session_s_connection() -> None:
    async with served() as here:
        await is_cut_off(here, HELLO, LENGTH.pack(3) + b"abc")
        await is_cut_off(here, HELLO, LENGTH.pack(12) + struct.pack(">iii", 1, 4, 99))
        not_text = b"\xff\xfe\xfd"
        body = struct.pack(">iii", 1, 4, len(not_text)) + not_text + b"\0"
        await is_cut_off(here, HELLO, LENGTH.pack(len(body)) + body)
        await here.until(lambda: here.front.gone == here.front.count(Connect))


@in_loop
async def test_a_second_handshake_is_an_operation_that_nobody_has() -> None:
    async with served() as here:
        peer = await here.peer()
        await peer.greet()
        await peer.say(HELLO)
        await here.until(lambda: here.front.count(Ask) == 1)
        assert here.front.told[-1][1] == Ask(0, Unknown(0))
        assert here.front.count(Connect) == 1


@in_loop
async def test_a_handshake_may_come_byte_by_byte() -> None:
    async with served() as here:
        peer = await here.peer()
        for place in range(len(HELLO)):
            await peer.say(HELLO[place : place + 1])
            await asyncio.sleep(0)
        await peer.hear(HELLO_REPLY_BYTES)


@in_loop
async def test_who_asks_without_the_byte_is_answered_without_it() -> None:
    async with served() as here:
        peer = await here.peer()
        await peer.say(LENGTH.pack(44) + HELLO[4:-1])
        assert await peer.hear(4) == LENGTH.pack(36)


@in_loop
async def test_words_are_answered_and_that_is_all() -> None:
    async with served() as here:
        for word in WORDS:
            peer = await here.peer()
            for place in range(4):
                await peer.say(word[place : place + 1])
            assert await peer.hear_to_the_end(), word
        peer = await here.peer()
        await peer.say(b"ruok\nwhat comes behind a word is not looked at")
        assert await peer.hear_to_the_end() == b"imok"
        await is_cut_off(here, b"nope")
        assert here.front.count(Connect) == 1
        assert here.server.refusals == {"garbage": 1}


def test_who_is_silent_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "handshake_seconds_max", 0.05)

    @in_loop
    async def run() -> None:
        async with served() as here:
            peers = [await here.peer() for _ in range(100)]
            for place, peer in enumerate(peers):
                await peer.say(HELLO[: place % len(HELLO)])
            for peer in peers:
                assert await peer.hear_to_the_end() == b""
            await here.until(lambda: here.server.count == 0)
            assert here.server.refusals == {"silent": 100}
            assert here.front.told == []
            await here.serves()

    run()


def test_who_gets_no_session_in_time_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "handshake_seconds_max", 0.05)

    @in_loop
    async def run() -> None:
        async with served() as here:
            stays = await here.peer()
            await stays.greet()
            here.front.gives_sessions = False
            peer = await here.peer()
            await peer.say(HELLO)
            assert await peer.hear_to_the_end() == b""
            assert here.server.refusals == {"not_served": 1}
            await here.until(lambda: here.front.gone == 1)
            await stays.ask(1, Ping())
            await stays.hear(20)

    run()


@in_loop
async def test_too_many_are_sent_away() -> None:
    async with served(connections_max=2) as here:
        first, second = await here.peer(), await here.peer()
        await first.greet()
        await second.greet()
        third = await here.peer()
        assert await third.hear_to_the_end() == b""
        assert here.server.refusals == {"too_many": 1}
        first.leave()
        await here.until(lambda: here.server.count == 1)
        await here.serves()


@in_loop
async def test_who_asks_without_end_is_not_read_from() -> None:
    async with served(requests_max=10) as here:
        here.front.answers = None
        peer, other = await here.peer(), await here.peer()
        await peer.greet()
        await other.greet()
        count = 20_000
        frames = b"".join(encode_request(xid, GetData("/a" * 50, False)) for xid in range(count))
        peer.writer.write(frames)
        await here.until(lambda: here.front.count(Ask) >= 10)
        await other.ask(1, Ping())
        await here.until(lambda: here.front.told[-1][1] == Ask(1, Ping()))
        taken = here.front.count(Ask)
        assert taken < count / 2, "one read of the socket, not all there is"
        here.front.answer_all()
        here.front.answers = lambda ask: Answer(ask.xid, 1, 0, Data(b"", STAT))
        reading = asyncio.create_task(peer.hear_to_the_end())
        await here.until(lambda: here.front.count(Ask) == count + 1)
        reading.cancel()


@in_loop
async def test_who_reads_no_answers_is_not_read_from() -> None:
    async with served() as here:
        large = Data(bytes(1 << 19), STAT)
        here.front.answers = lambda ask: Answer(ask.xid, 1, 0, large)
        peer, other = await here.peer(), await here.peer()
        await peer.greet()
        await other.greet()
        count = 500
        for xid in range(count):  # a quarter of a gigabyte, if all were answered
            peer.writer.write(encode_request(xid, GetData("/" + "a" * 4000, False)))
        [one, _] = here.server._connections.values()
        await here.until(lambda: not one._is_writable)
        await other.ask(1, Ping())
        await other.hear(1 << 19)
        assert here.front.count(Ask) < count
        assert one.transport.get_write_buffer_size() < 64 << 20
        for _ in range(count):
            (length,) = LENGTH.unpack(await peer.hear(4))
            await peer.hear(length)
        assert here.front.count(Ask) == count + 1


@in_loop
async def test_the_front_end_is_told_when_answers_have_left() -> None:
    async with served() as here:
        large = Data(bytes(1 << 21), STAT)
        here.front.answers = lambda ask: Answer(ask.xid, 1, 0, large)
        peer = await here.peer()
        await peer.greet()
        for xid in range(8):  # more than the sockets between us take
            await peer.ask(xid, GetData("/a", False))
        await here.until(lambda: here.front.count(Ask) == 8)
        assert here.front.sent_bytes < 8 * answer_bytes(large)
        for _ in range(8):
            (length,) = LENGTH.unpack(await peer.hear(4))
            await peer.hear(length)
        await here.until(lambda: here.front.sent_bytes == 8 * answer_bytes(large))


def test_who_takes_no_answers_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "stalled_seconds_max", 0.2)
    monkeypatch.setattr(budgets, "_look_every_seconds", 0.05)

    @in_loop
    async def run() -> None:
        async with served() as here:
            large = Data(bytes(1 << 24), STAT)
            here.front.answers = lambda ask: Answer(ask.xid, 1, 0, large)
            peer, other = await here.peer(), await here.peer()
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await peer.say(HELLO)
            await here.until(lambda: here.front.count(Connect) == 1)
            await peer.ask(1, GetData("/a", False))
            await here.until(lambda: here.server.refusals == {"stalled": 1})
            await here.until(lambda: here.front.gone == 1)
            assert here.server.budget.unsent_bytes == 0
            await other.greet()

    run()


def test_who_does_not_finish_a_message_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "unfinished_seconds_max", 0.2)
    monkeypatch.setattr(budgets, "_look_every_seconds", 0.05)

    @in_loop
    async def run() -> None:
        async with served() as here:
            peer = await here.peer()
            await peer.greet()
            await peer.say(encode_request(1, Exists("/", watch=False))[:-1])
            await peer.hear_to_the_end()
            assert here.server.refusals == {"unfinished": 1}
            await here.serves()

    run()


@in_loop
async def test_the_oldest_of_too_many_beginnings_is_cut_off() -> None:
    async with served() as here:
        size = PAYLOAD_BYTES_MAX - 100
        count = unfinished_bytes_max // size + 3
        peers = [await here.peer() for _ in range(count)]
        for peer in peers:
            await peer.greet()
            await peer.say(LENGTH.pack(PAYLOAD_BYTES_MAX) + bytes(size))
        await here.until(lambda: here.server.refusals.get("unfinished", 0) >= 2)
        assert here.server.budget.unfinished_bytes <= unfinished_bytes_max
        await peers[0].hear_to_the_end()
        await here.serves()
        assert here.server.count >= count - 4, "those that began last stay"


def test_a_hangup_does_not_wait_for_who_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "hangup_seconds_max", 0.2)

    @in_loop
    async def run() -> None:
        async with served() as here:
            peer = await here.peer()
            peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await peer.say(HELLO)
            await here.until(lambda: here.front.count(Connect) == 1)
            (address,) = here.server._connections
            here.server.send(address, Answer(1, 1, 0, Data(bytes(1 << 24), STAT)))
            here.server.send(address, Hangup("the session is over"))
            here.server.flush()
            assert here.server.budget.unsent_bytes > 0
            await here.until(lambda: here.server.count == 0)
            assert here.server.refusals == {"stalled": 1}
            assert here.server.budget.unsent_bytes == 0
            await here.until(lambda: here.front.gone == 1)

    run()


@in_loop
async def test_a_hangup_of_who_reads_is_no_refusal() -> None:
    async with served() as here:
        peer = await here.peer()
        await peer.greet()
        (address,) = here.server._connections
        here.server.send(address, Answer(1, 1, 0, Data(bytes(1 << 24), STAT)))
        here.server.send(address, Hangup("the session is over"))
        here.server.flush()
        await peer.hear(1 << 24)
        await peer.hear_to_the_end()
        await here.until(lambda: here.server.count == 0)
        assert here.server.refusals == {}
        assert here.server.budget.unsent_bytes == 0


@in_loop
async def test_who_asks_for_large_writes_without_end_is_not_read_from() -> None:
    async with served() as here:
        here.front.answers = None
        peers = [await here.peer() for _ in range(3)]
        for peer in peers:
            await peer.greet()
            for xid in range(20):
                peer.writer.write(encode_request(xid, SetData("/a", bytes(1 << 20), -1)))
        enough = keeper_asked_bytes_max >> 20
        await here.until(lambda: here.front.count(Ask) >= enough * len(peers))
        await asyncio.sleep(0.05)
        assert here.server.asked_bytes <= len(peers) * (keeper_asked_bytes_max + (2 << 20))
        here.front.answers = lambda ask: Answer(ask.xid, 1, 0, Nothing())
        here.front.answer_all()
        await here.until(lambda: here.front.count(Ask) == 20 * len(peers))
        await here.until(lambda: here.server.asked_bytes == 0)
