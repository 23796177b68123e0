"""Frames: how messages are cut out of a byte stream between two nodes, or a client and a node.

A frame is a header of 24 bytes and a body. Rules, in the order in which a decoder applies them:

R1  The first two bytes say ``mt`` and the third the version. This holds for every version there will
    ever be, so a stranger or a newer peer is recognised from its first bytes.
R2  The header's own checksum is right. Only then is anything else in the header believed.
R3  The length is within its bound. Only then is anything kept or awaited for it.
R4  The body's checksum is right. Only then does anybody see the body.

The first bytes that break a rule end the stream: there is no way to find the next frame in bytes that
cannot be trusted, so the decoder is dead and the connection is to be closed. Kind and id are the
protocol's; the format only carries them.

Many small frames in one: what waits together travels together, under one pair of checksums.

Packing and checking frames one by one is most of what a message costs in Python. A batch is a frame
whose body is a list of small frames, encoded and decoded in one call. Large frames and single ones
travel as themselves; order is kept.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec

from motet.errors import BadFrame
from motet.format.checksum import crc32c
from motet.limits import batch_bytes_max, frame_bytes_max

FRAME_MAGIC = b"mt"
FRAME_VERSION = 1

FRAME_LAYOUT = (
    ("magic", "2s"),
    ("version", "B"),
    ("kind", "B"),
    ("body_bytes", "I"),
    ("id", "Q"),
    ("body_crc", "I"),
    ("header_crc", "I"),
)
"""The header's fields in their order, little-endian, each with its code in :mod:`struct`."""

FRAME_HEADER = struct.Struct("<" + "".join(code for _, code in FRAME_LAYOUT))
FRAME_HEADER_BYTES = FRAME_HEADER.size
FRAME_BODY_BYTES_MAX = frame_bytes_max - FRAME_HEADER_BYTES

_checked = struct.Struct("<" + "".join(code for _, code in FRAME_LAYOUT[:-1]))
_unpack_header = FRAME_HEADER.unpack_from
_pack_checked = _checked.pack
_pack_crc = struct.Struct("<I").pack
_CHECKED_BYTES = _checked.size

assert FRAME_HEADER_BYTES == 24
assert _CHECKED_BYTES == FRAME_HEADER_BYTES - 4, "the header's checksum is its last field"

_STRANGERS = (
    (b"GET ", "an HTTP request"),
    (b"HEAD ", "an HTTP request"),
    (b"POST ", "an HTTP request"),
    (b"PUT ", "an HTTP request"),
    (b"OPTIONS ", "an HTTP request"),
    (b"PRI * HTTP/2", "an HTTP/2 client"),
    (b"HTTP/", "an HTTP answer"),
    (b"\x16\x03", "a TLS handshake"),
    (b"SSH-", "an SSH greeting"),
    (b"\0\0\0,\0\0\0\0", "a ZooKeeper client"),
    (b"\0\0\0-\0\0\0\0", "a ZooKeeper client"),
)
"""The first bytes of those who often knock at the wrong port."""


class FrameKind(enum.IntEnum):
    """What a body is: the same on every node, and never given away twice.

    0 stays unused, 1 to 15 are about the connection itself, from 16 on each machine has its own.
    """

    HELLO = 1
    BATCH = 2
    PROOF = 3
    PROBE = 4
    ECHO = 5
    # 16 was a machine of earlier versions that handed out clocks: no other machine gets this number
    TIME = 17
    STREAMS = 18
    VSR = 19
    DATA = 20
    OPERATOR = 21
    #: for a data node too, and taken before all that is of the kind DATA
    DATA_FIRST = 22
    TABLES = 23


