"""One connection of a ZooKeeper client: its bytes into messages for the front end, and answers into bytes.

The first four bytes decide: one of the four-letter words is answered, and that was it; anything else has to
be the handshake, and requests follow. What does not decode ends the connection, for behind it nothing can be
found.

Z1  A connection that has not finished its handshake in time is closed: a socket that was opened and left
    alone costs nothing for long.
Z2  While too many of its requests wait for answers, or its answers for the client, nothing is read from it.
Z3  The front end is told when answers have left, and gives no more than a bounded number of bytes before
    that (C6). A client that takes nothing of what waits for it is cut off after a while
    (:mod:`motet.real.budgets`).
Z4  A message that has begun is there as a whole within a deadline; a connection that is hung up is gone
    within another, whether the client takes what was left for it or not. If it does not, as when its
    session expired because nothing was read from it, it is counted as stalled like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import deque
from typing import Protocol, cast

from motet.core.keeper.messages import (
    Answer,
    AnswersSent,
    Ask,
    Connect,
    Connected,
    FromConnection,
    Gone,
    Hangup,
    Happened,
    ToConnection,
    answer_bytes,
)
from motet.errors import BadFrame
from motet.format.zookeeper.codec import Reply, decode_request, encode_replies
from motet.format.zookeeper.four_letter import Greeting, greeting_of
from motet.format.zookeeper.jute import FrameCutter
from motet.format.zookeeper.messages import WatchEvent
from motet.format.zookeeper.records import (
    ConnectReply,
    decode_connect_request,
    encode_connect_reply,
)
from motet.ids import Address
from motet.limits import KIB, keeper_asked_bytes_max, keeper_unsent_bytes_free
from motet.real.budgets import ClientBudget

handshake_seconds_max = 10.0
hangup_seconds_max = 5.0
write_buffer_bytes_high = 32 * KIB
"""What was written and not taken by the system counts as sent up to here: a little for each connection."""

_greeting_bytes = 4


class Exchange(Protocol):
    """What a connection needs of the server it belongs to."""

    requests_max: int
    budget: ClientBudget

    def opened(self, connection: ZooKeeperConnection) -> bool:
        """A connection is there; False sends it away."""

    def lost(self, connection: ZooKeeperConnection) -> None:
        """It is gone."""

    def tell(self, connection: ZooKeeperConnection, message: FromConnection) -> None:
        """Something for the front end."""

    def asked(self, size_bytes: int) -> None:
        """Requests of so many bytes more, or fewer, wait for their answers."""

    def is_full(self, connection: ZooKeeperConnection) -> bool:
        """Whether those of all connections are enough; then the connection is paced again later."""

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
        #: answers that have left, and that the front end was not told of
        self._sent_bytes = 0
        #: requests without an answer; how many bytes each is, and all of them
        self.outstanding = 0
        self._asked_bytes: deque[int] = deque()
        self.asked_bytes = 0
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
            self.cut_off("too_many")

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        if not self._is_greeted:
            self._greet(self._start + data)
            return
        budget = self._exchange.budget
        try:
            payloads = self._cutter.feed(data)
            budget.keeps(self, self._cutter.pending_bytes, is_whole=bool(payloads))  # Z4
            for payload in payloads:
                self._take(payload)
        except BadFrame:
            self.cut_off("garbage")
            return
        self.pace()

    def pause_writing(self) -> None:
        self._is_writable = False
        self.pace()

    def resume_writing(self) -> None:
        self._is_writable = True
        self._report_sent()
        self.pace()

    def connection_lost(self, _error: Exception | None) -> None:
        self._is_over = True
        self._deadline.cancel()
        self._exchange.budget.lost(self)
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
            self._hang_up()
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
        self._asked_bytes.append(len(payload))
        self.asked_bytes += len(payload)
        self._exchange.asked(len(payload))
        self.received += 1
        self._exchange.tell(self, Ask(xid, request))

    def pace(self) -> None:
        """Read, or stop reading."""
        is_reading = (  # Z2
            self._is_writable
            and self.outstanding < self._exchange.requests_max
            and self.asked_bytes < keeper_asked_bytes_max
            and not (self.asked_bytes and self._exchange.is_full(self))
        )
        if is_reading != self._is_reading and not self.transport.is_closing():
            self._is_reading = is_reading
            if is_reading:
                self.transport.resume_reading()
            else:
                self.transport.pause_reading()

    def _too_slow(self) -> None:
        if not self.session and not self._is_over:
            self.cut_off("silent" if not self.has_asked_to_connect else "not_served")  # Z1

    def cut_off(self, why: str) -> None:
        """Close it at once, for a reason of ours."""
        if self._is_over and not self._is_hanging_up:
            return
        self._is_over, self._is_hanging_up = True, False  # it is counted once
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
            self._answered()
            self._sent_bytes += answer_bytes(message.result)
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

    def _answered(self) -> None:
        self.outstanding -= 1
        if self._asked_bytes:
            size_bytes = self._asked_bytes.popleft()
            self.asked_bytes -= size_bytes
            self._exchange.asked(-size_bytes)

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
            data = head + encode_replies(out)
            self._exchange.budget.wrote(self, len(data))
            self.transport.write(data)
        if self._is_hanging_up:
            self._hang_up()
        else:
            self._report_sent()
            self.pace()

    def _hang_up(self) -> None:
        """Z4."""
        self._is_hanging_up = True
        self.transport.close()
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(hangup_seconds_max, self.cut_off, "stalled")

    def _report_sent(self) -> None:
        """Z3."""
        if self._is_writable and self._sent_bytes >= keeper_unsent_bytes_free:
            sent_bytes, self._sent_bytes = self._sent_bytes, 0
            self._exchange.tell(self, AnswersSent(sent_bytes))
