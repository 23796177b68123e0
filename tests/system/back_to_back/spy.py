"""A client that keeps all it is told, and can be sent away for a while.

It is the session of our client, asked with the protocol's own requests: nothing of an answer is made nicer on
the way, so a null stays a null and every error its number.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from motet.client.keeper.call import Call
from motet.client.keeper.connection import Connection
from motet.client.keeper.dialer import connect_tcp
from motet.client.keeper.session import Session
from motet.client.link import parse_endpoint
from motet.format.zookeeper.messages import Auth, Request, WatchEvent
from motet.format.zookeeper.records import ConnectReply

TIMEOUT_MS = 10_000
"""What both servers grant to who asks for it."""

PATIENCE_SECONDS = 60.0
ANSWER_SECONDS = 30.0
_request_bytes_max = (1 << 20) - 1


def _nobody(_event: WatchEvent) -> None:
    """Watches, so that the session knows of the watch and asks for it again over a new connection."""


class Spy(Session):
    """One session at one server."""

    def __init__(self, endpoints: str, timeout_ms: int = TIMEOUT_MS) -> None:
        super().__init__(
            [parse_endpoint(each) for each in endpoints.split(",")],
            timeout_ms,
            request_bytes_max=_request_bytes_max,
            needs_sync=False,
            connect=self._connect,
        )
        #: what has happened, as it came over the wire
        self.told: list[WatchEvent] = []
        self._gate = asyncio.Event()
        self._gate.set()
        self._is_back = asyncio.Event()

    async def _connect(
        self, make: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> tuple[object, object]:
        await self._gate.wait()
        return await connect_tcp(make, host, port)

    def greeted(self, connection: Connection, reply: ConnectReply) -> None:
        super().greeted(connection, reply)
        self._is_back.set()

    def lost(self, connection: Connection, unanswered: list[Call], why: str) -> None:
        super().lost(connection, unanswered, why)
        if not self.is_connected:
            self._is_back.clear()

    def happened(self, event: WatchEvent) -> None:
        self.told.append(event)
        super().happened(event)

    async def ask_raw(self, request: Request) -> object:
        """The answer, or what the server refused it with."""
        watcher = _nobody if getattr(request, "watch", False) else None
        connection = self._connection
        try:
            return await self.ask(request, ANSWER_SECONDS, watcher)
        finally:
            if isinstance(request, Auth) and request not in self._identities:
                assert connection is not None
                await asyncio.wait_for(connection.why_lost, PATIENCE_SECONDS)
                await self.come_back()

    def go_away(self) -> None:
        """Lose the connection; the session stays."""
        self._gate.clear()
        if self._connection is not None:
            self._connection.lose("gone for a while")

    async def come_back(self) -> None:
        """Have a connection again."""
        self._gate.set()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._is_back.wait()

    async def vanish(self) -> None:
        """Never be heard of again, without a word of goodbye."""
        self.go_away()
        await self.close(0)
