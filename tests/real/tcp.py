"""Helpers of the network tests: endpoints, and lines on which anything can be said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Self

import msgspec

from motet.format.frame import MESSAGE_KIND_MIN, Frame, FrameDecoder, FrameKind, encode_frame
from motet.ids import Address
from motet.ports import Delivery
from motet.real.connection import unpack
from motet.real.hello import (
    PROTOCOL_VERSION,
    ClusterKey,
    Hello,
    Refusal,
    decode_hello,
    fresh_nonce,
    make_proof,
)
from motet.real.network import TcpNetwork
from motet.real.process import loop_factory

HOST = "127.0.0.1"
CLUSTER = "test"
deadline_seconds = 30.0
"""Far more than anything here takes: a test that reaches it has failed."""


Play = Callable[[Coroutine[Any, Any, None]], None]
"""Runs a test's coroutine."""


def play_on(loop_kind: str) -> Play:
    """Runs a coroutine on a new loop of this kind."""

    def play(main: Coroutine[Any, Any, None]) -> None:
        factory = loop_factory() if loop_kind == "uvloop" else asyncio.SelectorEventLoop
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(main)

    return play


def frame(number: int, body: bytes = b"") -> Frame:
    return Frame(16, number, body)


async def until(is_done: Callable[[], bool]) -> None:
    """Let the loop turn until the condition holds."""
    async with asyncio.timeout(deadline_seconds):
        while not is_done():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


class Endpoint:
    """A network with an inbox one can wait for."""

    def __init__(
        self,
        name: str | None,
        *,
        cluster: str = CLUSTER,
        port: int = 0,
        peers: Mapping[Address, tuple[str, int]] | None = None,
        bulk: frozenset[int] = frozenset(),
        key: ClusterKey | None = None,
        incarnation: int = 0,
        peers_only: bool = False,
    ) -> None:
        self.wakes = 0
        #: what connections were closed for, in order
        self.refusals: list[Refusal] = []
        self.network = TcpNetwork(
            None if name is None else Address(name),
            cluster=cluster,
            listen=None if name is None else (HOST, port),
            peers=peers or {},
            wake=self._wake,
            key=key,
            incarnation=incarnation,
            peers_only=peers_only,
            report=lambda why, _detail: self.refusals.append(why),
            bulk=bulk,
        )

    def _wake(self) -> None:
        self.wakes += 1

    async def __aenter__(self) -> Self:
        await self.network.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.network.stop()

    @property
    def address(self) -> Address:
        return self.network.address

    def as_peer(self) -> dict[Address, tuple[str, int]]:
        """How others find it."""
        return {self.address: (HOST, self.network.port)}

    def client(self) -> Endpoint:
        """A client of this node."""
        return Endpoint(None, peers=self.as_peer())

    def dials_failed(self) -> int:
        return self.network.counters.dials_failed

    def is_reading(self) -> bool:
        """Whether anything is read from anybody."""
        return any(one.transport.is_reading() for one in self.network._connections)

    async def receive(self, count: int) -> list[Delivery]:
        """Exactly so many deliveries."""
        got: list[Delivery] = []

        def is_done() -> bool:
            got.extend(self.network.take(count - len(got)))
            return len(got) == count

        await until(is_done)
        return got

    async def send_until_received(self, other: Endpoint, what: Frame) -> None:
        """Send as protocols do, again and again, until it has arrived."""
        got: list[Delivery] = []
        before = self.network.counters.frames_out

        def is_done() -> bool:
            got.extend(other.network.take(1000))
            if not got:
                self.network.send(other.address, what)
                self.network.flush()
            return bool(got)

        await until(is_done)
        while len(got) < self.network.counters.frames_out - before:
            got += await other.receive(1)
        assert all(delivery.frame == what for delivery in got)


class Line:
    """A bare TCP connection to an endpoint."""

    def __init__(self, to: Endpoint) -> None:
        self._to = to
        self._decoder = FrameDecoder()
        self._frames: list[Frame] = []

    @staticmethod
    def framed(one: Frame) -> bytes:
        return encode_frame(one.kind, one.id, one.body)

    @staticmethod
    def hello(
        *,
        version: int = PROTOCOL_VERSION,
        cluster: str = CLUSTER,
        address: str = "",
        incarnation: int = 0,
        nonce: bytes = b"",
    ) -> bytes:
        hello = Hello(version, cluster, address, (), incarnation, nonce)
        return encode_frame(FrameKind.HELLO, 0, msgspec.msgpack.encode(hello))

    @staticmethod
    def proof(shown: bytes) -> bytes:
        return encode_frame(FrameKind.PROOF, 0, shown)

    async def introduce(self, address: str, key: ClusterKey, incarnation: int) -> bytes:
        """Greet as a node and prove it, as the side that dialed; what the other side has shown for it."""
        ours = Hello(PROTOCOL_VERSION, CLUSTER, address, (), incarnation, fresh_nonce())
        theirs = decode_hello(await self.read_frame())
        assert theirs is not None
        self.write(self.hello(address=address, incarnation=incarnation, nonce=ours.nonce))
        self.write(self.proof(make_proof(key, ours, theirs, dialed=True)))
        shown = await self.read_frame()
        assert shown.kind == FrameKind.PROOF
        assert shown.body == make_proof(key, theirs, ours, dialed=False)
        return shown.body

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(HOST, self._to.network.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def read_frame(self) -> Frame:
        """The next frame, a batch opened."""
        async with asyncio.timeout(deadline_seconds):
            while not self._frames:
                data = await self._reader.read(1 << 20)
                assert data, "the line is dead"
                for one in self._decoder.feed(data):
                    is_control = one.kind < MESSAGE_KIND_MIN and one.kind != FrameKind.BATCH
                    self._frames += [one] if is_control else unpack([one])
        return self._frames.pop(0)

    async def closed(self) -> None:
        """Wait until the other side has closed it."""
        async with asyncio.timeout(deadline_seconds):
            try:
                while await self._reader.read(1 << 16):
                    pass
            except ConnectionError:
                pass
