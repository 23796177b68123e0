"""Sectors that vouch for themselves, so that a write that was cut short is not taken for rot.

A disk writes a sector whole or not at all, and after a power cut any of the sectors of a write may be
missing. That is no damage: what was cut short had been promised to nobody. A sector that has rotted
is damage, for it may have been promised. A checksum over the whole write cannot tell one from the other;
here every sector carries what is needed to tell::

    ┌───────────────────────────┬────────────────────┬──────────────┐
    │ data, 496 bytes           │ generation, 12     │ crc32c, 4    │
    └───────────────────────────┴────────────────────┴──────────────┘

The *generation* is the same in all sectors of one write, and different in the next. The crc covers the
data and the generation, and the sector's number within its place is added to it bit by bit (xor): a
sector that landed in the wrong row is invalid. A sector of zeros was never written; it is *blank*, and
valid.

S1 sectors that are valid, but not all of one generation, are a write that did not finish.
S2 a sector that is not valid has rotted.
"""

from __future__ import annotations

import struct
from functools import cache
from operator import xor

import msgspec

from motet.format.checksum import crc32c

sector_bytes = 512
sector_data_bytes = 496
generation_bytes = 12
_covered_bytes = sector_data_bytes + generation_bytes

_BLANK = bytes(sector_bytes)
_pack_crc = struct.Struct("<I").pack
_cut = struct.Struct(f"{sector_data_bytes}s").iter_unpack


class Sector(msgspec.Struct, frozen=True, gc=False):
    """What one valid sector holds."""

    #: None in a sector that was never written
    generation: bytes | None
    data: bytes


BLANK_SECTOR = Sector(None, bytes(sector_data_bytes))


def sector_count(payload_bytes: int) -> int:
    """How many sectors a payload takes."""
    return -(-payload_bytes // sector_data_bytes)


def seal(payload: bytes, generation: bytes) -> bytes:
    """The payload in whole sectors of this generation, the last filled up with zeros."""
    assert payload, "an empty payload has no sectors, and could not be told from nothing"
    assert len(generation) == generation_bytes
    count = sector_count(len(payload))
    payload = payload.ljust(count * sector_data_bytes, b"\0")
    # One pass of C for each column, and one to put them side by side: this runs for every prepare.
    covered = [data + generation for (data,) in _cut(payload)]
    columns: list[bytes | int] = [b""] * (2 * count)
    columns[0::2] = covered
    columns[1::2] = map(xor, map(crc32c, covered), range(count))
    return _rows(count).pack(*columns)


@cache
def _rows(count: int) -> struct.Struct:
    """So many sectors behind each other; there are no more of these than a slot has sectors."""
    return struct.Struct("<" + f"{_covered_bytes}sI" * count)


def check_sector(data: bytes, number: int, start: int = 0) -> Sector | None:
    """Sector ``number`` of what begins at ``start``; None if it is not valid, or not there."""
    start += number * sector_bytes
    raw = data[start : start + sector_bytes]
    if len(raw) != sector_bytes:
        return None
    if raw == _BLANK:
        return BLANK_SECTOR
    covered = raw[:-4]
    if raw[-4:] != _pack_crc(crc32c(covered) ^ number):
        return None
    return Sector(covered[sector_data_bytes:], covered[:sector_data_bytes])
