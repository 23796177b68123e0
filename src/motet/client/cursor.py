"""Cursors: where a reader of the feed is, as a text that can be kept anywhere and used in any process.

A cursor is a clock, together with the database and the streams it belongs to: the same clock would mean
something else elsewhere. Its text is a prefix with the version, and in base64 a checksum and the fields.
"""

from __future__ import annotations

from typing import Final

import msgspec

from motet.client.printable import printable, shown, unprintable
from motet.core.clock.hlc import Clock
from motet.errors import BadCursor
from motet.ids import StreamName

PREFIX = "motet1."

OLDEST: Final = "oldest"
"""Instead of a cursor: where all of the streams that are read have their feed."""


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
    return printable(PREFIX, _encode(cursor))


def parse_cursor(text: object) -> Cursor:
    """Read a cursor back; ``BadCursor`` when a single character of it is not as it was."""
    body = unprintable(PREFIX, text, "a cursor", BadCursor)
    try:
        cursor = _decode(body)
    except (ValueError, msgspec.MsgspecError, RecursionError):
        raise BadCursor(f"{shown(text)} is garbled") from None
    if cursor_text(cursor) != text:
        raise BadCursor(f"{shown(text)} is garbled")
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
