"""One connection of a ZooKeeper client: its bytes into messages for the front end, and answers into bytes.

The first four bytes decide: one of the four-letter words is answered, and that was it; anything else has to
be the handshake, and requests follow. What does not decode ends the connection, for behind it nothing can be
found.

Z1  A connection that has not finished its handshake in time is closed: a socket that was opened and left
    alone costs nothing for long.
Z2  While too many of its requests wait for answers, or its answers for the client, nothing is read from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Protocol, cast

from motet.core.keeper.messages import (
    Answer,
    Ask,
    Connect,
    Connected,
    FromConnection,
    Gone,
    Hangup,
    Happened,
    ToConnection,
)
from motet.errors import BadFrame
from motet.format.zookeeper.answers import WatchEvent
from motet.format.zookeeper.connect import (
    ConnectReply,
    decode_connect_request,
    encode_connect_reply,
)
from motet.format.zookeeper.cutter import FrameCutter
from motet.format.zookeeper.four_letter import Greeting, greeting_of
from motet.format.zookeeper.server_codec import Reply, decode_request, encode_replies
from motet.ids import Address

handshake_seconds_max = 10.0
write_buffer_bytes_high = 4 << 20
_greeting_bytes = 4


class Exchange(Protocol):
    """What a connection needs of the server it belongs to."""

    requests_max: int

    def opened(self, connection: ZooKeeperConnection) -> bool:
        """A connection is there; False sends it away."""

    def lost(self, connection: ZooKeeperConnection) -> None:
        """It is gone."""

    def tell(self, connection: ZooKeeperConnection, message: FromConnection) -> None:
        """Something for the front end."""

    def answer_word(self, word: bytes) -> bytes:
        """The answer to one of the four-letter words."""

    def refused(self, why: str) -> None:
        """Count a connection that was cut off, and why."""

    def wants_flush(self, connection: ZooKeeperConnection) -> None:
        """It has something to write at the end of this turn."""


class ZooKeeperConnection(asyncio.Protocol):
    """From the accepted socket to its end."""

    def __init__(self, exchange: Exchange, address: Address, opened_ms: int) -> None:
        self.address = address
        #: time of day
        self.opened_ms = opened_ms
        self._exchange = exchange
        self._cutter = FrameCutter()
        self._start = b""
        self._is_greeted = False
        #: whether the client's handshake had the byte about read-only servers; None before it
        self._has_read_only: bool | None = None
        self._is_over = False
        self._is_writable = True
        self._is_reading = True
        #: the answer to the handshake, in bytes; it leaves before everything else
        self._head = b""
        self._out: list[Reply | WatchEvent] = []
        #: the server knows that there is something to write
        self._is_due = False
        self._is_hanging_up = False
        #: requests without an answer
        self.outstanding = 0
        self.received = 0
        self.sent = 0
        self.session = 0
        self.timeout_ms = 0
        self.last_zxid = 0

    @property
    def has_asked_to_connect(self) -> bool:
        return self._has_read_only is not None

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        sock = self.transport.get_extra_info("socket")
        if sock is not None:  # a client in this process has none
            with contextlib.suppress(OSError):  # closed already, which will be reported as such
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.transport.set_write_buffer_limits(high=write_buffer_bytes_high)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(handshake_seconds_max, self._too_slow)
        if not self._exchange.opened(self):
            self._cut_off("too_many")

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        if not self._is_greeted:
            self._greet(self._start + data)
            return
        try:
            for payload in self._cutter.feed(data):
                self._take(payload)
        except BadFrame:
            self._cut_off("garbage")
            return
        self._pace()

    def pause_writing(self) -> None:
        self._is_writable = False
        self._pace()

    def resume_writing(self) -> None:
        self._is_writable = True
        self._pace()

    def connection_lost(self, _error: Exception | None) -> None:
        self._is_over = True
        self._deadline.cancel()
        if self.has_asked_to_connect:
            self._exchange.tell(self, Gone())
        self._exchange.lost(self)

    # In

    def _greet(self, start: bytes) -> None:
        greeting = greeting_of(start)
        if greeting is Greeting.NEED_MORE:
            self._start = start
        elif greeting is Greeting.WORD:
            self._deadline.cancel()
            self._is_over = True
            self.transport.write(self._exchange.answer_word(start[:_greeting_bytes]))
            self.transport.close()
        else:
            self._is_greeted, self._start = True, b""
            self.data_received(start)

    def _take(self, payload: bytes) -> None:
        if self._has_read_only is None:
            asked = decode_connect_request(payload)
            self._has_read_only = asked.read_only is not None
            message = Connect(asked.last_zxid, asked.timeout_ms, asked.session, asked.password)
            self._exchange.tell(self, message)
            return
        xid, request = decode_request(payload)
        self.outstanding += 1
        self.received += 1
        self._exchange.tell(self, Ask(xid, request))

    def _pace(self) -> None:
        is_reading = self._is_writable and self.outstanding < self._exchange.requests_max  # Z2
        if is_reading != self._is_reading and not self.transport.is_closing():
            self._is_reading = is_reading
            if is_reading:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    def _too_slow(self) -> None:
        if not self.session and not self._is_over:
            self._cut_off("silent" if not self.has_asked_to_connect else "not_served")  # Z1

    def _cut_off(self, why: str) -> None:
        self._is_over = True
        self._exchange.refused(why)
        self.transport.abort()

    # Out

    def send(self, message: ToConnection) -> None:
        """Have this written at the end of the turn."""
        if self._is_over or self._is_hanging_up:
            return
        if not self._is_due:
            self._is_due = True
            self._exchange.wants_flush(self)
        if isinstance(message, Answer):
            self.outstanding -= 1
            self.last_zxid = message.zxid
            self._out.append(
                Reply(message.xid, message.zxid, message.error, message.result, message.request)
            )
        elif isinstance(message, Happened):
            self._out.append(message.event)
        elif isinstance(message, Connected):
            self._connected(message)
        else:
            assert isinstance(message, Hangup)
            self._is_hanging_up = True

    def _connected(self, message: Connected) -> None:
        self._deadline.cancel()
        self.session, self.timeout_ms = message.session, message.timeout_ms
        read_only = False if self._has_read_only else None
        reply = ConnectReply(message.timeout_ms, message.session, message.password, read_only)
        self._head = encode_connect_reply(reply)

    def flush(self) -> None:
        """Write what has gathered."""
        head, out = self._head, self._out
        self._head, self._out, self._is_due = b"", [], False
        if self._is_over:
            return
        self.sent += len(out)
        if head or out:
            self.transport.write(head + encode_replies(out))
        if self._is_hanging_up:
            self.transport.close()
        else:
            self._pace()
