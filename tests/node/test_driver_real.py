"""The driver on real ports: sockets on loopback, files, and processes that are killed."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import msgspec
from tests.node.fakes import Ping, Pong, Scripted, given
from tests.node.journal_machine import (
    CLUSTER,
    KIND,
    SERVER,
    Append,
    Appended,
    List,
    Messages,
    Values,
    decode,
    host_journal,
)

from motet.core.machine import (
    Effect,
    Event,
    Fired,
    Message,
    Received,
    Send,
    SetTimer,
    Started,
    Write,
)
from motet.format.frame import Frame
from motet.ids import Address, FileName, TimerName, WriteId
from motet.node.driver import Driver
from motet.node.hosting import Hosting
from motet.real.disk import RealDisk
from motet.real.network import TcpNetwork
from motet.real.process import RealEntropy, RealTime

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 60  # of patience; nothing here is measured


class Client:
    """Talks to the journal at a port; runs inside one loop."""

    def __init__(self, port: int) -> None:
        self._woken = asyncio.Event()
        self.network = TcpNetwork(
            None,
            cluster=CLUSTER,
            listen=None,
            peers={SERVER: ("127.0.0.1", port)},
            wake=self._woken.set,
        )
        self._decode: Callable[[bytes], Messages] = msgspec.msgpack.Decoder(Messages).decode

    def send(self, *messages: Message) -> None:
        for message in messages:
            assert self.network.send(SERVER, Frame(KIND, 0, msgspec.msgpack.encode(message)))
        self.network.flush()

    async def receive(self) -> list[Messages]:
        """At least one message."""
        while not (taken := self.network.take(1000)):
            self._woken.clear()
            async with asyncio.timeout(SECONDS_MAX):
                await self._woken.wait()
        return [self._decode(delivery.frame.body) for delivery in taken]


@contextmanager
def journal_process(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    command = [sys.executable, "-m", "tests.node.journal_machine", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


async def append_until_killed(
    process: subprocess.Popen[str], port: int, first: int, enough: int
) -> list[int]:
    """Append with 64 in flight, kill the process after so many acknowledgements; those there were."""
    client = Client(port)
    await client.network.start()
    acknowledged: list[int] = []
    sent = first + 64
    client.send(*(Append(value) for value in range(first, sent)))
    while len(acknowledged) < enough:
        answers = await client.receive()
        acknowledged += [answer.value for answer in answers if isinstance(answer, Appended)]
        client.send(*(Append(value) for value in range(sent, sent + len(answers))))
        sent += len(answers)
    process.send_signal(signal.SIGKILL)
    process.wait()
    await client.network.stop()
    return acknowledged


async def read_back(port: int) -> list[int]:
    client = Client(port)
    await client.network.start()
    while True:
        client.send(List())
        for answer in await client.receive():
            if isinstance(answer, Values):
                await client.network.stop()
                return answer.values


def test_every_acknowledged_value_survives_kill_9(tmp_path: Path) -> None:
    acknowledged: list[int] = []
    for first, enough in ((0, 1), (10_000, 150), (20_000, 1_000)):
        with journal_process(tmp_path) as (process, port):
            run = append_until_killed(process, port, first, enough)
            acknowledged += asyncio.run(run)
    with journal_process(tmp_path) as (_, port):
        values = asyncio.run(read_back(port))
    assert len(acknowledged) > 1_000
    assert set(acknowledged) <= set(values)
    assert len(values) == len(set(values)), "nothing is there twice"


def test_what_waits_together_is_synced_together(tmp_path: Path) -> None:
    async def main() -> None:
        driver = Driver([host_journal(tmp_path)], time=RealTime(), entropy=RealEntropy())
        network = TcpNetwork(
            SERVER, cluster=CLUSTER, listen=("127.0.0.1", 0), peers={}, wake=driver.wake
        )
        await network.start()
        driver.start(network)
        client = Client(network.port)
        await client.network.start()
        client.send(*(Append(value) for value in range(1_000)))
        acknowledged: list[Messages] = []
        while len(acknowledged) < 1_000:
            acknowledged += await client.receive()
        assert driver.counters.writes == 1_000
        assert driver.counters.syncs < 100
        driver.stop()
        await client.network.stop()
        await network.stop()

    asyncio.run(main())
    assert decode((tmp_path / "journal").read_bytes()) == list(range(1_000))


def test_two_drivers_in_one_loop_play_ping_pong(tmp_path: Path) -> None:
    """Each throw is durable before the other side sees it."""
    rounds = 200
    a, b = Address("a"), Address("b")
    done = asyncio.Event()

    def player(other: Address, *, serves: bool) -> Callable[[Event], list[Effect]]:
        def throw(number: int) -> list[Effect]:
            write = WriteId(number)
            data = number.to_bytes(4, "big")
            return [
                Write(write, FileName("throws"), 4 * number, data),
                Send(other, Ping(number), after=write),
            ]

        def behave(event: Event) -> list[Effect]:
            if isinstance(event, Started) and serves:
                return throw(0)
            if isinstance(event, Received) and isinstance(event.message, Ping):
                if event.message.number == rounds:
                    done.set()
                    return []
                return throw(event.message.number + 1)
            return []

        return behave

    async def main() -> None:
        machines = {a: Scripted(player(b, serves=True)), b: Scripted(player(a, serves=False))}
        drivers, networks = {}, {}
        for address, machine in machines.items():
            disk = RealDisk(tmp_path / address)
            hosting = Hosting("player", KIND, Ping | Pong, partial(given, machine), disk)
            drivers[address] = Driver([hosting], time=RealTime(), entropy=RealEntropy())
            networks[address] = TcpNetwork(
                address,
                cluster=CLUSTER,
                listen=("127.0.0.1", 0),
                peers={},
                wake=drivers[address].wake,
            )
            await networks[address].start()
        networks[a].add_peer(b, ("127.0.0.1", networks[b].port))
        networks[b].add_peer(a, ("127.0.0.1", networks[a].port))
        for address, driver in drivers.items():
            driver.start(networks[address])
        async with asyncio.timeout(SECONDS_MAX):
            await done.wait()
        for address, driver in drivers.items():
            driver.stop()
            await networks[address].stop()
        received = {
            address: [m.number for m in machine.messages() if isinstance(m, Ping)]
            for address, machine in machines.items()
        }
        assert received[b] == list(range(0, rounds + 1, 2))
        assert received[a] == list(range(1, rounds, 2))

    asyncio.run(main())


def test_the_driver_sleeps_until_a_timer_is_due(tmp_path: Path) -> None:
    fired = asyncio.Event()
    after_ms = 20

    def behave(event: Event) -> list[Effect]:
        if isinstance(event, Fired):
            fired.set()
        return [SetTimer(TimerName("once"), after_ms)] if isinstance(event, Started) else []

    async def main() -> None:
        machine = Scripted(behave)
        hosting = Hosting("sleeper", KIND, Ping | Pong, lambda: machine, RealDisk(tmp_path))
        driver = Driver([hosting], time=RealTime(), entropy=RealEntropy())
        network = TcpNetwork(
            SERVER, cluster=CLUSTER, listen=("127.0.0.1", 0), peers={}, wake=driver.wake
        )
        await network.start()
        driver.start(network)
        async with asyncio.timeout(SECONDS_MAX):
            await fired.wait()
        started, rang = machine.events
        assert driver.counters.turns == 2, "an alarm that rings early has to ring again"
        assert rang.now.monotonic_ns - started.now.monotonic_ns >= after_ms * 1_000_000
        assert driver.counters.turns <= 10, "it slept, it did not spin"
        driver.stop()
        await network.stop()

    asyncio.run(main())
