"""The real network where the port does not reach: clients, peers that come and go, one write per turn."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from tests.real.tcp import HOST, Endpoint, Line, Play, deadline_seconds, frame, until

from motet.errors import BadFrame
from motet.format.frame import FRAME_BODY_BYTES_MAX, FRAME_HEADER_BYTES, FrameDecoder
from motet.ids import Address
from motet.limits import MIB, peer_queue_bytes_max
from motet.real import network as network_module
from motet.real.connection import unpack
from motet.real.hello import Refusal
from motet.real.network import redial_seconds


async def answer(server: Endpoint, *, to: Address | None = None) -> None:
    """Answer one frame with itself."""
    (delivery,) = await server.receive(1)
    assert server.network.send(to or delivery.sender, delivery.frame)
    server.network.flush()


# Clients


def test_each_client_has_an_address_of_its_own(play: Play) -> None:
    async def main() -> None:
        async with Endpoint("n1") as server, server.client() as one, server.client() as two:
            for client in (one, two):
                client.network.send(server.address, frame(1))
                client.network.flush()
            senders = sorted(delivery.sender for delivery in await server.receive(2))
            assert senders == ["client-1", "client-2"]
            for number, sender in enumerate(senders):
                server.network.send(sender, frame(number))
            server.network.flush()
            answers = await one.receive(1) + await two.receive(1)
            assert sorted(delivery.frame.id for delivery in answers) == [0, 1]
            assert {delivery.sender for delivery in answers} == {server.address}

    play(main())


@pytest.mark.parametrize("turns", range(12))
def test_a_client_can_leave_at_any_moment_of_its_dialing(play: Play, turns: int) -> None:
    async def main() -> None:
        async with Endpoint("n1") as server, asyncio.timeout(deadline_seconds):
            async with server.client() as client:
                client.network.send(server.address, frame(0))
                client.network.flush()
                for _ in range(turns):
                    await asyncio.sleep(0)
            assert client.network.counters.connections == 0

    play(main())


def test_an_address_is_not_used_twice_and_goes_with_its_client(play: Play) -> None:
    async def main() -> None:
        async with Endpoint("n1") as server:
            for number in (1, 2, 3):
                async with server.client() as client:
                    client.network.send(server.address, frame(0))
                    client.network.flush()
                    (delivery,) = await server.receive(1)
                    assert delivery.sender == f"client-{number}"
                await until(lambda: server.network.counters.connections == 0)
                assert server.network.send(delivery.sender, frame(0)) is False
            assert server.network.counters.connections_total == 3

    play(main())


def test_a_client_may_call_a_node_as_it_likes_but_a_node_insists(play: Play) -> None:
    async def main() -> None:
        nickname = Address("whoever")
        async with Endpoint("n1") as server:
            where = {nickname: (HOST, server.network.port)}
            async with Endpoint(None, peers=where) as client:
                client.network.send(nickname, frame(7))
                client.network.flush()
                await answer(server)
                (delivery,) = await client.receive(1)
                assert delivery.sender == nickname
            async with Endpoint("n2", peers=where) as node:
                node.network.send(nickname, frame(7))
                node.network.flush()
                await until(lambda: node.network.counters.dropped_unreachable == 1)
                assert node.network.counters.refused[Refusal.WRONG_ADDRESS] == 1
                assert "n1" in node.network.counters.last_refusal

    play(main())


# Nodes that come and go


def test_two_nodes_that_dial_each_other_at_once(play: Play) -> None:
    async def main() -> None:
        async with Endpoint("n1") as n1, Endpoint("n2") as n2:
            n1.network.add_peer(n2.address, (HOST, n2.network.port))
            n2.network.add_peer(n1.address, (HOST, n1.network.port))
            for number in range(100):
                n1.network.send(n2.address, frame(number))
                n2.network.send(n1.address, frame(number))
                n1.network.flush()
                n2.network.flush()
                assert [one.frame.id for one in await n1.receive(1)] == [number]
                assert [one.frame.id for one in await n2.receive(1)] == [number]
            for node in (n1, n2):
                assert node.network.counters.connections <= 2
                assert node.network.counters.dials <= 1
                assert sum(node.network.counters.refused.values()) == 0

    play(main())


def test_a_peer_that_comes_back_is_found_again(play: Play) -> None:
    async def main() -> None:
        async with Endpoint("n1") as n1:
            for life in range(3):
                async with Endpoint("n2") as n2:
                    n1.network.add_peer(n2.address, (HOST, n2.network.port))
                    await n1.send_until_received(n2, frame(life))
                    assert n1.network.is_connected(n2.address)
                await until(lambda: not n1.network.is_connected(Address("n2")))

    play(main())


def test_what_waits_for_a_dead_peer_is_dropped_and_counted(play: Play) -> None:
    async def main() -> None:
        gone = Address("gone")
        async with Endpoint("n1", peers={gone: (HOST, 1)}) as n1:
            counters = n1.network.counters
            for attempt in (1, 2, 3):
                for number in range(10):
                    assert n1.network.send(gone, frame(number))
                n1.network.flush()
                await until(lambda: n1.network.counters.dropped_unreachable == 10 * attempt)  # noqa: B023
                assert counters.dials == counters.dials_failed == attempt

    play(main())


def test_a_host_that_is_none(play: Play) -> None:
    async def main() -> None:
        odd = Address("odd")
        async with Endpoint("n1", peers={odd: ("no..host", 7)}) as n1:
            n1.network.send(odd, frame(1))
            n1.network.flush()
            await until(lambda: n1.dials_failed() == 1)

    play(main())


def test_the_pause_before_a_dial_doubles_up_to_a_bound() -> None:
    pauses = [redial_seconds(failures) for failures in range(2000)]
    assert pauses[0] == 0
    assert all(later == min(2 * sooner, 1.0) for sooner, later in pairwise(pauses[1:]))
    assert pauses[-1] == 1.0


# Writing


def test_one_write_per_peer_and_flush(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with Endpoint("n1") as n1, Endpoint("n2") as n2, Endpoint("n3") as n3:
            for peer in (n2, n3):
                n1.network.add_peer(peer.address, (HOST, peer.network.port))
                await n1.send_until_received(peer, frame(0))
            writes: list[bytes] = []
            for connection in n1.network._connections:
                connection.transport = Recorder(connection.transport, writes)  # type: ignore[assignment]
            for number in range(1000):
                n1.network.send(n2.address, frame(number, bytes(100)))
                n1.network.send(n3.address, frame(number, bytes(100)))
            assert writes == []
            n1.network.flush()
            assert len(writes) == 2
            n1.network.flush()
            assert len(writes) == 2
            for data in writes:
                sent = unpack(FrameDecoder().feed(data))
                assert [one.id for one in sent] == list(range(1000))

    play(main())


class Recorder:
    """A transport that notes what is written to it."""

    def __init__(self, transport: asyncio.Transport, writes: list[bytes]) -> None:
        self._transport = transport
        self._writes = writes

    def write(self, data: bytes) -> None:
        self._writes.append(data)
        self._transport.write(data)

    def writelines(self, pieces: list[bytes]) -> None:
        self._writes.append(b"".join(pieces))
        self._transport.writelines(pieces)

    def __getattr__(self, name: str) -> object:
        return getattr(self._transport, name)


def test_a_full_queue_is_one_peer_s_matter(play: Play) -> None:
    async def main() -> None:
        gone = Address("gone")
        async with Endpoint("n2") as n2:
            peers = {gone: (HOST, 1), **n2.as_peer()}
            async with Endpoint("n1", peers=peers) as n1:
                body = bytes(MIB - FRAME_HEADER_BYTES)
                room = peer_queue_bytes_max // MIB
                results = [n1.network.send(gone, frame(number, body)) for number in range(room + 3)]
                assert results == [True] * room + [False] * 3
                assert n1.network.counters.dropped_full == 3
                await n1.send_until_received(n2, frame(1))

    play(main())


def test_a_frame_that_is_too_large_is_the_caller_s_mistake(play: Play) -> None:
    async def main() -> None:
        async with Endpoint("n2") as n2, n2.client() as client:
            with pytest.raises(BadFrame):
                client.network.send(n2.address, frame(1, bytes(FRAME_BODY_BYTES_MAX + 1)))
            client.network.send(n2.address, frame(2, bytes(FRAME_BODY_BYTES_MAX)))
            client.network.flush()
            (delivery,) = await n2.receive(1)
            assert len(delivery.frame.body) == FRAME_BODY_BYTES_MAX

    play(main())


# Stopping


def test_stopping_lets_out_what_is_queued(play: Play) -> None:
    async def main() -> None:
        async with Endpoint("n1") as server:
            async with server.client() as client:
                await client.send_until_received(server, frame(0))
                for number in range(1000):
                    client.network.send(server.address, frame(number, bytes(1000)))
            assert client.network.send(server.address, frame(1)) is False, "it is over"
            got = await server.receive(1000)
            assert [one.frame.id for one in got] == list(range(1000))

    play(main())


def test_stopping_does_not_wait_for_who_does_not_read(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_module, "stop_seconds_max", 0.05)

    async def main() -> None:
        async with Endpoint("n1") as server, Line(server) as line:
            line.write(Line.hello() + Line.framed(frame(0)))
            (delivery,) = await server.receive(1)
            for _ in range(30):
                server.network.send(delivery.sender, frame(0, bytes(MIB)))
            await server.network.stop()
            assert server.network.counters.connections == 0

    play(main())


def test_stopping_in_the_middle_of_a_dial(play: Play) -> None:
    async def main() -> None:
        gone = Address("gone")
        async with Endpoint("n1", peers={gone: (HOST, 1)}) as n1:
            n1.network.send(gone, frame(1))
            n1.network.flush()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    play(main())


def test_a_port_that_is_taken(play: Play) -> None:
    async def main() -> None:
        async with Endpoint("n1") as n1:
            second = Endpoint("n2", port=n1.network.port)
            with pytest.raises(OSError, match="in use"):
                await second.network.start()

    play(main())
