"""One TCP connection: bytes in, frames out, and when to stop reading or writing.

It begins with a greeting both ways, and between nodes with a cluster key with a proof both ways. Until the
other side's has come and is good, nothing else counts and no more than a greeting's worth of bytes is kept.
A node whose id is still in use by another connection is *held*: nothing more is read from it until the
network admits or refuses it. What a connection knows of the rest of the network is the ``Exchange``.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Protocol, cast

from motet.errors import BadFrame
from motet.format.frame import (
    FRAME_HEADER_BYTES,
    MESSAGE_KIND_MIN,
    Frame,
    FrameDecoder,
    FrameKind,
    decode_batch,
    encode_frame,
)
from motet.ids import Address
from motet.limits import hello_body_bytes_max
from motet.real.budgets import ClientBudget
from motet.real.hello import Hello, Refusal, decode_hello, hello_frame

write_buffer_bytes_high = 1 << 20
"""Bytes the system has not taken yet above which we keep further frames to ourselves."""

hello_seconds_max = 10.0
"""How long a new connection may take for its greeting."""

_dead_after_seconds = 10
_KEEPALIVE = (
    ("TCP_KEEPIDLE", 4),
    ("TCP_KEEPALIVE", 4),  # the same on macOS
    ("TCP_KEEPINTVL", 2),
    ("TCP_KEEPCNT", 3),
    # Without it, bytes on their way to a vanished peer are repeated at ever longer intervals.
    ("TCP_USER_TIMEOUT", _dead_after_seconds * 1000),
)
"""Together: a peer that has vanished without a word is noticed after ten seconds."""


Deliver = Callable[[Address, list[Frame], int], None]
"""Takes frames that have come in: from whom, which, and how many bytes they are."""


class Exchange(Protocol):
    """What a connection needs of the network it belongs to."""

    def opened(self, connection: Connection) -> Refusal | None:
        """A connection is there; a reason sends it away again."""

    def greeted(self, connection: Connection, hello: Hello) -> Refusal | None:
        """Its greeting has come; a reason sends it away, else it is admitted or has to prove itself."""

    def proved(self, connection: Connection, proof: bytes) -> Refusal | None:
        """Its proof has come; a reason sends it away, else it is admitted or held."""

    def echoed(self, connection: Connection, token: bytes) -> None:
        """The other side has answered a probe."""

    def writable(self, connection: Connection) -> None:
        """It takes frames again."""

    def refused(self, connection: Connection, why: Refusal, detail: str) -> None:
        """It is being closed by us."""

    def lost(self, connection: Connection) -> None:
        """It is gone."""


class Connection(asyncio.Protocol):
    """A connection we dialed, or one that came to us."""

    def __init__(
        self, exchange: Exchange, deliver: Deliver, own_hello: Hello, dialed: Address | None
    ) -> None:
        self._exchange = exchange
        self._deliver = deliver
        #: our greeting
        self.own_hello = own_hello
        #: whom we dialed, None when the other side did
        self.dialed = dialed
        #: the other side's greeting, and by which name it goes here if that is true
        self.hello: Hello | None = None
        self.claimed = Address("")
        #: who the other side is; None before it is admitted
        self.address: Address | None = None
        #: it was given its address by us, and has no other way to us
        self.is_client = False
        #: counts what is kept for a client; None for nodes
        self._budget: ClientBudget | None = None
        self._has_parked = False
        self.is_writable = True
        self._inbox_is_full = False
        self._is_reading = True
        self._is_held = False
        #: what came after the proof of one that is held
        self._held_frames: list[Frame] = []
        self._is_over = False
        decoder = FrameDecoder()
        self._decoder = decoder
        self._feed = decoder.feed

    # What asyncio calls ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        set_socket_options(self.transport)
        self.transport.set_write_buffer_limits(high=write_buffer_bytes_high)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(hello_seconds_max, self.refuse, Refusal.SILENT)
        refusal = self._exchange.opened(self)
        if refusal is not None:
            self.refuse(refusal)
            return
        self.transport.write(hello_frame(self.own_hello))

    def data_received(self, data: bytes) -> None:
        decoder = self._decoder
        pending_before = decoder.pending_bytes
        try:
            frames = self._feed(data)
            is_whole = bool(frames)
            if self.address is None:
                frames = self._greet(frames)
            if self._budget is not None:
                self._budget.keeps(self, decoder.pending_bytes, is_whole=is_whole)
            messages = unpack(frames, self._on_control)
        except BadFrame as error:
            self.refuse(Refusal.BAD_FRAME, error.what)
            return
        if messages and self.address is not None:
            size_bytes = pending_before + len(data) - decoder.pending_bytes
            self._deliver(self.address, messages, size_bytes)

    def pause_writing(self) -> None:
        self.is_writable = False
        self._update_reading()

    def resume_writing(self) -> None:
        self.is_writable = True
        self._update_reading()
        self._exchange.writable(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._is_over = True
        self._deadline.cancel()
        if self._budget is not None:
            self._budget.lost(self)
        self._exchange.lost(self)

    # What the network calls -----------------------------------------------------------------------

    def set_inbox_full(self, is_full: bool) -> None:
        """Stop reading while nobody takes what has arrived."""
        self._inbox_is_full = is_full
        self._update_reading()

    def be_client(self, budget: ClientBudget, deliver: Deliver) -> None:
        """The other side is a client: what is kept for it counts, and what it says goes elsewhere."""
        self.is_client, self._budget, self._deliver = True, budget, deliver

    def set_parked(self, has_parked: bool) -> None:
        """Stop reading while requests of it wait for room for their answers."""
        self._has_parked = has_parked
        self._update_reading()

    def cut_off(self, why: str) -> None:
        """Close it because of what is kept for it."""
        self.refuse(Refusal(why))

    @property
    def is_over(self) -> bool:
        """Closed by either side, or being closed."""
        return self._is_over

    @property
    def incarnation(self) -> int:
        return 0 if self.hello is None else self.hello.incarnation

    def admit(self) -> None:
        """The other side is who it claims to be."""
        self.address = self.claimed
        self._deadline.cancel()
        if self._is_held:
            self._is_held = False
            self._update_reading()
            frames, self._held_frames = self._held_frames, []
            try:
                messages = unpack(frames, self._on_control)
            except BadFrame as error:
                self.refuse(Refusal.BAD_FRAME, error.what)
                return
            if messages:
                size_bytes = sum(FRAME_HEADER_BYTES + len(frame.body) for frame in frames)
                self._deliver(self.address, messages, size_bytes)

    def hold(self) -> None:
        """Read no more until it is admitted or refused."""
        self._is_held = True
        self._update_reading()

    def prove(self, proof: bytes) -> None:
        self.transport.write(encode_frame(FrameKind.PROOF, 0, proof))

    def probe(self, token: bytes) -> None:
        """Ask the other side for an echo."""
        self.transport.write(encode_frame(FrameKind.PROBE, 0, token))

    def refuse(self, why: Refusal, detail: str = "") -> None:
        """Close it for a reason of ours. Nothing that was under way is waited for."""
        if self._is_over:
            return
        self._is_over = True
        self._exchange.refused(self, why, detail)
        if self.address is None:
            self.transport.close()  # lets our greeting out, from which the other side sees what is wrong
        else:
            self.transport.abort()

    # Inside ---------------------------------------------------------------------------------------

    def _greet(self, frames: list[Frame]) -> list[Frame]:
        """Take the greeting, and the proof if there has to be one; the frames after them."""
        if not frames and not self._is_held and self._decoder.pending_bytes > hello_body_bytes_max:
            self.refuse(Refusal.NO_HELLO, "too much for a greeting")
        for position, frame in enumerate(frames):
            if self._is_over:
                return []
            if self._is_held:
                self._held_frames += frames[position:]
                return []
            if self.address is not None:
                return frames[position:]
            self._take_introduction(frame)
        return []

    def _take_introduction(self, frame: Frame) -> None:
        if self.hello is not None:
            if frame.kind == FrameKind.PROOF and len(frame.body) <= hello_body_bytes_max:
                refusal = self._exchange.proved(self, frame.body)
            else:
                refusal = Refusal.UNPROVEN
        else:
            hello = decode_hello(frame)
            if hello is None:
                self.refuse(Refusal.NO_HELLO, f"a frame of kind {frame.kind} came first")
                return
            self.hello = hello
            refusal = self._exchange.greeted(self, hello)
        if refusal is not None:
            self.refuse(refusal, repr(self.hello))

    def _on_control(self, frame: Frame) -> bool:
        """Take a frame that is about the connection itself; False if it has no place here."""
        if self.is_client or len(frame.body) > hello_body_bytes_max:
            return False
        if frame.kind == FrameKind.PROBE:
            if self.is_writable:  # else it is alive and has enough to read: the next probe will do
                self.transport.write(encode_frame(FrameKind.ECHO, 0, frame.body))
            return True
        if frame.kind == FrameKind.ECHO:
            self._exchange.echoed(self, frame.body)
            return True
        return False

    def _update_reading(self) -> None:
        # A client that does not take its answers may not ask for more. Among nodes the same rule
        # could make both sides wait for each other; their protocols bound what is under way.
        held_up = (
            self._inbox_is_full
            or self._is_held
            or (self.is_client and (self._has_parked or not self.is_writable))
        )
        if held_up == self._is_reading and not self.transport.is_closing():
            self._is_reading = not held_up
            if held_up:
                self.transport.pause_reading()
            else:
                self.transport.resume_reading()


def unpack(
    frames: list[Frame], on_control: Callable[[Frame], bool] = lambda _frame: False
) -> list[Frame]:
    """The messages in the frames of an admitted connection; ``on_control`` takes what is none."""
    if (
        len(frames) == 1 and frames[0].kind == FrameKind.BATCH
    ):  # what a turn of the other side looks like
        return decode_batch(frames[0].body)
    messages: list[Frame] = []
    for frame in frames:
        if frame.kind >= MESSAGE_KIND_MIN:
            messages.append(frame)
        elif frame.kind == FrameKind.BATCH:
            messages += decode_batch(frame.body)
        elif not on_control(frame):
            raise BadFrame(f"a frame of kind {frame.kind} after the greeting")
    return messages


def set_socket_options(transport: asyncio.Transport) -> None:
    """Send at once, and notice when the other side has vanished."""
    sock = transport.get_extra_info("socket")
    with contextlib.suppress(OSError):  # closed again already, which will be reported as such
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            option = getattr(socket, name, None)
            if option is not None:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
