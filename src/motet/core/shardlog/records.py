"""Entries as the journal records of a segment: sequence is the offset, the kind is the entry's kind.

The body of a record is the entry's epoch and clock, 8 bytes each, and then the entry's own body.
"""

from __future__ import annotations

import struct

from motet.core.clock.hlc import Clock
from motet.core.shardlog.entry import Entry, EntryId
from motet.errors import BadRecord
from motet.format.record import RECORD_HEADER_BYTES, encode_record, parse_body, parse_header
from motet.ids import Epoch, Offset

_PREFIX = struct.Struct(">QQ")
_pack = _PREFIX.pack
_unpack = _PREFIX.unpack_from
PREFIX_BYTES = _PREFIX.size


def encode_entry(salt: int, entry: Entry, durable_below: Offset) -> bytes:
    """The record of an entry; every entry below ``durable_below`` is known to be on disk."""
    prefix = _pack(entry.id.epoch, entry.clock.to_int())
    return encode_record(salt, entry.id.offset, entry.kind, entry.body, durable_below, prefix)


def decode_entry(offset: int, kind: int, body: bytes) -> Entry:
    """The entry in a record; ``BadRecord`` when it is none."""
    if len(body) < PREFIX_BYTES:
        raise BadRecord(f"record {offset} is too short for an entry")
    epoch, clock = _unpack(body)
    entry = EntryId(Epoch(epoch), Offset(offset))
    return Entry(entry, kind, Clock.from_int(clock), body[PREFIX_BYTES:])


def entry_bytes(entry: Entry) -> int:
    """About what an entry takes in memory, in a message and on disk."""
    return RECORD_HEADER_BYTES + PREFIX_BYTES + len(entry.body)


def read_record(data: bytes, position: int, salt: int, offset: Offset) -> tuple[Entry | None, int]:
    """The entry of this offset at a position, and how long its record is.

    None and the length that is needed when the record is not there as a whole; ``BadRecord`` when something
    else stands there.
    """
    if position + RECORD_HEADER_BYTES > len(data):
        return None, RECORD_HEADER_BYTES
    header = parse_header(data, position)
    if header is None or header.salt != salt or header.sequence != offset:
        raise BadRecord(f"entry {offset} is not where it was written")
    size_bytes = header.record_bytes
    if position + size_bytes > len(data):
        return None, size_bytes
    body = parse_body(data, position, header)
    if body is None:
        raise BadRecord(f"entry {offset} is damaged")
    return decode_entry(offset, header.kind, body), size_bytes
