"""The network within a process: the same frames as over TCP, from both at once, within bounds."""

from __future__ import annotations

import asyncio

from motet.format.frame import Frame
from motet.ids import Address
from motet.limits import inbox_messages_max
from motet.real.in_process import LOOPBACK, InProcessNetwork
from motet.real.network import TcpNetwork

NODE = Address("n0")


def frame(number: int) -> Frame:
    return Frame(40, number, b"body")


class Wakes:
    """Counts how often somebody was woken, and can be waited for."""

    def __init__(self) -> None:
        self.count = 0
        self.event = asyncio.Event()

    def __call__(self) -> None:
        self.count += 1
        self.event.set()


def node() -> tuple[InProcessNetwork, Wakes]:
    wakes = Wakes()
    return InProcessNetwork(NODE, cluster="test", wake=wakes), wakes


def test_frames_go_both_ways_and_wake_whoever_they_are_for() -> None:
    async def run() -> None:
        network, node_wakes = node()
        client_wakes = Wakes()
        client = network.client(client_wakes)
        await client.start()
        assert client.send(NODE, frame(1))
        assert client.send(NODE, frame(2))
        client.flush()
        assert node_wakes.count == 1
        deliveries = network.take(10)
        assert [delivery.frame for delivery in deliveries] == [frame(1), frame(2)]
        assert {delivery.sender for delivery in deliveries} == {client.address}
        assert network.send(client.address, frame(3))
        assert client.take(10) == []
        network.flush()
        assert client_wakes.count == 1
        (answer,) = client.take(10)
        assert (answer.sender, answer.frame) == (NODE, frame(3))

    asyncio.run(run())


def test_clients_have_addresses_of_their_own() -> None:
    async def run() -> None:
        network, _ = node()
        clients = [network.client(Wakes()) for _ in range(3)]
        for client in clients:
            await client.start()
        assert len({client.address for client in clients}) == 3
        network.send(clients[1].address, frame(1))
        network.flush()
        assert [len(client.take(10)) for client in clients] == [0, 1, 0]

    asyncio.run(run())


def test_strangers_get_nothing() -> None:
    async def run() -> None:
        network, _ = node()
        client = network.client(Wakes())
        assert not network.send(client.address, frame(1))  # it has not started
        await client.start()
        assert not client.send(Address("n1"), frame(1))
        assert not network.send(Address("n1"), frame(1))
        assert network.send(client.address, frame(1))
        await client.stop()
        network.flush()
        assert client.take(10) == []
        assert not network.send(client.address, frame(1))

    asyncio.run(run())


def test_a_full_inbox_says_so_until_half_of_it_is_taken() -> None:
    async def run() -> None:
        network, _ = node()
        client = network.client(Wakes())
        await client.start()
        taken = 0
        while client.send(NODE, frame(taken)):
            taken += 1
            assert taken <= 2 * inbox_messages_max
        assert taken > inbox_messages_max - 1
        assert len(network.take(taken)) == taken
        assert client.send(NODE, frame(0))

    asyncio.run(run())


def test_it_serves_sockets_and_the_process_at_once_and_in_turns() -> None:
    async def run() -> None:
        network, wakes = node()
        local = network.client(Wakes())
        await local.start()
        port = await network.serve()
        assert await network.serve() == port
        remote_wakes = Wakes()
        remote = TcpNetwork(
            None, cluster="test", listen=None, peers={NODE: (LOOPBACK, port)}, wake=remote_wakes
        )
        await remote.start()
        for number in range(4):
            remote.send(NODE, frame(number))
        remote.flush()
        await wakes.event.wait()
        for number in range(4):
            local.send(NODE, frame(10 + number))
        first, second = network.take(3), network.take(3)
        assert len({delivery.sender for delivery in first}) == 1
        assert {d.sender for d in first} != {d.sender for d in second}
        assert len(network.take(100)) == 2
        (sender,) = {d.sender for d in (*first, *second)} - {local.address}
        assert network.send(sender, frame(7))
        network.flush()
        await remote_wakes.event.wait()
        assert [delivery.frame for delivery in remote.take(10)] == [frame(7)]
        await remote.stop()
        await network.stop()

    asyncio.run(run())
