"""What a test of the keeper's contract has: clients of a server, a place in its tree, and a wire to cut."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.contract.keeper.servers import KeeperServer

from motet.client.keeper.client import KeeperClient

PATIENCE_SECONDS = 60.0
"""How long anything may take; nothing is measured by it."""


@dataclass
class World:
    """One server, and a node of its tree that belongs to one test."""

    server: KeeperServer
    root: str

    def client(self, endpoints: str | None = None, **options: Any) -> KeeperClient:
        return KeeperClient(
            endpoints or self.server.endpoints,
            server=self.server.kind,
            **{"seconds": PATIENCE_SECONDS, **options},
        )

    @asynccontextmanager
    async def keeper(self, **options: Any) -> AsyncIterator[KeeperClient]:
        """A client, with the root made."""
        async with self.client(**options) as keeper:
            await keeper.ensure_path(self.root)
            yield keeper

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"


class Wire:
    """Between a client and the server; it can be cut, and is whole again when it is mended."""

    def __init__(self, endpoints: str) -> None:
        host, _, port = endpoints.partition(",")[0].rpartition(":")
        self._to = (host, int(port))
        self._writers: list[asyncio.StreamWriter] = []
        self._is_cut = False
        self.endpoint = ""

    def cut(self) -> None:
        """Every connection is gone, and new ones are closed at once."""
        self._is_cut = True
        self.shake()

    def shake(self) -> None:
        """Every connection is gone; new ones are fine."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def mend(self) -> None:
        self._is_cut = False

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        there, back = await asyncio.open_connection(*self._to)
        self._writers += (writer, back)
        await asyncio.gather(_carry(reader, back), _carry(there, writer))


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
    except ConnectionError:
        pass
    finally:
        writer.close()


@asynccontextmanager
async def wire(world: World) -> AsyncIterator[Wire]:
    """A wire to the first of the server's endpoints."""
    one = Wire(world.server.endpoints)
    server = await asyncio.start_server(one.connected, "127.0.0.1", 0)
    one.endpoint = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield one
    finally:
        server.close()
        one.cut()


def in_loop(test: Callable[[World], Awaitable[None]]) -> Callable[[World], None]:
    """A test that is a coroutine function."""

    async def bounded(world: World) -> None:
        async with asyncio.timeout(2 * PATIENCE_SECONDS):
            await test(world)

    def run(world: World) -> None:
        asyncio.run(bounded(world))

    functools.update_wrapper(run, test)
    del run.__wrapped__  # type: ignore[attr-defined]
    return run
