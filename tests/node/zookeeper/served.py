"""A server for ZooKeeper clients on a port of its own, with a front end that does what a test says."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.node.nodes import free_base_port

from motet.core.keeper.messages import Answer, AnswersSent, Ask, Connect, Connected, Gone
from motet.core.machine import Message
from motet.format.zookeeper.codec import encode_request
from motet.format.zookeeper.four_letter import ServerFacts
from motet.format.zookeeper.messages import Nothing, Request
from motet.format.zookeeper.records import ConnectRequest, encode_connect_request
from motet.ids import Address
from motet.node.zookeeper.server import ZooKeeperServer
from motet.real.process import RealTime

PATIENCE_SECONDS = 30.0
_look_every_seconds = 0.005

HELLO = encode_connect_request(ConnectRequest(0, 0, 10_000, 0, bytes(16), False))
HELLO_REPLY_BYTES = 4 + 37


@dataclass
class FrontEnd:
    """Gives everybody a session, and answers everything with nothing unless it is told to wait."""

    server: ZooKeeperServer
    gives_sessions: bool = True
    answers: Callable[[Ask], Answer] | None = field(
        default=lambda ask: Answer(ask.xid, 1, 0, Nothing())
    )
    told: list[tuple[Address, Message]] = field(default_factory=list)
    sessions: int = 0

    def tell(self, sender: Address, message: Message) -> None:
        self.told.append((sender, message))
        if isinstance(message, Connect) and self.gives_sessions:
            self.sessions += 1
            self.server.send(sender, Connected(10_000, self.sessions, bytes(16)))
        elif isinstance(message, Ask) and self.answers is not None:
            self.server.send(sender, self.answers(message))
        asyncio.get_running_loop().call_soon(self.server.flush)

    def answer_all(self) -> None:
        """What was asked while nothing was answered."""
        for sender, message in self.told:
            if isinstance(message, Ask):
                self.server.send(sender, Answer(message.xid, 1, 0, Nothing()))
        self.server.flush()

    def count(self, kind: type[Message]) -> int:
        return sum(isinstance(message, kind) for _, message in self.told)

    @property
    def sent_bytes(self) -> int:
        """What it was told of as sent."""
        return sum(one.size_bytes for _, one in self.told if isinstance(one, AnswersSent))

    @property
    def gone(self) -> int:
        return self.count(Gone)


@dataclass
class Peer:
    """The other end of a socket, which may say anything."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def ask(self, xid: int, request: Request) -> None:
        await self.say(encode_request(xid, request))

    async def hear(self, count: int) -> bytes:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.reader.readexactly(count)

    async def hear_to_the_end(self) -> bytes:
        """All there is until the other side closes, one way or the other."""
        heard = b""
        async with asyncio.timeout(PATIENCE_SECONDS):
            with contextlib.suppress(ConnectionError):
                while more := await self.reader.read(1 << 16):
                    heard += more
        return heard

    async def greet(self) -> None:
        await self.say(HELLO)
        await self.hear(HELLO_REPLY_BYTES)

    def leave(self) -> None:
        self.writer.transport.abort()


@dataclass
class Served:
    """A server that listens, its front end, and how to get there."""

    server: ZooKeeperServer
    front: FrontEnd
    port: int
    peers: list[Peer] = field(default_factory=list)

    async def peer(self) -> Peer:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.port))
        self.peers.append(peer)
        return peer

    async def serves(self) -> None:
        """A fresh client is served."""
        peer = await self.peer()
        await peer.greet()
        peer.leave()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():  # noqa: ASYNC110 - nobody tells a test of everything
                await asyncio.sleep(_look_every_seconds)


@asynccontextmanager
async def served(**options: Any) -> AsyncIterator[Served]:
    port = free_base_port()
    server = ZooKeeperServer(RealTime(), **options)
    front = FrontEnd(server)
    facts = lambda: ServerFacts(  # noqa: E731
        mode="standalone",
        zxid=1,
        connections=server.connection_facts(),
        configuration=(("clientPort", str(port)),),
    )
    server.attach(front.tell, facts)
    await server.listen("127.0.0.1", port)
    one = Served(server, front, port)
    try:
        yield one
    finally:
        for peer in one.peers:
            peer.leave()
        await server.stop()
