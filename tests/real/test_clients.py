"""What clients hold of a node: bounded, in time and in bytes, and never taken from its peers."""

from __future__ import annotations

import asyncio

import pytest
from tests.real.tcp import Endpoint, Line, Play, frame, until

from motet.ids import Address
from motet.limits import MIB, inbox_bytes_max, unfinished_bytes_max
from motet.real import budgets
from motet.real.hello import Refusal


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has patience."""
    monkeypatch.setattr(budgets, "stalled_seconds_max", 0.2)
    monkeypatch.setattr(budgets, "unfinished_seconds_max", 0.2)
    monkeypatch.setattr(budgets, "_look_every_seconds", 0.05)


@pytest.mark.usefixtures("quick")
def test_a_client_that_takes_nothing_is_closed_and_others_are_served(play: Play) -> None:
    async def main() -> None:
        async with Endpoint("n1") as server, Line(server) as deaf, Line(server) as good:
            deaf.write(Line.hello() + Line.framed(frame(0)))
            (delivery,) = await server.receive(1)
            for _ in range(20):
                server.network.send(delivery.sender, frame(1, bytes(MIB)))
            server.network.flush()
            assert server.network.counters.unsent_bytes > 20 * MIB
            refused = server.network.counters.refused
            await until(lambda: refused[Refusal.STALLED] == 1)
            await until(lambda: server.network.counters.unsent_bytes == 0)
            good.write(Line.hello() + Line.framed(frame(2)))
            await server.receive(1)

    play(main())


@pytest.mark.usefixtures("quick")
def test_a_client_that_takes_its_answers_slowly_is_not_closed(play: Play) -> None:
    async def main() -> None:
        async with Endpoint("n1") as server, Line(server) as slow:
            slow.write(Line.hello() + Line.framed(frame(0)))
            (delivery,) = await server.receive(1)
            for number in range(20):
                server.network.send(delivery.sender, frame(number, bytes(MIB)))
            server.network.flush()
            await slow.read_frame()
            for number in range(20):
                assert (await slow.read_frame()).id == number
                await asyncio.sleep(0.05)
            assert server.network.counters.refused[Refusal.STALLED] == 0

    play(main())


@pytest.mark.usefixtures("quick")
def test_a_frame_that_is_not_finished_in_time_ends_its_connection(play: Play) -> None:
    async def main() -> None:
        async with Endpoint("n1") as server, Line(server) as line:
            line.write(Line.hello() + Line.framed(frame(0, bytes(1000)))[:-1])
            await line.closed()
            assert server.network.counters.refused[Refusal.UNFINISHED] == 1

    play(main())


def test_the_oldest_of_too_many_unfinished_frames_ends(play: Play) -> None:
    async def main() -> None:
        async with Endpoint("n1") as server, Line(server) as first, Line(server) as second:
            large = Line.hello() + Line.framed(frame(0, bytes(15 * MIB)))[:-1]
            first.write(large)
            await until(lambda: server.network.counters.unfinished_bytes >= 15 * MIB)
            second.write(large)
            await until(lambda: server.network.counters.unfinished_bytes >= 30 * MIB)
            async with Line(server) as third:
                third.write(large)
                await first.closed()
                refused = server.network.counters.refused
                assert refused[Refusal.UNFINISHED] == 1
                await until(lambda: server.network.counters.unfinished_bytes >= 30 * MIB)
                assert server.network.counters.unfinished_bytes <= unfinished_bytes_max
                third.write(b"\0")
                await server.receive(1)

    play(main())


def test_a_peer_is_heard_while_the_inbox_of_clients_is_full(play: Play) -> None:
    async def main() -> None:
        async with Endpoint("n1") as server, Line(server) as client, Line(server) as peer:
            client.write(Line.hello())
            for number in range(inbox_bytes_max // (8 * MIB) + 1):
                client.write(Line.framed(frame(number, bytes(8 * MIB))))
            await until(lambda: server.network.counters.pauses == 1)
            peer.write(Line.hello(address="n2") + Line.framed(frame(7)))
            await until(lambda: server.network._inbox.count == 1)
            first, *_ = server.network.take(8)
            assert (first.sender, first.frame.id) == (Address("n2"), 7), "and heard first"

    play(main())
