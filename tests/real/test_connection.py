"""One connection: how it begins, who is sent away, and who is not read from."""

from __future__ import annotations

import asyncio

import pytest
from tests.real.tcp import CLUSTER, Endpoint, Line, Play, frame, until

from motet.format.frame import Frame
from motet.ids import Address
from motet.limits import MIB
from motet.real import connection as connection_module
from motet.real.hello import Refusal, decode_hello


def test_both_sides_greet_first(play: Play) -> None:
    async def main() -> None:
        async with Endpoint("n1") as server, Line(server) as line:
            greeting = await line.read_frame()
            hello = decode_hello(greeting)
            assert hello is not None
            assert (hello.cluster, hello.address) == (CLUSTER, "n1")

    play(main())


@pytest.mark.parametrize(
    ("first_bytes", "why"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", Refusal.BAD_FRAME),
        (Line.framed(frame(1)), Refusal.NO_HELLO),
        (Line.framed(Frame(1, 0, b"not a greeting")), Refusal.NO_HELLO),
        (Line.framed(Frame(1, 0, bytes(5000)))[:2000], Refusal.NO_HELLO),
        (Line.hello(cluster="another"), Refusal.WRONG_CLUSTER),
        (Line.hello(version=99), Refusal.WRONG_VERSION),
        (Line.hello(address="client-1"), Refusal.WRONG_ADDRESS),
        (Line.hello(address="n1"), Refusal.WRONG_ADDRESS),
        (Line.hello() + Line.framed(Frame(1, 0, b"")), Refusal.BAD_FRAME),
        (Line.hello() + Line.framed(frame(1))[:-1] + b"?", Refusal.BAD_FRAME),
    ],
)
def test_who_does_not_greet_properly_is_sent_away(
    play: Play, first_bytes: bytes, why: Refusal
) -> None:
    async def main() -> None:
        async with Endpoint("n1") as server, Line(server) as line:
            line.write(first_bytes)
            await line.closed()
            await until(lambda: server.network.counters.connections == 0)
            counters = server.network.counters
            assert {reason: count for reason, count in counters.refused.items() if count} == {
                why: 1
            }
            assert counters.last_refusal.startswith(why)
            assert server.network.take(10) == []

    play(main())


def test_what_follows_the_greeting_at_once_is_delivered(play: Play) -> None:
    async def main() -> None:
        async with Endpoint("n1") as server, Line(server) as line:
            line.write(Line.hello(address="n9") + Line.framed(frame(5)))
            (delivery,) = await server.receive(1)
            assert (delivery.sender, delivery.frame.id) == ("n9", 5)
            assert server.network.send(Address("n9"), frame(6)), "who has come can be answered"
            server.network.flush()
            assert decode_hello(await line.read_frame())
            assert await line.read_frame() == frame(6)

    play(main())


def test_silence_is_not_a_greeting(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "hello_seconds_max", 0.05)

    async def main() -> None:
        async with Endpoint("n1") as server, Line(server) as silent, Line(server) as good:
            good.write(Line.hello())
            await silent.closed()
            assert server.network.counters.refused[Refusal.SILENT] == 1
            good.write(Line.framed(frame(1)))
            await server.receive(1)

    play(main())


def test_a_wrong_cluster_is_seen_from_both_sides(play: Play) -> None:
    async def main() -> None:
        async with (
            Endpoint("n1") as server,
            Endpoint(None, cluster="another", peers=server.as_peer()) as client,
        ):
            client.network.send(server.address, frame(1))
            client.network.flush()
            await until(lambda: client.network.counters.dropped_unreachable == 1)
            assert client.network.counters.refused[Refusal.WRONG_CLUSTER] == 1
            await until(lambda: server.network.counters.refused[Refusal.WRONG_CLUSTER] == 1)

    play(main())


def test_one_connection_more_than_allowed(play: Play) -> None:
    async def main() -> None:
        async with Endpoint("n1") as server, Line(server) as one:
            server.network._clients_max = 2
            one.write(Line.hello())
            async with Line(server) as two:
                two.write(Line.hello())
                await two.read_frame()
                async with Line(server) as three:
                    three.write(Line.hello())
                    await three.closed()
                assert server.network.counters.refused[Refusal.TOO_MANY] == 1
            await until(lambda: server.network.counters.connections == 1)
            async with Line(server) as four:
                four.write(Line.hello() + Line.framed(frame(4)))
                await server.receive(1)

    play(main())


def test_a_client_that_does_not_read_is_not_read_from(play: Play) -> None:
    async def main() -> None:
        async with Endpoint("n1") as server, Line(server) as line:
            line.write(Line.hello() + Line.framed(frame(0)))
            (delivery,) = await server.receive(1)
            (connection,) = server.network._connections
            body = bytes(MIB)
            sent = 0
            while connection.is_writable:
                assert server.network.send(delivery.sender, frame(sent, body))
                server.network.flush()
                sent += 1
                assert sent < 1000
                await asyncio.sleep(0)
            assert server.network.send(delivery.sender, frame(sent, body)), "this one waits"
            server.network.flush()
            assert connection.transport.is_reading() is False
            line.write(Line.framed(frame(1)))
            assert decode_hello(await line.read_frame())
            for number in range(sent + 1):
                assert (await line.read_frame()).id == number
            (delivery,) = await server.receive(1)
            assert delivery.frame == frame(1)

    play(main())
