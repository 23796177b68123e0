"""Journal records: the unit in which a journal grows, and how one is told from any other bytes.

A record is a header of 40 bytes, a body, and zeros up to the next multiple of 8. Both checksums together
cover every byte of it: the header's the header, the body's the body with its zeros. How records follow
each other, and what to make of the place where they stop, is :mod:`motet.format.journal`.

In every version there will ever be, the header has these fields in these places, so that an old program
recognises what a newer one wrote and keeps its hands off.
"""

from __future__ import annotations

import struct

import msgspec

from motet.errors import BadRecord
from motet.format.checksum import crc32c, crc32c_more
from motet.limits import record_bytes_max

RECORD_MAGIC = b"mj"
RECORD_VERSION = 1
RECORD_ALIGNMENT_BYTES = 8

RECORD_LAYOUT = (
    ("magic", "2s"),
    ("version", "B"),
    ("kind", "B"),
    ("body_bytes", "I"),
    ("salt", "Q"),
    ("sequence", "Q"),
    ("durable_below", "Q"),
    ("body_crc", "I"),
    ("header_crc", "I"),
)
"""The header's fields in their order, little-endian, each with its code in :mod:`struct`."""

RECORD_HEADER = struct.Struct("<" + "".join(code for _, code in RECORD_LAYOUT))
RECORD_HEADER_BYTES = RECORD_HEADER.size
RECORD_BODY_BYTES_MAX = record_bytes_max - RECORD_HEADER_BYTES

_checked = struct.Struct("<" + "".join(code for _, code in RECORD_LAYOUT[:-1]))
_unpack_header = RECORD_HEADER.unpack_from
_pack_checked = _checked.pack
_pack_crc = struct.Struct("<I").pack
_CHECKED_BYTES = _checked.size
_PADDING = tuple(bytes(size) for size in range(RECORD_ALIGNMENT_BYTES))

assert RECORD_HEADER_BYTES == 40
assert _CHECKED_BYTES == RECORD_HEADER_BYTES - 4, "the header's checksum is its last field"
assert RECORD_HEADER_BYTES % RECORD_ALIGNMENT_BYTES == 0
assert record_bytes_max % RECORD_ALIGNMENT_BYTES == 0, "the longest record needs no zeros"


class RecordHeader(msgspec.Struct, frozen=True, gc=False):
    """A header whose checksum is right: somebody wrote exactly this, if perhaps long ago."""

    version: int
    kind: int
    body_bytes: int
    #: the journal's own random number, so that what another journal left in a reused file is not ours
    salt: int
    #: consecutive within a journal
    sequence: int
    #: every record with a lower sequence was on disk when this one was written
    durable_below: int
    body_crc: int

    @property
    def record_bytes(self) -> int:
        """The whole record: header, body and zeros."""
        return RECORD_HEADER_BYTES + self.body_bytes + -self.body_bytes % RECORD_ALIGNMENT_BYTES


def encode_record(
    salt: int,
    sequence: int,
    kind: int,
    body: bytes,
    durable_below: int | None = None,
    prefix: bytes = b"",
) -> bytes:
    """The bytes of one record. ``BadRecord`` when the body is too long or a number does not fit.

    ``durable_below`` tells rot from a torn write later. Whoever writes several records before a sync
    must say how far the journal was known to be on disk; None says that all records before this one
    were. ``prefix`` is the start of the body: apart, so that a long rest is copied only once.
    """
    if durable_below is None:
        durable_below = sequence
    assert durable_below <= sequence, "a record cannot be on disk before it is written"
    body_bytes = len(prefix) + len(body)
    if body_bytes > RECORD_BODY_BYTES_MAX:
        what = f"a body of {body_bytes} bytes makes a record that exceeds the limit of {record_bytes_max}"
        raise BadRecord(what, hint="write it in smaller pieces")
    padding = _PADDING[-body_bytes % RECORD_ALIGNMENT_BYTES]
    body_crc = crc32c(body) if not prefix else crc32c_more(crc32c(prefix), body)
    if padding:
        body_crc = crc32c_more(body_crc, padding)
    try:
        checked = _pack_checked(
            RECORD_MAGIC, RECORD_VERSION, kind, body_bytes, salt, sequence, durable_below, body_crc
        )
    except struct.error:
        raise BadRecord(
            f"a number does not fit into a record: {kind=}, {salt=}, {sequence=}, {durable_below=}",
            hint="a kind has 8 bits, the others have 64, all unsigned",
        ) from None
    return b"".join((checked, _pack_crc(crc32c(checked)), prefix, body, padding))


def parse_header(data: bytes, position: int) -> RecordHeader | None:
    """The header at this place, or None when these bytes are not one."""
    if position + RECORD_HEADER_BYTES > len(data):
        return None
    magic, version, kind, body_bytes, salt, sequence, durable_below, body_crc, header_crc = (
        _unpack_header(data, position)
    )
    if magic != RECORD_MAGIC or header_crc != crc32c(data[position : position + _CHECKED_BYTES]):
        return None
    return RecordHeader(version, kind, body_bytes, salt, sequence, durable_below, body_crc)


def parse_body(data: bytes, position: int, header: RecordHeader) -> bytes | None:
    """The body after the header at this place, or None when these bytes are not it."""
    end = position + header.record_bytes
    padded = data[position + RECORD_HEADER_BYTES : end]
    if end > len(data) or crc32c(padded) != header.body_crc:
        return None
    return padded[: header.body_bytes]


def find_header(data: bytes, position: int, offset: int = 0) -> tuple[int, RecordHeader] | None:
    """The first header at or after this place, where ``data`` begins at ``offset`` in its file.

    Looks at aligned places alone, and there at the magic first: a pass over any bytes whatever costs
    time linear in their length.
    """
    while (position := data.find(RECORD_MAGIC, position)) >= 0:
        misaligned_bytes = (offset + position) % RECORD_ALIGNMENT_BYTES
        if misaligned_bytes == 0 and (header := parse_header(data, position)) is not None:
            return position, header
        position += RECORD_ALIGNMENT_BYTES - misaligned_bytes
    return None
