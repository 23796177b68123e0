"""A socket to a keeper on which anything can be said, with just enough sense to hear what comes back."""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import Self

from motet.format.zookeeper.codec import encode_request
from motet.format.zookeeper.messages import Request
from motet.format.zookeeper.records import (
    ConnectRequest,
    decode_connect_reply,
    encode_connect_request,
)

WAIT_SECONDS = 60.0
FULL_SECONDS = 2.0
"""Who takes nothing for so long has stopped to read."""

HELLO = encode_connect_request(ConnectRequest(0, 0, 10_000, 0, bytes(16), False))
_EVENT_XID = -1
_requests_max = 200_000


class RawClient:
    """One connection."""

    def __init__(self, endpoint: str) -> None:
        host, _, port = endpoint.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), WAIT_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        with contextlib.suppress(
            ConnectionError
        ):  # cut off in the middle of it, which is_over sees
            self._socket.sendall(data)

    def finish(self) -> None:
        """Nothing more will be said."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def ask(self, xid: int, request: Request) -> None:
        self.send(encode_request(xid, request))

    def greet(
        self, session: int = 0, password: bytes = bytes(16), *, timeout_ms: int = 10_000
    ) -> int:
        """Have a session; the timeout that was granted."""
        self.send(
            encode_connect_request(ConnectRequest(0, 0, timeout_ms, session, password, False))
        )
        return decode_connect_reply(self._frame()).timeout_ms

    def hear(self) -> tuple[int, int]:
        """The xid and the error of the next answer."""
        while True:
            xid, _zxid, error = struct.unpack_from(">iqi", self._frame())
            if xid != _EVENT_XID:
                return xid, error

    def is_over(self) -> bool:
        """True when the other side has closed."""
        read_to_the_end(self._socket)
        return True

    def word(self, word: bytes) -> str:
        """The answer to a four-letter word."""
        self.send(word)
        answer = read_to_the_end(self._socket)
        self.close()
        return answer.decode()

    def send_until_full(self, request: Request) -> bool:
        """Ask without end, and read nothing; True once nothing more is taken."""
        self._socket.settimeout(FULL_SECONDS)
        try:
            for xid in range(1, _requests_max):
                self._socket.sendall(encode_request(xid, request))
        except TimeoutError:
            return True
        return False

    def _frame(self) -> bytes:
        (length,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                raise ConnectionError("the other side has closed")
            data += more
        return bytes(data)


def read_to_the_end(connection: socket.socket) -> bytes:
    """All there is until the other side closes, one way or the other."""
    data = bytearray()
    with contextlib.suppress(ConnectionError):
        while more := connection.recv(1 << 16):
            data += more
    return bytes(data)
