"""The ``Range`` header of HTTP: which bytes of a file somebody wants."""

from __future__ import annotations

import re

import msgspec

_ONE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


class ByteRange(msgspec.Struct, frozen=True):
    """From ``start`` up to, not including, ``end``."""

    start: int
    end: int


class NoSuchRange(Exception):
    """The range has nothing of the file in it."""


def parse_range(header: str | None, size_bytes: int) -> ByteRange | None:
    """The one range that is asked for, cut to the file; None when all of it is to be given.

    Anything but one range of bytes is ignored, as the standard allows. ``NoSuchRange`` when the range is
    beyond the file, or ends before it begins.
    """
    match = _ONE.fullmatch(header.replace(" ", "")) if header else None
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        start, end = max(0, size_bytes - int(last)), size_bytes
    else:
        start, end = int(first), min(size_bytes, int(last) + 1 if last else size_bytes)
    if start >= end:
        raise NoSuchRange
    return ByteRange(start, end)
