"""Cutting ZooKeeper's messages out of a byte stream.

A message is its length, an int of four bytes, and so many bytes; no checksum, no type and no end. So a wrong
length cannot be told from a right one unless it is absurd, and behind it nothing is to be found again:

C1  A length below zero or above the bound ends the stream. The cutter is dead then: every further call
    raises the same, and the connection is to be closed.
C2  Nothing is awaited or kept for a length before C1 has let it pass, so what is kept is never longer than
    one message.
C3  However the bytes arrive, the messages are the same. Good messages in front of a bad length, in the same
    chunk, go down with the connection.
"""

from __future__ import annotations

from motet.errors import BadFrame
from motet.format.zookeeper.jute import INT

PAYLOAD_BYTES_MAX = (1 << 20) + (1 << 10)
"""ZooKeeper's own default (``jute.maxbuffer``), and some room for what is around a value of one MiB."""

_LENGTH_BYTES = INT.size
_unpack_length = INT.unpack_from


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
