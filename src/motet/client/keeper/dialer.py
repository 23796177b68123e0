"""Finding a server of an ensemble, and the next one when that is gone.

D1  The servers are tried in the order given, and after the last comes the first. After a loss the next one
    is tried, not the same.
D2  A try has its part of half the session's time, so that all of them can be tried before it is over.
D3  A pause is made only when each has failed since one was last of any use, and a longer one every time. A
    server that greets everybody and then hangs up is of no use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from motet.client.keeper.connection import Connection, Owner
from motet.format.zookeeper.records import ConnectRequest

Connect = Callable[[Callable[[], asyncio.Protocol], str, int], Awaitable[tuple[object, object]]]
"""Makes a connection, as ``loop.create_connection`` does: it calls the function for a protocol, tells that
of its transport, and returns the two. A transport has ``write`` and ``abort``."""

_try_seconds_min = 0.5
_pause_seconds_min = 0.05
_pause_seconds_max = 1.0
_doublings_max = 10


async def connect_tcp(
    make: Callable[[], asyncio.Protocol], host: str, port: int
) -> tuple[object, object]:
    """The ordinary way."""
    return await asyncio.get_running_loop().create_connection(make, host, port)


class Dialer:
    """Makes one connection at a time."""

    def __init__(self, endpoints: Sequence[tuple[str, int]], connect: Connect | None) -> None:
        assert endpoints
        self._endpoints = endpoints
        self._connect = connect or connect_tcp
        self._tries = 0
        #: tries since a connection was last of any use
        self._failures = 0
        #: why there is no connection
        self.problem = "no server was tried yet"

    def __str__(self) -> str:
        return ", ".join(f"{host}:{port}" for host, port in self._endpoints)

    async def dial(self, hello: ConnectRequest, timeout_ms: int, owner: Owner) -> Connection | None:
        """Try the next server; a connection if it has answered the handshake."""
        host, port = self._endpoints[self._tries % len(self._endpoints)]
        self._tries += 1
        limit_seconds = max(_try_seconds_min, timeout_ms / 2000 / len(self._endpoints))  # D2
        connection = Connection(hello, owner)
        try:
            async with asyncio.timeout(limit_seconds):
                await self._connect(lambda: connection, host, port)
                if await connection.is_greeted:
                    return connection
        except TimeoutError:
            connection.lose(f"no answer within {limit_seconds:g} s")
        except OSError as error:
            connection.lose(error.strerror or str(error) or "silence")
        except asyncio.CancelledError:
            connection.lose("the client is closed")
            raise
        self.problem = f"{host}:{port}: {await connection.why_lost}"
        return None

    async def outlive(self, connection: Connection) -> None:
        """Wait until it is lost."""
        self.problem = await connection.why_lost
        if connection.has_answered:
            self._failures = 0

    async def pause(self) -> None:
        """Before the next try (D3)."""
        self._failures += 1
        rounds, place = divmod(self._failures, len(self._endpoints))
        if place == 0:
            pause_seconds = _pause_seconds_min * 2 ** min(rounds - 1, _doublings_max)
            await asyncio.sleep(min(_pause_seconds_max, pause_seconds))
