"""Finding out about one's own past: the identity, the bound of the clock, and the log, segment by segment.

::

    identifying ──▶ founding ──────────────────────▶ serving     a new database
        │
        └─────▶ reading ──▶ cutting ──▶ serving                  an old one; a torn tail is cut off first
        └──────────┴──────▶ broken                               damage: nothing is served from it

A torn tail may lie in one segment while records written with it, and lost as well, lie in the next. What
stands behind the tail is removed before anything is added, unless a later record proves that what is
missing had been durable: then the log is damaged, and stays as it is.
"""

from __future__ import annotations

import msgspec

from motet.core.clock.bound_file import decode_bound
from motet.core.clock.hlc import Clock
from motet.core.streams.index import Index
from motet.core.streams.log import LogEnd
from motet.core.streams.record import decode_record
from motet.errors import BadRecord
from motet.format.journal import Ending, Record, scan
from motet.format.record import encode_record
from motet.ids import FileName

IDENTITY_FILE = FileName("identity")
BOUND_FILE = FileName("clock-bound")
IDENTITY_KIND = 1
IDENTITY_SALT = 0x6D6F7465745F6462


class Recovery(msgspec.Struct):
    """What has been found so far."""

    bound: Clock | None
    #: the segment that is being read
    segment: int = 1
    #: the tail was torn: what comes behind is looked at for proof, and then removed
    is_torn: bool = False


def encode_identity(database: int) -> bytes:
    """The file that says which database this is."""
    return encode_record(IDENTITY_SALT, 0, IDENTITY_KIND, database.to_bytes(8, "big"))


def decode_identity(data: bytes) -> int:
    """The database's number; ``BadRecord`` when the file is damaged."""
    found = scan(data, IDENTITY_SALT)
    if len(found.records) != 1 or len(found.records[0].body) != 8:
        raise BadRecord(f"{IDENTITY_FILE} is damaged")
    return int.from_bytes(found.records[0].body, "big")


def decode_clock_bound(data: bytes) -> Clock | None:
    """The bound of the clock; None when there is no file."""
    return decode_bound(data) if data else None


def take_segment(recovery: Recovery, index: Index, end: LogEnd, data: bytes) -> None:
    """Take in the next segment; ``BadRecord`` when the log is damaged."""
    found = scan(data, end.salt, end.sequence)
    if found.ending is Ending.DAMAGED:
        raise BadRecord(f"log-{recovery.segment} is damaged: {found.what}")
    if recovery.is_torn and found.records:
        raise BadRecord(f"log-{recovery.segment} goes on behind a gap")
    if found.records:
        end.segment = recovery.segment
    for record in found.records:
        size_bytes = _size_of(record, found.end_offset, found.records)
        end.offset = record.offset
        found_record = decode_record(record)
        objection = index.objection(found_record)
        if objection is not None:
            raise BadRecord(f"record {record.sequence} does not fit the log: {objection}")
        index.add(found_record, end.position, size_bytes)
        end.advance(size_bytes)
    if found.ending is Ending.TORN:
        recovery.is_torn = True
    recovery.segment += 1


def _size_of(record: Record, end_offset: int, records: tuple[Record, ...]) -> int:
    following = record.sequence - records[0].sequence + 1
    next_offset = records[following].offset if following < len(records) else end_offset
    return next_offset - record.offset
