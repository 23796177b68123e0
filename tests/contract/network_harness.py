"""What the network suite needs beyond the port: endpoints that know each other, and a world that goes on."""

from __future__ import annotations

import asyncio
import contextlib
import heapq
from collections.abc import Callable, Sequence
from typing import Protocol

from motet.ids import Address
from motet.limits import inbox_messages_max
from motet.ports import Network
from motet.real.network import TcpNetwork
from motet.sim.dice import Dice
from motet.sim.faults import NetworkFaults
from motet.sim.network import Fabric, SimNetwork
from motet.sim.time import VirtualTime

SEED = 7


class NetworkHarness(Protocol):
    """Some endpoints that know each other; ``gone`` is an address they know with nobody behind it."""

    gone: Address

    @property
    def endpoints(self) -> Sequence[Network]:
        """At least three."""

    def pump(self, is_done: Callable[[], bool]) -> None:
        """Let the world go on until the condition holds; an error when it never does."""

    def close(self) -> None:
        """The end of the test."""


NAMES = [Address("n1"), Address("n2"), Address("n3")]
GONE = Address("n4")


class TcpNetworkHarness:
    """Three nodes on loopback, in one event loop that turns while we pump."""

    deadline_seconds = 30.0

    def __init__(self) -> None:
        self.gone = GONE
        self._loop = asyncio.new_event_loop()
        self._woken = asyncio.Event()
        self.endpoints: list[TcpNetwork] = [
            TcpNetwork(
                name, cluster="test", listen=("127.0.0.1", 0), peers={}, wake=self._woken.set
            )
            for name in NAMES
        ]
        for endpoint in self.endpoints:
            self._loop.run_until_complete(endpoint.start())
        for endpoint in self.endpoints:
            for other in self.endpoints:
                if other is not endpoint:
                    endpoint.add_peer(other.address, ("127.0.0.1", other.port))
            endpoint.add_peer(GONE, ("127.0.0.1", 1))  # a port on which nobody listens

    def pump(self, is_done: Callable[[], bool]) -> None:
        self._loop.run_until_complete(self._pump(is_done))

    async def _pump(self, is_done: Callable[[], bool]) -> None:
        async with asyncio.timeout(self.deadline_seconds):
            while not is_done():
                await self._wait_a_little()

    async def _wait_a_little(self) -> None:
        """Until something arrives; not for long, since a condition may be about something else."""
        self._woken.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await self._woken.wait()

    def close(self) -> None:
        for endpoint in self.endpoints:
            self._loop.run_until_complete(endpoint.stop())
        self._loop.close()


class SimNetworkHarness:
    """Three members of a fabric without faults, over an agenda of its own."""

    events_max = 1_000_000

    def __init__(self) -> None:
        self.gone = GONE
        self._virtual = VirtualTime()
        self._agenda: list[tuple[int, int, Callable[[object], None], object]] = []
        self._entries = 0
        fabric = Fabric(Dice(SEED, "network"), NetworkFaults())
        members: dict[Address, SimNetwork] = {}
        for name in [*NAMES, GONE]:
            SimNetwork(name, fabric, members, self._now_ns, self._schedule, inbox_messages_max)
        self.endpoints = [members[name] for name in NAMES]
        fabric.cut([GONE], NAMES, one_way=False)

    def _now_ns(self) -> int:
        return self._virtual.elapsed_ns

    def _schedule(self, delay_ns: int, run: Callable[[object], None], what: object) -> None:
        self._entries += 1
        entry = (self._virtual.elapsed_ns + delay_ns, self._entries, run, what)
        heapq.heappush(self._agenda, entry)

    def pump(self, is_done: Callable[[], bool]) -> None:
        for _ in range(self.events_max):
            if is_done():
                return
            assert self._agenda, "nothing will happen any more"
            at_ns, _, run, what = heapq.heappop(self._agenda)
            self._virtual.elapsed_ns = at_ns
            run(what)
        raise AssertionError("it does not come to an end")

    def close(self) -> None:
        pass
