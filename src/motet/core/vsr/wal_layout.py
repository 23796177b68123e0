"""The log on disk: where each operation lies, and what a place can say about what was written there.

The file ``wal`` is two rings, one behind the other. Operation ``op`` has place ``op % slots`` in both::

    ┌─ headers ──────────────┬─ prepares ─────────────────────────────────┐
    │ slot 0 │ slot 1 │ …    │ slot 0           │ slot 1           │ …    │
    └────────────────────────┴────────────────────────────────────────────┘

A prepare is written and made durable, and then it is acknowledged. Its header is written a second time,
into the ring of headers, only after that, and becomes durable some time later. So a header in its ring
says that its prepare *was* durable, and a prepare without one says nothing: it may be the newest.

A prepare is written as sectors that vouch for themselves (``sectors``), its generation taken from its
header's checksum. Reading one gives

VALID     the header, and the body that belongs to it
RESERVED  what a formatted place holds: no operation has come here yet
TORN      a write that did not finish; nothing was promised of it
CORRUPT   damage, or bytes that cannot be read: what was here may have been promised
"""

from __future__ import annotations

import enum

import msgspec

from motet.core.vsr.config import VsrConfig
from motet.core.vsr.header import (
    RESERVED,
    Header,
    checksum,
    decode_header,
    encode_header,
    header_bytes,
    reserved_header,
    root_header,
)
from motet.core.vsr.sectors import (
    Sector,
    check_sector,
    generation_bytes,
    seal,
    sector_bytes,
    sector_count,
    sector_data_bytes,
)
from motet.ids import ClusterId, Op

page_bytes = 4096
"""What all large parts of the file are aligned to."""


class WalLayout(msgspec.Struct, frozen=True):
    """Where things are in the file ``wal``."""

    slots: int
    #: room for one prepare with the largest body
    slot_bytes: int
    #: the ring of prepares begins here
    prepares_offset: int

    @classmethod
    def of(cls, config: VsrConfig) -> WalLayout:
        return cls(
            slots=config.slots,
            slot_bytes=_whole_pages(prepare_bytes(config.body_bytes_max)),
            prepares_offset=_whole_pages(config.slots * header_bytes),
        )

    @property
    def size_bytes(self) -> int:
        return self.prepares_offset + self.slots * self.slot_bytes

    @property
    def headers_bytes(self) -> int:
        """How much of the file's beginning is the ring of headers, without what fills its last page."""
        return self.slots * header_bytes

    def slot_of(self, op: Op) -> int:
        return op % self.slots

    def header_offset(self, slot: int) -> int:
        assert 0 <= slot < self.slots
        return slot * header_bytes

    def prepare_offset(self, slot: int) -> int:
        assert 0 <= slot < self.slots
        return self.prepares_offset + slot * self.slot_bytes


class SlotKind(enum.StrEnum):
    """What a place in the ring of prepares holds."""

    VALID = "valid"
    RESERVED = "reserved"
    TORN = "torn"
    CORRUPT = "corrupt"


class SlotRead(msgspec.Struct, frozen=True):
    """What was read from one place."""

    kind: SlotKind
    #: of a prepare that is whole
    header: Header | None = None
    body: bytes = b""
    #: of a prepare that is not: which op its first sector says it is
    claimed_op: Op | None = None


def prepare_bytes(body_bytes: int) -> int:
    """What a prepare with so large a body takes on disk."""
    return sector_count(header_bytes + body_bytes) * sector_bytes


def encode_prepare(header: Header, body: bytes) -> bytes:
    """A prepare as it is written: its own sectors, not the whole slot."""
    assert header.body_bytes == len(body)
    return seal(encode_header(header) + body, _generation(header))


def read_prepare(data: bytes, start: int = 0, end: int | None = None) -> SlotRead:
    """What these bytes of a slot hold; they may be more than the prepare, and less is damage."""
    first = check_sector(data, 0, start)
    if first is None:
        return SlotRead(SlotKind.CORRUPT)
    if first.generation is None:
        return SlotRead(SlotKind.TORN)  # whatever came here, its beginning did not
    header = decode_header(first.data[:header_bytes])
    if header is None or header.body_bytes < 0 or first.generation != _generation(header):
        return SlotRead(SlotKind.CORRUPT)
    return _read_extent(data, start, len(data) if end is None else end, header, first)


def _read_extent(data: bytes, start: int, end: int, header: Header, first: Sector) -> SlotRead:
    count = sector_count(header_bytes + header.body_bytes)
    if start + count * sector_bytes > min(end, len(data)):
        return SlotRead(SlotKind.CORRUPT, claimed_op=header.op)
    pieces = [first.data]
    is_torn = False
    for number in range(1, count):
        sector = check_sector(data, number, start)
        if sector is None:
            return SlotRead(SlotKind.CORRUPT, claimed_op=header.op)
        is_torn = is_torn or sector.generation != first.generation
        pieces.append(sector.data)
    if is_torn:
        return SlotRead(SlotKind.TORN, claimed_op=header.op)
    body = b"".join(pieces)[header_bytes : header_bytes + header.body_bytes]
    if checksum(body) != header.body_checksum:
        return SlotRead(SlotKind.CORRUPT, claimed_op=header.op)
    kind = SlotKind.RESERVED if header.operation == RESERVED else SlotKind.VALID
    return SlotRead(kind, header, body)


def format_wal(cluster: ClusterId, layout: WalLayout) -> list[tuple[int, bytes]]:
    """The writes that make a new log, offset and bytes: the root in slot 0, and all else reserved.

    The last one only gives the file its size; what lies between the prepares was never written, and
    reads as zeros.
    """
    headers = [root_header(cluster)]
    headers += [reserved_header(cluster, slot) for slot in range(1, layout.slots)]
    writes = [(0, b"".join(encode_header(header) for header in headers))]
    for slot, header in enumerate(headers):
        writes.append((layout.prepare_offset(slot), encode_prepare(header, b"")))
    writes.append((layout.size_bytes - sector_bytes, bytes(sector_bytes)))
    return writes


def _generation(header: Header) -> bytes:
    return header.checksum[:generation_bytes]


def _whole_pages(size_bytes: int) -> int:
    return -(-size_bytes // page_bytes) * page_bytes


assert header_bytes <= sector_data_bytes, "a prepare's first sector says what the prepare is"
