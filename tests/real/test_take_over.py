"""When a connection of a node takes the place of another: both have proved the cluster key."""

from __future__ import annotations

import asyncio

import pytest
from tests.real.tcp import Endpoint, Line, Play, deadline_seconds, frame, until
from tests.real.test_admission import KEY, closed_with, know_each_other

from motet.format.frame import Frame, FrameKind
from motet.ids import Address
from motet.real import admission
from motet.real.hello import Refusal


def test_a_live_node_is_not_displaced_by_a_duplicate_that_was_started_later(play: Play) -> None:
    async def main() -> None:
        async with (
            Endpoint("n1", key=KEY, incarnation=1) as n1,
            Endpoint("n2", key=KEY, incarnation=2) as n2,
            Endpoint("n2", key=KEY, incarnation=3, peers=n1.as_peer()) as duplicate,
        ):
            await know_each_other(n1, n2)
            duplicate.network.send(n1.address, frame(66))
            duplicate.network.flush()
            await until(lambda: Refusal.DUPLICATE in n1.refusals)
            assert n1.network.take(10) == []
            await n1.send_until_received(n2, frame(3))
            assert duplicate.network.take(10) == []
            assert Refusal.REPLACED not in n1.refusals

    play(main())


def test_a_process_that_was_replaced_is_refused_when_it_comes_back(play: Play) -> None:
    async def main() -> None:
        async with Endpoint("n1", key=KEY) as server, Line(server) as newer, Line(server) as older:
            await newer.introduce("n2", KEY, 8)
            newer.write(Line.framed(frame(1)))
            await server.receive(1)
            await older.introduce("n2", KEY, 7)
            await closed_with(server, older, Refusal.DUPLICATE)
            server.network.send(Address("n2"), frame(2))
            server.network.flush()
            assert await newer.read_frame() == frame(2)

    play(main())


def test_the_next_process_takes_over_from_one_that_is_silent_or_gone(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "probe_seconds_max", 0.05)

    async def main() -> None:
        async with Endpoint("n1", key=KEY) as server, Line(server) as silent, Line(server) as newer:
            await silent.introduce("n2", KEY, 7)
            silent.write(Line.framed(frame(1)))
            await server.receive(1)
            # What it says at once, before it is admitted, is not lost.
            await newer.introduce("n2", KEY, 8)
            newer.write(Line.framed(frame(2)))
            assert [one.frame.id for one in await server.receive(1)] == [2]
            await silent.closed()
            assert server.refusals == [Refusal.REPLACED]
            server.network.send(Address("n2"), frame(3))
            server.network.flush()
            assert await newer.read_frame() == frame(3)

    play(main())


def test_a_connection_that_ends_while_it_is_probed_makes_way_at_once(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "probe_seconds_max", 10 * deadline_seconds)

    async def main() -> None:
        async with Endpoint("n1", key=KEY) as server, Line(server) as newer:
            async with Line(server) as ending:
                await ending.introduce("n2", KEY, 7)
                ending.write(Line.framed(frame(1)))
                await server.receive(1)
                await newer.introduce("n2", KEY, 8)
                newer.write(Line.framed(frame(2)))
                assert (await ending.read_frame()).kind == FrameKind.PROBE
                assert server.network.take(10) == []
            assert [one.frame.id for one in await server.receive(1)] == [2]
            assert server.refusals == []

    play(main())


def test_an_echo_of_another_probe_saves_nobody(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "probe_seconds_max", 0.05)

    async def main() -> None:
        async with Endpoint("n1", key=KEY) as server, Line(server) as older, Line(server) as newer:
            await older.introduce("n2", KEY, 7)
            older.write(Line.framed(Frame(FrameKind.ECHO, 0, b"made up")) + Line.framed(frame(1)))
            await server.receive(1)
            await newer.introduce("n2", KEY, 8)
            older.write(Line.framed(Frame(FrameKind.ECHO, 0, b"made up")))
            newer.write(Line.framed(frame(2)))
            await server.receive(1)
            assert server.refusals == [Refusal.REPLACED]

    play(main())


def test_the_same_process_replaces_what_it_has_dialed_before(play: Play) -> None:
    async def main() -> None:
        async with Endpoint("n1", key=KEY) as server, Line(server) as older, Line(server) as newer:
            for number, line in enumerate((older, newer)):
                await line.introduce("n9", KEY, 7)
                line.write(Line.framed(frame(number)))
                await server.receive(1)
            await older.closed()
            assert server.refusals == [Refusal.REPLACED]
            server.network.send(Address("n9"), frame(2))
            server.network.flush()
            assert await newer.read_frame() == frame(2)

    play(main())


def test_a_duplicate_dials_more_and_more_seldom(play: Play) -> None:
    async def main() -> None:
        async with (
            Endpoint("n1", key=KEY) as n1,
            Endpoint("n2", key=KEY, incarnation=2) as n2,
            Endpoint("n2", key=KEY, incarnation=1, peers=n1.as_peer()) as duplicate,
        ):
            await know_each_other(n1, n2)
            loop = asyncio.get_running_loop()
            began = loop.time()

            def is_refused_often() -> bool:
                duplicate.network.send(n1.address, frame(66))
                duplicate.network.flush()
                return n1.refusals.count(Refusal.DUPLICATE) >= 5

            await until(is_refused_often)
            # 20, 40, 80 and 160 ms between five dials: never less, however slow the machine is
            assert loop.time() - began >= 0.25

    play(main())
