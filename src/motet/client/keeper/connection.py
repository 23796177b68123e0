"""One connection to one server: a handshake, then requests out and answers in, in the same order.

X1  Answers come in the order of the requests, each with the xid of its request. Another xid means that the
    two sides no longer understand each other, and the connection is given up. So it is for bytes that make
    no sense.
X2  Three kinds of messages stand outside of that order and have xids of their own: events, answers to
    pings, and answers to what prepares a new connection (who we are, what we watch).
X3  A ping goes out every third of the session's time. A server that was silent for two thirds of it is
    given up, which leaves the last third to find another one.
X4  However a connection ends, its owner is told exactly once, with the calls that were not answered.

It decides nothing about calls: that is the owner's.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Protocol, cast

from motet.client.keeper.call import Call
from motet.errors import BadFrame
from motet.format.zookeeper.codec import (
    ReplyHeader,
    decode_event,
    decode_reply_header,
    decode_result,
    encode_request,
)
from motet.format.zookeeper.jute import FrameCutter
from motet.format.zookeeper.messages import AnyResult, Ping, WatchEvent
from motet.format.zookeeper.records import (
    AUTH_XID,
    EVENT_XID,
    PING_XID,
    SET_WATCHES_XID,
    ConnectReply,
    ConnectRequest,
    decode_connect_reply,
    encode_connect_request,
)

answer_bytes_max = 64 << 20
"""Requests have a bound of a megabyte; the names of a node's children have none."""

_PING = encode_request(PING_XID, Ping())


class Owner(Protocol):
    """Whoever has the connection."""

    def greeted(self, connection: Connection, reply: ConnectReply) -> None:
        """The server has answered the handshake."""

    def answered(self, call: Call, header: ReplyHeader, result: AnyResult) -> None:
        """This is the answer to that call."""

    def happened(self, event: WatchEvent) -> None:
        """A watch has fired."""

    def writable(self) -> None:
        """There is room to send again."""

    def lost(self, connection: Connection, unanswered: list[Call], why: str) -> None:
        """The connection is no more (X4)."""


class Connection(asyncio.Protocol):
    """From ``connection_made`` to ``lose``; of no use after that."""

    def __init__(self, hello: ConnectRequest, owner: Owner) -> None:
        loop = asyncio.get_running_loop()
        self._hello = hello
        self._owner = owner
        self._loop = loop
        self._transport: asyncio.WriteTransport | None = None
        self._cutter = FrameCutter(answer_bytes_max)
        self._is_paused = False
        self._is_over = False
        self._heard_at = loop.time()
        self._ping_timer: asyncio.TimerHandle | None = None
        self._silence_timer: asyncio.TimerHandle | None = None
        #: sent and not answered, in their order
        self._in_flight: deque[Call] = deque()
        #: xid -> the same, of those that stand outside of the order (X2)
        self._aside: dict[int, deque[Call]] = {AUTH_XID: deque(), SET_WATCHES_XID: deque()}
        #: whether the handshake was answered, once that is known
        self.is_greeted: asyncio.Future[bool] = loop.create_future()
        #: why it ended, once it has
        self.why_lost: asyncio.Future[str] = loop.create_future()
        #: whether it was of any use
        self.has_answered = False

    @property
    def is_writable(self) -> bool:
        return self._transport is not None and not self._is_over and not self._is_paused

    # Out

    def send(self, calls: Iterable[Call]) -> None:
        """All of these in one write."""
        assert self._transport is not None, "greeted first"
        frames = []
        for call in calls:
            lane = self._in_flight if call.xid > 0 else self._aside[call.xid]
            lane.append(call)
            frames.append(call.frame)
        self._transport.write(b"".join(frames))

    def lose(self, why: str) -> None:
        """Give it up; a second time is fine."""
        if self._is_over:
            return
        self._is_over = True
        for timer in (self._ping_timer, self._silence_timer):
            if timer is not None:
                timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        unanswered = [call for lane in self._aside.values() for call in lane]
        unanswered += self._in_flight
        if not self.is_greeted.done():
            self.is_greeted.set_result(False)
        if not self.why_lost.done():
            self.why_lost.set_result(why)
        self._owner.lost(self, unanswered, why)

    def keep_alive(self, timeout_ms: int) -> None:
        """From now on ping, and listen for silence (X3)."""
        self._ping_seconds = timeout_ms / 3000
        self._silence_seconds = 2 * self._ping_seconds
        self._ping_timer = self._loop.call_later(self._ping_seconds, self._ping)
        self._silence_timer = self._loop.call_later(self._silence_seconds, self._listen)

    def _ping(self) -> None:
        self._ping_timer = self._loop.call_later(self._ping_seconds, self._ping)
        if self.is_writable and self._transport is not None:
            self._transport.write(_PING)

    def _listen(self) -> None:
        silent_until = self._heard_at + self._silence_seconds
        if silent_until <= self._loop.time():
            self.lose(f"the server was silent for {self._silence_seconds:g} s")
        else:
            self._silence_timer = self._loop.call_at(silent_until, self._listen)

    # What the transport tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)
        if self._is_over:
            self._transport.abort()  # given up while it was being made
            return
        self._transport.write(encode_connect_request(self._hello))

    def data_received(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        try:
            for payload in self._cutter.feed(data):
                if self._is_over:
                    return
                self._take(payload)
        except BadFrame as error:
            self.lose(error.what)  # X1

    def connection_lost(self, exc: Exception | None) -> None:
        self.lose("the server closed the connection" if exc is None else f"{exc}")

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        if not self._is_over:
            self._owner.writable()

    # In

    def _take(self, payload: bytes) -> None:
        if not self.is_greeted.done():
            reply = decode_connect_reply(payload)
            self.is_greeted.set_result(True)
            self._owner.greeted(self, reply)
            return
        header = decode_reply_header(payload)
        self.has_answered = True
        if header.xid == EVENT_XID:
            self._owner.happened(decode_event(payload))
        elif header.xid != PING_XID:
            lane = self._lane(header.xid)
            result = decode_result(lane[0].request, payload)  # or else it stays unanswered
            self._owner.answered(lane.popleft(), header, result)

    def _lane(self, xid: int) -> deque[Call]:
        """In front of it is the call that an answer with this xid is for (X1)."""
        lane = self._aside.get(xid, self._in_flight)
        if not lane:
            raise BadFrame(f"an answer with xid {xid} to nothing that was asked")
        if lane[0].xid != xid:
            raise BadFrame(f"an answer with xid {xid} where {lane[0].xid} was due")
        return lane