class Frame(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One message as it travels: what it is, which request it belongs to, and its bytes."""

    kind: Annotated[int, msgspec.Meta(ge=0, le=(1 << 8) - 1)]
    #: correlates a reply with its request; the format gives it no meaning
    id: Annotated[int, msgspec.Meta(ge=0)]
    body: bytes


def encode_frame(kind: int, id: int, body: bytes) -> bytes:  # noqa: A002
    """The bytes of one frame. ``BadFrame`` when the body is too long or a number does not fit."""
    return _encode_header(kind, id, body) + body


def frame_header(frame: Frame) -> bytes:
    """What goes in front of its body."""
    return _encode_header(frame.kind, frame.id, frame.body)


def encode_frames(frames: Iterable[Frame]) -> bytes:
    """The bytes of many frames, one after the other, each body copied only once."""
    parts: list[bytes] = []
    for frame in frames:
        parts += (_encode_header(frame.kind, frame.id, frame.body), frame.body)
    return b"".join(parts)


def _encode_header(kind: int, id: int, body: bytes) -> bytes:  # noqa: A002
    if len(body) > FRAME_BODY_BYTES_MAX:
        raise BadFrame(_too_long(len(body)), hint="send it in smaller pieces")
    try:
        checked = _pack_checked(FRAME_MAGIC, FRAME_VERSION, kind, len(body), id, crc32c(body))
    except struct.error:
        raise BadFrame(
            f"kind {kind} or id {id} does not fit into a frame",
            hint="a kind has 8 bits and an id 64, both unsigned",
        ) from None
    return checked + _pack_crc(crc32c(checked))


class FrameDecoder:
    """Cuts the frames out of one direction of one connection, however its bytes were chunked.

    It keeps the incomplete tail, which is never longer than one frame. After an error it is dead: every
    further call raises that error again. Good frames in front of the bad bytes, in the same chunk, go
    down with the connection; to the protocol they are lost messages.
    """

    __slots__ = ("_error", "_offset", "_tail", "_tail_wanted_bytes", "pending_bytes")

    def __init__(self) -> None:
        #: the incomplete tail as it came, put together when there is enough of it: a long body that comes
        #: in many pieces is copied once
        self._tail: list[bytes] = []
        #: how many bytes of an incomplete frame are kept
        self.pending_bytes = 0
        #: how long the frame in the tail is; 0 as long as its header is not there as a whole
        self._tail_wanted_bytes = 0
        #: where in the stream the tail begins
        self._offset = 0
        self._error: BadFrame | None = None

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that these bytes complete. ``BadFrame`` says which rule was broken, and where."""
        self._check_alive()
        first: list[Frame] = []
        if self._tail:
            self._tail.append(data)
            self.pending_bytes += len(data)
            if self.pending_bytes < self._tail_wanted_bytes:
                return []
            if self._tail_wanted_bytes:
                first, data = self._complete(data)
            else:
                data = b"".join(self._tail)
        frames, used = self._cut(data)
        self._offset += used
        rest = data[used:]
        self._tail, self.pending_bytes = ([rest], len(rest)) if rest else ([], 0)
        return first + frames if first else frames

    def _complete(self, data: bytes) -> tuple[list[Frame], bytes]:
        """The frame in the tail, whose header is good and whose last bytes have come; what follows it."""
        end = len(data) - (self.pending_bytes - self._tail_wanted_bytes)
        *before, _ = self._tail
        _, _, kind, _, id_, body_crc, _ = _unpack_header(before[0])
        before[0] = before[0][FRAME_HEADER_BYTES:]
        body = b"".join((*before, data if end == len(data) else data[:end]))
        if crc32c(body) != body_crc:
            raise self._dead(BadFrame("the body is damaged: its checksum is wrong"), 0)
        self._offset += self._tail_wanted_bytes
        return [Frame(kind, id_, body)], data[end:]

    def finish(self) -> None:
        """The stream has ended. ``BadFrame`` when that was in the middle of a frame."""
        self._check_alive()
        if self._tail:
            wanted = self._tail_wanted_bytes or FRAME_HEADER_BYTES
            what = f"the stream ended inside a frame, after {self.pending_bytes} of {wanted} bytes"
            raise self._dead(BadFrame(what), 0)

    def _cut(self, data: bytes) -> tuple[list[Frame], int]:
        """The whole frames at the start of ``data``, and where the incomplete rest begins."""
        frames: list[Frame] = []
        position, end = 0, len(data)
        self._tail_wanted_bytes = 0
        while (body_start := position + FRAME_HEADER_BYTES) <= end:
            magic, version, kind, body_bytes, id_, body_crc, header_crc = _unpack_header(
                data, position
            )
            if (
                magic != FRAME_MAGIC
                or version != FRAME_VERSION
                or header_crc != crc32c(data[position : position + _CHECKED_BYTES])
                or body_bytes > FRAME_BODY_BYTES_MAX
            ):
                break
            body_end = body_start + body_bytes
            if body_end > end:
                self._tail_wanted_bytes = body_end - position
                return frames, position
            body = data[body_start:body_end]
            if crc32c(body) != body_crc:
                raise self._dead(BadFrame("the body is damaged: its checksum is wrong"), position)
            frames.append(Frame(kind, id_, body))
            position = body_end
        if position == end:
            return frames, position
        fault = header_fault(data[position : position + FRAME_HEADER_BYTES])
        if fault is not None:
            raise self._dead(fault, position)
        return frames, position

    def _check_alive(self) -> None:
        if self._error is not None:
            raise BadFrame(self._error.what, hint=self._error.advice)

    def _dead(self, fault: BadFrame, position: int) -> BadFrame:
        at = f"at byte {self._offset + position} of the stream"
        self._error = BadFrame(f"{fault.what}, {at}", hint=fault.advice)
        self._tail, self.pending_bytes = [], 0
        return self._error


def header_fault(header: bytes) -> BadFrame | None:
    """What is wrong with a header, judged as far as its bytes go: fewer than 24 may still be fine."""
    if not FRAME_MAGIC.startswith(header[:2]):
        return _foreign(header)
    version = header[2] if len(header) > 2 else FRAME_VERSION
    if version > FRAME_VERSION:
        what = f"frame version {version} is from the future: this side knows {FRAME_VERSION}"
        return BadFrame(what, hint="upgrade this side")
    if version < FRAME_VERSION:
        return BadFrame(f"there never was a frame version {version}")
    if len(header) < FRAME_HEADER_BYTES:
        return None
    *_, body_bytes, _id, _body_crc, header_crc = _unpack_header(header)
    if header_crc != crc32c(header[:_CHECKED_BYTES]):
        return BadFrame("the header is damaged: its checksum is wrong")
    if body_bytes > FRAME_BODY_BYTES_MAX:
        return BadFrame(_too_long(body_bytes))
    return None


def _foreign(start: bytes) -> BadFrame:
    for greeting, who in _STRANGERS:
        if start.startswith(greeting):
            what = f"foreign bytes {start!r}: this is {who}, not a frame"
            return BadFrame(what, hint="check the address and port the other side was given")
    return BadFrame(f"foreign bytes {start!r}: a frame starts with {FRAME_MAGIC!r}")


def _too_long(body_bytes: int) -> str:
    frame_bytes = FRAME_HEADER_BYTES + body_bytes
    return f"a frame of {frame_bytes} bytes exceeds the limit of {frame_bytes_max}"


MESSAGE_KIND_MIN = 16
"""The first kind that is a message's; the ones below are about the connection."""

_encoded_bytes_max = 2 * batch_bytes_max
"""A batch as its sender may have packed it: names and numbers make small frames a little larger."""

UNDECODABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for bytes that are nothing of ours."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Frame]).decode


def encode_batches(frames: Sequence[Frame], size_bytes: int) -> list[bytes]:
    """The bytes of all frames, in batches as large as allowed; on their own they are so many bytes.

    They are in pieces, so that the body of a large frame need not be copied.
    """
    if size_bytes <= batch_bytes_max:
        return [_encode_run(frames)]
    pieces: list[bytes] = []
    start = size_bytes = 0
    for position, frame in enumerate(frames):
        frame_bytes = FRAME_HEADER_BYTES + len(frame.body)
        size_bytes += frame_bytes
        if size_bytes > batch_bytes_max:
            if position > start:
                pieces.append(_encode_run(frames[start:position]))
                start, size_bytes = position, frame_bytes
            if frame_bytes > batch_bytes_max:
                pieces += (frame_header(frame), frame.body)
                start, size_bytes = position + 1, 0
    if start < len(frames):
        pieces.append(_encode_run(frames[start:]))
    return pieces


def decode_batch(data: bytes) -> list[Frame]:
    """The frames in the body of a batch. ``BadFrame`` when it is not one."""
    if len(data) > _encoded_bytes_max:
        raise BadFrame(f"a batch of {len(data)} bytes exceeds the limit of {_encoded_bytes_max}")
    try:
        return _decode(data)
    except UNDECODABLE as error:
        raise BadFrame(f"not a batch: {error}") from None


def _encode_run(frames: Sequence[Frame]) -> bytes:
    if len(frames) == 1:
        return encode_frame(frames[0].kind, frames[0].id, frames[0].body)
    return encode_frame(FrameKind.BATCH, 0, _encode(frames))
