"""Jute: how ZooKeeper writes numbers, texts and lists into bytes, and cuts messages out of a stream.

Everything is big-endian and nothing is padded. An int has four bytes, a long eight, a bool one. A buffer, a
text and a vector begin with an int, their length.

J1  A length of -1 means that there is nothing at all. Clients disagree on whether an empty text is that or
    a length of 0, so both are read as the empty value, and the second is what we write.
J2  A length is believed only if what it promises can still be in the message: nothing is allocated for it
    before. Below -1 it is wrong.
J3  A text is UTF-8. Bytes that are not are no text.
J4  Whatever is wrong, in reading or in writing, is ``BadFrame`` and nothing else.

A reader takes the whole message and where to begin, and returns what it read and where it stopped, so that
nothing is cut into pieces on the way.

In a byte stream a message is its length, an int of four bytes, and so many bytes; no checksum, no type and no
end. So a wrong length cannot be told from a right one unless it is absurd, and nothing is found after it:

C1  A length below zero or above the bound ends the stream. The cutter is dead then: every further call
    raises the same, and the connection is to be closed.
C2  Nothing is awaited or kept for a length before C1 has let it pass, so what is kept is never longer than
    one message.
C3  However the bytes arrive, the messages are the same. Good messages in front of a bad length, in the same
    chunk, go down with the connection.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from motet.errors import BadFrame

INT = struct.Struct(">i")
LONG = struct.Struct(">q")
BOOL = struct.Struct(">?")

NULL = -1
"""The length of nothing at all."""

T = TypeVar("T")
Reader = Callable[[bytes, int], tuple[T, int]]
Writer = Callable[[T], bytes]

_item_bytes_min = 4
"""Whatever is in a vector begins with an int."""

_EMPTY = INT.pack(0)
_NULL = INT.pack(-1)
_pack_length = INT.pack
_unpack_length = INT.unpack_from


# Reading


def unpack(layout: struct.Struct, data: bytes, at: int) -> tuple[Any, ...]:
    """Some fields of fixed size."""
    try:
        return layout.unpack_from(data, at)
    except struct.error:
        raise BadFrame(f"a message of {len(data)} bytes ends inside a field at {at}") from None


def read_int(data: bytes, at: int) -> tuple[int, int]:
    return unpack(INT, data, at)[0], at + 4


def read_long(data: bytes, at: int) -> tuple[int, int]:
    return unpack(LONG, data, at)[0], at + 8


def read_bool(data: bytes, at: int) -> tuple[bool, int]:
    return unpack(BOOL, data, at)[0], at + 1


def read_buffer(data: bytes, at: int) -> tuple[bytes, int]:
    start, end = _extent(data, at)
    return data[start:end], end


def read_data(data: bytes, at: int) -> tuple[bytes | None, int]:
    """A buffer of which it matters whether it is null."""
    value, end = read_buffer(data, at)
    is_null = not value and data[at : at + INT.size] != _EMPTY
    return (None if is_null else value), end


def read_string(data: bytes, at: int) -> tuple[str, int]:
    start, end = _extent(data, at)
    try:
        return str(data[start:end], "utf-8"), end
    except UnicodeDecodeError:
        raise BadFrame(f"the text at {at} is not UTF-8") from None


def read_vector(read: Reader[T], data: bytes, at: int) -> tuple[tuple[T, ...], int]:
    """Many of the same kind, each of at least four bytes."""
    count: int = unpack(INT, data, at)[0]
    at += 4
    if count < NULL or count > (len(data) - at) // _item_bytes_min:
        raise BadFrame(f"a vector of {count} items in {len(data) - at} bytes")
    items = []
    for _ in range(count):
        item, at = read(data, at)
        items.append(item)
    return tuple(items), at


def read_strings(data: bytes, at: int) -> tuple[tuple[str, ...], int]:
    return read_vector(read_string, data, at)


def check_end(data: bytes, at: int) -> None:
    """``BadFrame`` unless all of the message was read."""
    if at != len(data):
        raise BadFrame(f"{len(data) - at} bytes too many at the end of a message")


def _extent(data: bytes, at: int) -> tuple[int, int]:
    """From where to where the buffer lies whose length is here."""
    start = at + 4
    try:
        (length,) = _unpack_length(data, at)
    except struct.error:
        raise BadFrame(f"a message of {len(data)} bytes ends inside a length at {at}") from None
    end = start if length == NULL else start + length
    if length < NULL or end > len(data):
        raise BadFrame(f"a length of {length} with {len(data) - start} bytes left")
    return start, end


# Writing


def pack(layout: struct.Struct, *values: object) -> bytes:
    """Some fields of fixed size."""
    try:
        return layout.pack(*values)
    except struct.error:
        hint = "an int has 32 bits and a long 64, both signed"
        raise BadFrame(f"{values} do not fit into their fields", hint=hint) from None


def write_int(value: int) -> bytes:
    return pack(INT, value)


def write_long(value: int) -> bytes:
    return pack(LONG, value)


def write_bool(value: bool) -> bytes:
    return b"\1" if value else b"\0"


def write_buffer(value: bytes) -> bytes:
    return _pack_length(len(value)) + value


def write_data(value: bytes | None) -> bytes:
    return _NULL if value is None else write_buffer(value)


def write_string(text: str) -> bytes:
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise BadFrame(
            f"{text!r} cannot be written as UTF-8", hint="use whole characters"
        ) from None
    return _pack_length(len(encoded)) + encoded


def write_vector(write: Writer[T], items: Sequence[T]) -> bytes:
    return _pack_length(len(items)) + b"".join([write(item) for item in items])


def write_strings(texts: Sequence[str]) -> bytes:
    return write_vector(write_string, texts)


def framed(*parts: bytes) -> bytes:
    """One message as it goes over the wire: its length, and its parts one after the other."""
    return b"".join((_pack_length(sum(map(len, parts))), *parts))


PAYLOAD_BYTES_MAX = (1 << 20) + (1 << 10)
"""ZooKeeper's own default (``jute.maxbuffer``), and some room for what is around a value of one MiB."""

