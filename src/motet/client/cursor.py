"""Cursors: where a reader of the feed is, as a text that can be kept anywhere and used in any process.

A cursor is a clock, together with the database and the streams it belongs to: the same clock would mean
something else elsewhere. Its text is a prefix with the version, and in base64 a checksum and the fields.
"""

from __future__ import annotations

import base64
import binascii

import msgspec

from motet.core.clock.hlc import Clock
from motet.errors import BadCursor
from motet.format.checksum import crc32c
from motet.ids import StreamName

PREFIX = "motet1."
CHECKSUM_BYTES = 4
cursor_length_max = 1 << 20


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """Everything of these streams up to this clock has been read."""

    database: int
    clock: Clock
    #: sorted, each once
    streams: tuple[StreamName, ...]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Cursor).decode


def cursor_text(cursor: Cursor) -> str:
    """The cursor as text of letters, digits, dots, dashes and underscores."""
    body = _encode(cursor)
    data = crc32c(body).to_bytes(CHECKSUM_BYTES, "little") + body
    return PREFIX + base64.urlsafe_b64encode(data).decode().rstrip("=")


def parse_cursor(text: object) -> Cursor:
    """Read a cursor back; ``BadCursor`` when a single character of it is not as it was."""
    if not isinstance(text, str) or not text.startswith(PREFIX) or len(text) > cursor_length_max:
        raise BadCursor(f"{_shown(text)} is not a cursor")
    digits = text.removeprefix(PREFIX)
    try:
        data = base64.b64decode(digits + "=" * (-len(digits) % 4), altchars=b"-_", validate=True)
        body = data[CHECKSUM_BYTES:]
        if crc32c(body).to_bytes(CHECKSUM_BYTES, "little") != data[:CHECKSUM_BYTES]:
            raise BadCursor(f"{_shown(text)} is garbled: its checksum is wrong")
        cursor = _decode(body)
    except (binascii.Error, ValueError, msgspec.MsgspecError, RecursionError):
        raise BadCursor(f"{_shown(text)} is garbled") from None
    if cursor_text(cursor) != text:
        raise BadCursor(f"{_shown(text)} is garbled")
    return cursor


def clock_behind(text: str, *, database: int, streams: tuple[StreamName, ...], name: str) -> Clock:
    """The clock of a cursor that is of this database and these streams; ``BadCursor`` if it is not."""
    cursor = parse_cursor(text)
    if cursor.database != database:
        raise BadCursor(f"the cursor is of another database, not of {name}")
    if cursor.streams != streams:
        theirs, ours = ", ".join(cursor.streams), ", ".join(streams)
        raise BadCursor(f"the cursor is of the streams {theirs}, not of {ours}")
    return cursor.clock


def _shown(text: object) -> str:
    shown = repr(text)
    return shown if len(shown) <= 60 else shown[:60] + "…"
