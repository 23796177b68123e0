"""Where the log ends, and how it is cut into segments.

The log is one sequence of journal records over files ``log-1``, ``log-2`` …, each made large before it is
used. A record does not cross from one segment into the next. ``position`` counts bytes over all segments
as if they were one file.
"""

from __future__ import annotations

import msgspec

from motet.core.streams.change import encode_body
from motet.core.streams.record import KINDS, LogRecord
from motet.format.journal import encode_record
from motet.ids import FileName


def segment_file(number: int) -> FileName:
    """The file of a segment, counted from 1."""
    return FileName(f"log-{number}")


class LogEnd(msgspec.Struct):
    """Where the next record goes."""

    #: the database's own number, which is also the salt of its records
    salt: int
    segment_bytes: int
    segment: int = 1
    offset: int = 0
    sequence: int = 0

    @property
    def position(self) -> int:
        return (self.segment - 1) * self.segment_bytes + self.offset

    def place(self, position: int) -> tuple[FileName, int]:
        """The file and the offset in it of a position in the whole log."""
        segment, offset = divmod(position, self.segment_bytes)
        return segment_file(segment + 1), offset

    def encode(self, record: LogRecord, durable_below: int) -> bytes:
        """The bytes of the next record."""
        kind = KINDS[type(record)]
        return encode_record(self.salt, self.sequence, kind, encode_body(record), durable_below)

    def needs_segment(self, size_bytes: int) -> bool:
        """Whether the next record needs a new file."""
        assert size_bytes <= self.segment_bytes
        return self.offset + size_bytes > self.segment_bytes

    def begin_segment(self) -> FileName:
        """Go on in the next file."""
        self.segment += 1
        self.offset = 0
        return segment_file(self.segment)

    def advance(self, size_bytes: int) -> None:
        """A record of this size was put at the end."""
        self.offset += size_bytes
        self.sequence += 1

    def go_back(self, position: int, sequence: int) -> None:
        """The record at this place, and all behind it, were not written."""
        segment, self.offset = divmod(position, self.segment_bytes)
        self.segment = segment + 1
        self.sequence = sequence