_LENGTH_BYTES = INT.size


class FrameCutter:
    """One direction of one connection."""

    __slots__ = ("_error", "_payload_bytes_max", "_tail", "_tail_wanted_bytes")

    def __init__(self, payload_bytes_max: int = PAYLOAD_BYTES_MAX) -> None:
        assert payload_bytes_max > 0
        self._payload_bytes_max = payload_bytes_max
        self._tail = bytearray()
        #: with fewer than this in the tail there is no message in it, and no need to look again
        self._tail_wanted_bytes = 0
        self._error: BadFrame | None = None

    @property
    def pending_bytes(self) -> int:
        """How many bytes of an incomplete message are kept."""
        return len(self._tail)

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that these bytes complete, without their lengths."""
        if self._error is not None:
            raise BadFrame(self._error.what, hint=self._error.advice)
        if self._tail:
            self._tail += data
            if len(self._tail) < self._tail_wanted_bytes:
                return []
            data = bytes(self._tail)
        payloads, used = self._cut(data)
        self._tail = bytearray(data[used:])
        return payloads

    def _cut(self, data: bytes) -> tuple[list[bytes], int]:
        """The whole messages at the start of ``data``, and where the incomplete rest begins."""
        payloads: list[bytes] = []
        position, end = 0, len(data)
        self._tail_wanted_bytes = _LENGTH_BYTES
        while (start := position + _LENGTH_BYTES) <= end:
            (length,) = _unpack_length(data, position)
            if not 0 <= length <= self._payload_bytes_max:
                raise self._dead(length)
            if start + length > end:
                self._tail_wanted_bytes = _LENGTH_BYTES + length
                break
            payloads.append(data[start : start + length])
            position = start + length
        return payloads, position

    def _dead(self, length: int) -> BadFrame:
        what = f"a message of {length} bytes exceeds the limit of {self._payload_bytes_max}"
        self._error = BadFrame(what)
        self._tail = bytearray()
        return self._error
