"""Listening for connections, such that no error of accepting one ends it or makes it spin.

A loop's own server may close for good when the process has no descriptor left. This one pauses for a moment,
says so, and goes on: connections that came meanwhile wait in the system's queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence

pause_seconds = 0.5
"""How long nothing is accepted after the system could not give us a connection."""

accepted_at_once_max = 64


class Acceptor:
    """Accepts at these sockets from ``start`` to ``close``; ``report`` hears why it had to pause."""

    def __init__(
        self,
        listening: Sequence[socket.socket],
        make: Callable[[], asyncio.Protocol],
        report: Callable[[OSError], None] = lambda _error: None,
    ) -> None:
        self._listening = tuple(listening)
        self._make = make
        self._report = report
        self._is_open = False
        #: connections that are being made
        self._making: set[asyncio.Task[object]] = set()
        self._pauses: dict[socket.socket, asyncio.TimerHandle] = {}

    @property
    def port(self) -> int:
        port: int = self._listening[0].getsockname()[1]
        return port

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_open = True
        for each in self._listening:
            each.setblocking(False)
            self._loop.add_reader(each.fileno(), self._accept, each)

    def close(self) -> None:
        """Accept no more. A second time is fine."""
        if self._is_open:
            self._is_open = False
            for pause in self._pauses.values():
                pause.cancel()
            for each in self._listening:
                self._loop.remove_reader(each.fileno())
                each.close()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(accepted_at_once_max):
            try:
                accepted, _address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause(listening)
                self._report(error)
                return
            accepted.setblocking(False)
            making = self._loop.create_task(self._connect(accepted))
            self._making.add(making)
            making.add_done_callback(self._making.discard)

    async def _connect(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make, accepted)
        except OSError:  # gone again
            with contextlib.suppress(OSError):
                accepted.close()

    def _pause(self, listening: socket.socket) -> None:
        self._loop.remove_reader(listening.fileno())
        self._pauses[listening] = self._loop.call_later(pause_seconds, self._go_on, listening)

    def _go_on(self, listening: socket.socket) -> None:
        if self._is_open:
            self._loop.add_reader(listening.fileno(), self._accept, listening)


def listen(host: str, port: int, *, backlog: int = 1024) -> list[socket.socket]:
    """Sockets that listen there, one for each address of the host; ``OSError`` when a port is taken."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    addresses = dict.fromkeys((family, address) for family, _, _, _, address in found)
    listening: list[socket.socket] = []
    try:
        for family, address in addresses:
            listening.append(socket.create_server(address[:2], family=family, backlog=backlog))
    except BaseException:
        for each in listening:
            each.close()
        raise
    return listening
