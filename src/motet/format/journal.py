"""Reading a journal: which records are in a file, and what to make of the place where they stop.

A journal is a run of records with one salt and consecutive sequences, from a known offset on. Its file
may have been made large beforehand (zeros follow) or have served before (old records follow, of other
salts, or of this one with lower sequences). The run stops at the first place that does not hold the next
record. What is there decides, with everything after it, which of three endings it is:

clean    Nothing of this journal is there: the file ends, zeros follow to its end, or a whole header of
         an older record stands at the very place. And no header of this journal with the next sequence
         or a later one is anywhere after it. Write on from here.
torn     Something else is there, but nothing after it proves that the missing record ever was on disk.
         That is what a crash leaves of writes that were not synced. It is safe to cut here.
damaged  Cutting here would throw away what was promised, so nobody may do it unasked. Either a header of
         this journal after the place has a ``durable_below`` above the missing sequence: when it was
         written, the missing record was on disk, so that has rotted. Or the missing record itself
         stands at another place, which no crash brings about. Or it is of a version we do not know.

Whoever cuts a journal, here or for reasons of its own, wipes what is after the cut (truncate, then
preallocate again, both durable before anything new is written): whole records may be left there that would
fit after a new one some day, or seem to prove that something is missing.

A header alone is proof, whatever became of its body, since it was written after the sync it speaks of.
Searching for it costs one pass over the rest of the file, and memory for one chunk.

What cannot be told apart, because the bytes are the same:

- Rot in the records of the very last sync, and a write torn by a crash before that sync was done. With
  one record to a sync, that is the last record. It is called torn. The next sync ends the doubt.
- In a file that has served before: old bytes at the place where the journal ends, and a torn write. It
  is called torn, unless a whole old header happens to stand there.
"""

from __future__ import annotations

import enum

import msgspec

from motet.errors import BadRecord
from motet.format.record import (
    RECORD_ALIGNMENT_BYTES,
    RECORD_BODY_BYTES_MAX,
    RECORD_HEADER_BYTES,
    RECORD_VERSION,
    RecordHeader,
    encode_record,
    find_header,
    parse_body,
    parse_header,
)

__all__ = ["Ending", "JournalEnd", "JournalReader", "Record", "Scan", "encode_record", "scan"]

_ZEROS = bytes(1 << 16)


class Ending(enum.StrEnum):
    """What the place is where the records of a journal stop."""

    CLEAN = "clean"
    TORN = "torn"
    DAMAGED = "damaged"


class Record(msgspec.Struct, frozen=True, gc=False):
    """One good record, and where in the file it begins."""

    sequence: int
    kind: int
    body: bytes
    offset: int


class JournalEnd(msgspec.Struct, frozen=True):
    """Where and how the records of a journal stop."""

    ending: Ending
    #: where the last good record ends, and the next one goes
    end_offset: int
    #: what the next record will be called
    next_sequence: int
    #: a sentence for people
    what: str

    def refuse_damage(self) -> None:
        """``BadRecord`` when the journal is damaged: it must never be cut without somebody knowing."""
        if self.ending is Ending.DAMAGED:
            raise BadRecord(self.what)


class Scan(JournalEnd, frozen=True):
    """All of a journal: its good records, and how they stop."""

    records: tuple[Record, ...]


def scan(data: bytes, salt: int, first_sequence: int = 0, offset: int = 0) -> Scan:
    """Read a journal that is in memory, from ``offset`` on; ``JournalReader`` does it in pieces."""
    reader = JournalReader(salt, first_sequence, offset)
    records = tuple(reader.feed(data[offset:]))
    end = reader.finish()
    return Scan(end.ending, end.end_offset, end.next_sequence, end.what, records)


