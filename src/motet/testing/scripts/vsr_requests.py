"""Commands for the clients of a cluster: what they ask, and what somebody asks in their name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from motet.core.machine import Message
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.header import NO_CHECKSUM, OPERATION_MIN
from motet.core.vsr.messages import Request, sealed_request
from motet.errors import BadScenario
from motet.ids import Address, ClientId, ClusterId, View
from motet.testing.bench_part import BenchPart
from motet.testing.part import verb
from motet.testing.register import Call, Compare, Delete, Get, Put, encode_calls
from motet.testing.scripts.vsr_bench import Barrier, BenchClient, Submit, VsrBench

SCRIPT = "script"
START_WALL_MS = 1_000_000
patience_ms = 8_000
"""So long a command waits for an answer."""


class ClientCommands(BenchPart):
    """The part of the commands that is about clients."""

    def __init__(self) -> None:
        self.bench: VsrBench = VsrBench()
        self.config = VsrConfig(ClusterId(7), (Address("r0"),))

    @verb
    def client(self, *names: str, reserved: bool = False, release: int = 1) -> list[str]:
        """Add clients, which register; wait until they are told."""
        lines = []
        for name in names:
            number = ClientId(len(self.bench.nodes) - self.config.count + 1)
            make = _client_factory(self.config, number, reserved=reserved, release=release)
            self.bench.add(name, make, wall_ms=START_WALL_MS)
            lines += [*self.bench.start(name), *self._wait_for(name)]
        return lines

    @verb
    def put(self, client: str, key: str, value: str, *, wait: bool = True) -> list[str]:
        """Keep a value under a key."""
        return self._submit(client, Put(key.encode(), value.encode()), wait=wait)

    @verb
    def get(self, client: str, key: str, *, wait: bool = True) -> list[str]:
        """What is under a key?"""
        return self._submit(client, Get(key.encode()), wait=wait)

    @verb
    def delete(self, client: str, key: str) -> list[str]:
        """Forget a key."""
        return self._submit(client, Delete(key.encode()), wait=True)

    @verb
    def compare(self, client: str, key: str, expected: str, value: str) -> list[str]:
        """Put a value if what is there is as expected; ``none`` is a key that is not there."""
        before = None if expected == "none" else expected.encode()
        return self._submit(client, Compare(key.encode(), before, value.encode()), wait=True)

    @verb
    def puts(self, client: str, count: int) -> list[str]:
        """Put so many values, and tell only how far that has come."""
        lines = []
        for number in range(count):
            call = Put(f"k{number % 20}".encode(), f"{client}-{number}".encode())
            told = self._submit(client, call, wait=True)
            lines += [line for line in told if not line.startswith(f"{client} #")]
            if told[-1].endswith("waits"):
                return lines
        return [*lines, f"{client} {count} puts done"]

    @verb
    def barrier(self, client: str, *, wait: bool = True) -> list[str]:
        """How new must a state be to be read now?"""
        return self._ask(client, Barrier(), wait=wait)

    @verb
    def wait(self, client: str) -> list[str]:
        """Wait until a client is answered."""
        return self._wait_for(client)

    def _submit(self, client: str, call: Call, *, wait: bool) -> list[str]:
        return self._ask(client, Submit(encode_calls([call])), wait=wait)

    def _ask(self, client: str, message: Message, *, wait: bool) -> list[str]:
        lines = self.bench.hand(client, SCRIPT, message)
        return [*lines, *self._wait_for(client)] if wait else lines

    def _wait_for(self, client: str) -> list[str]:
        lines = self.bench.run_ms(patience_ms, until=lambda: not self._client(client).is_busy)
        return [*lines, f"{client} waits"] if self._client(client).is_busy else lines

    # Requests that no honest client sends, or sends again

    @verb
    def again(self, client: str, to: str) -> list[str]:
        """Have the last request of a client arrive once more."""
        return self.bench.hand(to, client, self.bench.requests[Address(client)])

    @verb
    def forge(
        self,
        client: str,
        to: str,
        *,
        session: int | None = None,
        request: int | None = None,
        parent: Literal["right", "wrong"] = "right",
        view: int | None = None,
        release: int = 1,
        operation: int = OPERATION_MIN,
        body_bytes: int = 1,
        as_: str | None = None,
        seal: bool = True,
    ) -> list[str]:
        """A request that is what a client would send next, but for what is said here."""
        state = self._client(client).client.state
        made = Request(
            cluster=self.config.cluster,
            client=self._client(as_ or client).client.state.client,
            view=state.view if view is None else View(view),
            session=state.session if session is None else session,
            request=state.request if request is None else request,
            parent=state.parent if parent == "right" else NO_CHECKSUM,
            release=release,
            operation=operation,
            body=bytes(body_bytes),
        )
        return self.bench.hand(to, client, sealed_request(made) if seal else made)

    # How

    def _client(self, name: str) -> BenchClient:
        machine = self.bench.node(name).machine
        if not isinstance(machine, BenchClient):
            raise BadScenario(f"{name} is no client", hint=f"client {name}")
        return machine


def _client_factory(
    config: VsrConfig, client: ClientId, *, reserved: bool, release: int
) -> Callable[[], BenchClient]:
    return lambda: BenchClient(config, client, reserved=reserved, release=release)
