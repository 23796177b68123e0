"""Bookmarks: what a client has seen and done, as a text that another process can go on behind.

A bookmark is the highest clock that its client has seen, with the database it belongs to. Who connects
*after* it

- reads what its client has written (read your writes), and nothing older than what it has read (monotonic
  reads): by key and by shard at once, in the feed when everything up to the bookmark is visible, which is
  waited for;
- writes at higher clocks than what that client has read (writes follow reads) and written (monotonic writes).
"""

from __future__ import annotations

import msgspec

from motet.client.printable import printable, shown, unprintable
from motet.core.clock.hlc import Clock
from motet.errors import BadBookmark

PREFIX = "motet-b1."


class Bookmark(msgspec.Struct, frozen=True, array_like=True):
    """Everything up to this clock may have been seen."""

    database: int
    clock: Clock


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Bookmark).decode


def bookmark_text(bookmark: Bookmark) -> str:
    """A bookmark as text of letters, digits, dots, dashes and underscores."""
    return printable(PREFIX, _encode(bookmark))


def parse_bookmark(text: object) -> Bookmark:
    """Read a bookmark back; ``BadBookmark`` when a single character of it is not as it was."""
    body = unprintable(PREFIX, text, "a bookmark", BadBookmark)
    try:
        bookmark = _decode(body)
    except (ValueError, msgspec.MsgspecError, RecursionError):
        raise BadBookmark(f"{shown(text)} is garbled") from None
    if bookmark_text(bookmark) != text:
        raise BadBookmark(f"{shown(text)} is garbled")
    return bookmark


def clock_of(text: object, *, database: int, name: str) -> Clock:
    """The clock of a bookmark of this database; ``BadBookmark`` if it is of another."""
    bookmark = parse_bookmark(text)
    if bookmark.database != database:
        raise BadBookmark(f"the bookmark is of another database, not of {name}")
    return bookmark.clock