class JournalReader:
    """Reads one journal from its file, chunk by chunk, up to the end of the file.

    It keeps at most one record and a chunk. Give it the whole file: the endings differ by what is after
    the last good record.
    """

    __slots__ = ("_offset", "_salt", "_search", "_sequence", "_tail", "_tail_wanted_bytes")

    def __init__(self, salt: int, first_sequence: int = 0, offset: int = 0) -> None:
        assert offset % RECORD_ALIGNMENT_BYTES == 0, "records are aligned"
        self._salt = salt
        #: the sequence of the next record
        self._sequence = first_sequence
        #: where in the file the next record begins, and with it the tail
        self._offset = offset
        self._tail = bytearray()
        #: with fewer than this in the tail there is no record in it, and no need to look again
        self._tail_wanted_bytes = 0
        #: once the records have stopped: looks through the rest
        self._search: _Search | None = None

    def feed(self, data: bytes) -> list[Record]:
        """The records that the next bytes of the file complete; never an error, see ``finish``."""
        if self._search is not None:
            self._search.feed(data)
            return []
        if self._tail:
            self._tail += data
            if len(self._tail) < self._tail_wanted_bytes:
                return []
            data = bytes(self._tail)
        records, used, stop = self._cut(data)
        rest = data[used:]
        if stop is not None:
            self._search = _Search(self._salt, self._sequence, self._offset, stop)
            self._search.feed(rest)
            rest = b""
        self._tail = bytearray(rest)
        return records

    def finish(self) -> JournalEnd:
        """The file has ended: what is the place where the records stop?"""
        if self._search is None:
            self._search = _Search(self._salt, self._sequence, self._offset, _Stop.FILE_ENDS)
            self._search.feed(bytes(self._tail))
        ending, what = self._search.verdict()
        return JournalEnd(ending, self._offset, self._sequence, what)

    def _cut(self, data: bytes) -> tuple[list[Record], int, _Stop | None]:
        """The good records at the start of ``data``, where they end, and why unless for lack of data."""
        records: list[Record] = []
        position, end = 0, len(data)
        self._tail_wanted_bytes = 0
        while position + RECORD_HEADER_BYTES <= end:
            header = parse_header(data, position)
            if header is None:
                return records, position, _Stop.NO_HEADER
            if (stop := self._misfit(header)) is not None:
                return records, position, stop
            record_bytes = header.record_bytes
            if position + record_bytes > end:
                self._tail_wanted_bytes = record_bytes
                break
            body = parse_body(data, position, header)
            if body is None:
                return records, position, _Stop.BAD_BODY
            records.append(Record(header.sequence, header.kind, body, self._offset))
            position += record_bytes
            self._offset += record_bytes
            self._sequence += 1
        return records, position, None

    def _misfit(self, header: RecordHeader) -> _Stop | None:
        """Why a good header is not that of the next record."""
        if header.salt != self._salt or header.sequence < self._sequence:
            return _Stop.OLDER
        if header.sequence > self._sequence:
            return _Stop.LATER
        if header.version != RECORD_VERSION:
            return _Stop.UNKNOWN_VERSION
        if header.body_bytes > RECORD_BODY_BYTES_MAX:
            return _Stop.TOO_LONG
        return None


class _Stop(enum.Enum):
    """Why the records stop at a place; the values end the sentence "record 7 at byte 840 …"."""

    FILE_ENDS = "is cut off by the end of the file"
    NO_HEADER = "has no readable header"
    BAD_BODY = "has a damaged body"
    OLDER = "is not there, an older one is"
    LATER = "is not there, a later one is"
    TOO_LONG = "is longer than any record may be"
    UNKNOWN_VERSION = "is of a version only a newer program knows"


class _Search:
    """Looks through everything from the place on where the records of a journal stop."""

    def __init__(self, salt: int, sequence: int, offset: int, stop: _Stop) -> None:
        self._salt = salt
        #: of the missing record
        self._sequence = sequence
        self._offset = offset
        self._stop = stop
        #: what may be the start of a header whose rest is yet to come, and where in the file it is
        self._kept = b""
        self._data_offset = offset
        #: there are only zeros so far
        self._zeros = True
        #: there is a header of the missing record or a later one
        self._leftover = False
        #: why the missing record must have been on disk, ends the sentence "record 7 …, but …"
        self._proof = ""

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the file."""
        self._zeros = self._zeros and _all_zeros(data)
        data = self._kept + data
        position = 0
        while (found := find_header(data, position, self._data_offset)) is not None:
            position, header = found
            self._weigh(header, self._data_offset + position)
            position += RECORD_ALIGNMENT_BYTES
        self._kept = data[-(RECORD_HEADER_BYTES - 1) :]
        self._data_offset += len(data) - len(self._kept)

    def verdict(self) -> tuple[Ending, str]:
        """Which ending it is now that the file has ended, and a sentence that says so."""
        record = f"record {self._sequence} at byte {self._offset}"
        what = f"{record} {self._stop.value}"
        if self._stop is _Stop.UNKNOWN_VERSION:
            return Ending.DAMAGED, what
        if self._proof:
            return Ending.DAMAGED, f"{what}, but {self._proof}"
        if not self._leftover and (self._zeros or self._stop is _Stop.OLDER):
            return Ending.CLEAN, f"{record} is yet to be written"
        return Ending.TORN, f"{what}, and nothing after it proves that it ever was on disk"

    def _weigh(self, header: RecordHeader, offset: int) -> None:
        if header.salt != self._salt or header.sequence < self._sequence:
            return
        self._leftover = True
        if self._proof:
            return
        if header.durable_below > self._sequence:
            self._proof = (
                f"record {header.sequence} at byte {offset} was written after it was on disk"
            )
        elif header.sequence == self._sequence and offset != self._offset:
            self._proof = f"it stands at byte {offset}"


def _all_zeros(data: bytes) -> bool:
    whole = len(data) - len(data) % len(_ZEROS)
    return data.endswith(_ZEROS[: len(data) - whole]) and all(
        data.startswith(_ZEROS, position) for position in range(0, whole, len(_ZEROS))
    )
