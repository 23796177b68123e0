"""Accepting goes on, whatever the system says."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import cast

import pytest
from tests.real.tcp import Play, until

from motet.real import admission as admission_module
from motet.real.admission import Acceptor, listen


class Short:
    """A socket at which accepting fails a few times first."""

    def __init__(self, listening: socket.socket, failures: int) -> None:
        self._listening = listening
        self.failures, self.calls = failures, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._listening, name)

    def accept(self) -> object:
        self.calls += 1
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "too many open files")
        return self._listening.accept()


class Greeter(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        wire = cast("asyncio.Transport", transport)
        wire.write(b"hello")
        wire.close()


def test_it_pauses_without_descriptors_and_goes_on(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission_module, "pause_seconds", 0.05)

    async def main() -> None:
        (listening,) = listen("127.0.0.1", 0)
        short, reports = Short(listening, failures=3), list[OSError]()
        acceptor = Acceptor([short], Greeter, reports.append)  # type: ignore[list-item]
        acceptor.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", acceptor.port)
        async with asyncio.timeout(30):
            assert await reader.read() == b"hello"
        writer.close()
        assert [error.errno for error in reports] == [errno.EMFILE] * 3
        assert short.calls < 10, "it does not spin"
        acceptor.close()
        acceptor.close()

    play(main())


def test_many_that_come_at_once_are_all_accepted(play: Play) -> None:
    async def main() -> None:
        acceptor = Acceptor(listen("127.0.0.1", 0), Greeter)
        acceptor.start()
        port, heard = acceptor.port, list[bytes]()

        async def knock() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            heard.append(await reader.read())
            writer.close()

        await asyncio.gather(*(knock() for _ in range(300)))
        assert heard == [b"hello"] * 300
        await until(lambda: not acceptor._making)
        acceptor.close()

    play(main())


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        listen("127.0.0.1", taken.getsockname()[1])
