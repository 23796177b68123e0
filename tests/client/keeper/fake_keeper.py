"""A server that does what a test says: one script for each connection, over loopback.

A script is a coroutine function of the connection. The first connection runs the first script, and so on;
further ones the last. What a script raises fails the test when the server is left.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from motet.client.keeper.client import KeeperClient
from motet.format.zookeeper.codec import decode_request, encode_event, encode_reply
from motet.format.zookeeper.jute import INT
from motet.format.zookeeper.messages import (
    AnyResult,
    CloseSession,
    Create,
    Created,
    Data,
    Exists,
    GetData,
    Nothing,
    Ping,
    Request,
    SetData,
    Stat,
    StatResult,
    Sync,
    Synced,
    WatchEvent,
)
from motet.format.zookeeper.records import (
    ConnectReply,
    ConnectRequest,
    decode_connect_request,
    encode_connect_reply,
    expired_reply,
)

SESSION = 0x1234
PASSWORD = b"sixteen bytes ok"
STAT = Stat(1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1)

Script = Callable[["Peer"], Awaitable[None]]


class Peer:
    """The server's end of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.zxid = 0

    async def payload(self) -> bytes:
        (length,) = INT.unpack(await self._reader.readexactly(INT.size))
        return await self._reader.readexactly(length)

    async def greet(self, timeout_ms: int = 10_000, session: int = SESSION) -> ConnectRequest:
        """Take the handshake and give a session."""
        hello = decode_connect_request(await self.payload())
        self.write(encode_connect_reply(ConnectReply(timeout_ms, session, PASSWORD, False)))
        return hello

    async def expire(self) -> ConnectRequest:
        """Take the handshake and say that the session is no more."""
        hello = decode_connect_request(await self.payload())
        self.write(encode_connect_reply(expired_reply(hello)))
        return hello

    async def request(self) -> tuple[int, Request]:
        """The next request that is not a ping; pings are answered."""
        while True:
            xid, request = decode_request(await self.payload())
            if not isinstance(request, Ping):
                return xid, request
            self.reply(xid, Nothing())

    def reply(self, xid: int, result: AnyResult, error: int = 0) -> None:
        self.zxid += 1
        self.write(encode_reply(xid, self.zxid, error, result))

    def event(self, type_: int, path: str) -> None:
        self.write(encode_event(WatchEvent(type_, path)))

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def serve(self) -> None:
        """Answer everything as if each node were there, until the client goes."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                xid, request = await self.request()
                self.reply(xid, answer_to(request))
                if isinstance(request, CloseSession):
                    return

    async def gone(self) -> None:
        """Until the client hangs up."""
        with suppress(ConnectionError):
            await self._reader.read()


def answer_to(request: Request) -> AnyResult:
    """What a keeper with all nodes would say; the data of a node is its path."""
    if isinstance(request, GetData):
        return Data(request.path.encode(), STAT)
    if isinstance(request, Create):
        return Created(request.path)
    if isinstance(request, SetData | Exists):
        return StatResult(STAT)
    return Synced(request.path) if isinstance(request, Sync) else Nothing()


async def good(peer: Peer) -> None:
    """A server as it should be."""
    await peer.greet()
    await peer.serve()


class FakeKeeper:
    """Where it listens, and how often it was connected to."""

    def __init__(self, scripts: tuple[Script, ...]) -> None:
        self._scripts = scripts
        self._tasks: list[asyncio.Task[None]] = []
        self.connections = 0
        self.endpoint = ""

    def client(self, **options: Any) -> KeeperClient:
        return KeeperClient(self.endpoint, **options)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.append(task)
        script = self._scripts[min(self.connections, len(self._scripts) - 1)]
        self.connections += 1
        try:
            await script(Peer(reader, writer))
        finally:
            writer.close()

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception) and not isinstance(ended, EOFError | ConnectionError):
                raise ended


@asynccontextmanager
async def fake_keeper(*scripts: Script) -> AsyncIterator[FakeKeeper]:
    """A server with these scripts."""
    fake = FakeKeeper(scripts)
    server = await asyncio.start_server(fake.connected, "127.0.0.1", 0)
    fake.endpoint = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield fake
    finally:
        server.close()
        await fake.end()


def in_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    """A test that is a coroutine function."""

    async def bounded() -> None:
        async with asyncio.timeout(60):
            await test()

    def run() -> None:
        asyncio.run(bounded())

    functools.update_wrapper(run, test)
    del run.__wrapped__  # type: ignore[attr-defined]
    return run
