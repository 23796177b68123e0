"""Lets a process of tests stop and start servers that another process has started."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from multiprocessing.connection import Client, Connection, Listener
from types import TracebackType
from typing import Self

Deed = Callable[[int], None]
_END = ("end", 0)


class Control:
    """Does what it is told, from ``with`` on; ``address`` is where."""

    def __init__(self, deeds: Mapping[str, Deed]) -> None:
        self._deeds = deeds
        self._listener = Listener(("127.0.0.1", 0))
        host, port = self._listener.address
        self.address = f"{host}:{port}"
        self._thread = threading.Thread(target=self._run, name="kazoo control")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        tell(self.address, *_END)
        self._thread.join()
        self._listener.close()

    def _run(self) -> None:
        while True:
            with self._listener.accept() as connection:
                if self._is_over(connection):
                    return

    def _is_over(self, connection: Connection[tuple[str, int], tuple[str, int]]) -> bool:
        try:
            told = connection.recv()
        except EOFError:  # gone before it has said anything
            return False
        if told != _END:
            self._deeds[told[0]](told[1])
        connection.send(told)
        return told == _END


def tell(address: str, what: str, number: int) -> None:
    """Have this done to that server; it is done when this returns."""
    host, _, port = address.rpartition(":")
    with Client((host, int(port))) as connection:
        connection.send((what, number))
        connection.recv()
