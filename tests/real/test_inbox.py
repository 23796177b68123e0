"""The inbox: when it wakes, when it is full, and when it is no longer."""

from __future__ import annotations

import pytest
from tests.real.tcp import Endpoint, Play, frame, until

from motet.format.frame import Frame
from motet.ids import Address
from motet.limits import MIB, inbox_messages_max
from motet.real import budgets as inbox_module


def test_a_full_inbox_stops_reading_until_half_of_it_is_taken(play: Play) -> None:
    async def main() -> None:
        count = 5 * inbox_messages_max
        async with Endpoint("n1") as server, server.client() as client:
            for number in range(count):
                assert client.network.send(server.address, frame(number, bytes(200)))
            client.network.flush()
            await until(lambda: server.network.counters.pauses == 1)
            assert server.is_reading() is False
            async with server.client() as late:
                late.network.send(server.address, frame(0))
                late.network.flush()
                await until(lambda: server.network.counters.connections == 2)
                await until(lambda: not server.is_reading())
                arrived = server.network.counters.frames_in
                assert inbox_messages_max < arrived < count
                got = list(server.network.take(arrived - inbox_messages_max // 2 - 1))
                assert server.is_reading() is False
                got += server.network.take(1)
                assert server.is_reading() is True
                got += await server.receive(count + 1 - len(got))
            mine = [one.frame.id for one in got if one.sender == got[0].sender]
            assert mine == list(range(count))

    play(main())


def test_large_frames_fill_the_inbox_too(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox_module, "inbox_bytes_max", 3 * MIB)

    async def main() -> None:
        async with Endpoint("n1") as server, server.client() as client:
            for number in range(20):
                client.network.send(server.address, frame(number, bytes(MIB)))
            client.network.flush()
            await until(lambda: server.network.counters.pauses == 1)
            assert 3 <= server.network.counters.frames_in < 10
            got = await server.receive(20)
            assert [one.frame.id for one in got] == list(range(20))

    play(main())


def test_it_wakes_once_for_whatever_waits(play: Play) -> None:
    async def main() -> None:
        async with Endpoint("n1") as server, server.client() as client:
            for number in range(10):
                client.network.send(server.address, frame(number))
                client.network.flush()
                await until(lambda: server.network.counters.frames_in == number + 1)  # noqa: B023
            assert server.wakes == 1
            assert len(server.network.take(4)) == 4
            assert server.wakes == 1, "the rest is known to wait"
            server.network.take(100)
            client.network.send(server.address, frame(0))
            client.network.flush()
            await until(lambda: server.wakes == 2)

    play(main())


BULK, FIRST = 20, 19


def test_frames_for_bulk_are_taken_after_all_others() -> None:
    inbox = inbox_module.Inbox(lambda: None, lambda _: None, frozenset({BULK}))
    kinds = [BULK, BULK, FIRST, BULK, FIRST]
    frames = [Frame(kind, number, b"") for number, kind in enumerate(kinds)]
    inbox.put(Address("n1"), frames[:3], 30)
    inbox.put(Address("n2"), frames[3:], 20)
    taken = [inbox.take(3), inbox.take(1), inbox.take(9), inbox.take(1)]
    assert [[each.frame.id for each in some] for some in taken] == [[2, 4, 0], [1], [3], []]
