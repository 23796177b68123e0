"""Entries of a shard's log, their ids, and the records of a segment that they are.

An entry is what a leader appends in one piece. What it says is for the shard's state machine; the log only
knows *barriers*, which a leader writes after each change of epoch so that there is something of the new
epoch to commit.

Which entry stands at which offset is kept as runs of one epoch each: ten million entries of a dozen epochs
are a dozen runs. R1: epochs rise along the log, so two logs that have the same entry at an offset have the
same entries before it.

As a record of the journal an entry's sequence is its offset, and its kind the record's. The body of the
record is the entry's epoch and clock, 8 bytes each, and then the entry's own body.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from enum import IntEnum

import msgspec

from motet.core.clock.hlc import Clock
from motet.errors import BadRecord
from motet.format.record import RECORD_HEADER_BYTES, encode_record, parse_body, parse_header
from motet.ids import Epoch, Offset


class EntryId(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """An entry's place: compared by epoch first, then by offset. Offsets of a log have no gap."""

    epoch: Epoch
    #: from 1
    offset: Offset

    @property
    def is_none(self) -> bool:
        """It is the head of a log without an entry."""
        return self == NO_ENTRY

    def __str__(self) -> str:
        return f"({self.epoch},{self.offset})"


NO_ENTRY = EntryId(Epoch(0), Offset(0))
"""The head index of an empty log: below every entry."""


class EntryKind(IntEnum):
    """What an entry is; never given away twice. From 16 on they belong to the state machine."""

    BARRIER = 1
    RECORDS = 16
    #: of transactions: see :mod:`motet.core.streams.entries`
    BRANCH_COMMITTED = 17
    PREPARED = 18
    ABORTED = 19
    FORGOTTEN = 20
    #: says nothing: its clock closes an idle shard
    CLOSED = 21
    #: see :mod:`motet.core.streams.orders`
    ORDERED = 22
    #: see :mod:`motet.core.streams.entries`
    BATCH = 23
    #: see :mod:`motet.core.streams.compaction`
    COMPACTED = 24
    # Of a database in one log (``core.onelog``)
    STREAM_CREATED = 32
    COMMITTED = 33
    #: of tables in the log, by development versions before tables moved into the keeper: refused
    TABLE_CREATED = 34
    PUBLISHED = 35
    WRITER_NOTED = 36
    FEED_ORDERED = 37
    CLOCK_TURNED = 40
    CHANGES_COMPACTED = 41


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One entry as it is logged and as it travels."""

    id: EntryId
    kind: int
    #: the leader's cluster clock; rises along the log
    clock: Clock
    body: bytes


class EpochRuns(msgspec.Struct):
    """The ids of the entries from ``base``, the last one that is no longer kept, to ``head``."""

    base: EntryId = NO_ENTRY
    head: EntryId = NO_ENTRY
    #: epochs[i] begins at firsts[i]; the first run is the base's own
    epochs: list[Epoch] = msgspec.field(default_factory=lambda: [Epoch(0)])
    firsts: list[Offset] = msgspec.field(default_factory=lambda: [Offset(0)])

    @staticmethod
    def after(base: EntryId) -> EpochRuns:
        """A log that is empty after this entry."""
        return EpochRuns(base, base, [base.epoch], [base.offset])

    def id_at(self, offset: Offset) -> EntryId:
        """The entry at an offset between the base and the head."""
        if offset == self.head.offset:
            return self.head
        assert self.base.offset <= offset < self.head.offset, f"no entry {offset}"
        return EntryId(self.epochs[bisect_right(self.firsts, offset) - 1], offset)

    def has(self, entry: EntryId) -> bool:
        """Whether this very entry is in the log, or is its base."""
        if not self.base.offset <= entry.offset <= self.head.offset:
            return False
        return self.id_at(entry.offset) == entry

    def highest_of(self, epoch: Epoch) -> EntryId | None:
        """The highest entry of this epoch or an earlier one; None when that is no longer known."""
        run = bisect_right(self.epochs, epoch) - 1
        if run < 0:
            return None
        if run + 1 == len(self.epochs):
            return self.head
        return EntryId(self.epochs[run], Offset(self.firsts[run + 1] - 1))

    def add(self, entry: EntryId) -> None:
        """The next entry."""
        head = self.head
        assert entry.offset == head.offset + 1, "no gap"
        assert entry.epoch >= head.epoch, "R1"
        if entry.epoch != head.epoch:
            self.epochs.append(entry.epoch)
            self.firsts.append(entry.offset)
        self.head = entry

    def cut(self, keep: Offset) -> None:
        """Forget what is above this offset."""
        self.head = self.id_at(keep)
        while self.firsts[-1] > keep:
            self.epochs.pop()
            self.firsts.pop()

    def trim(self, base: Offset) -> None:
        """Forget what is below this offset, which becomes the base."""
        self.base = self.id_at(base)
        gone = bisect_right(self.firsts, base) - 1
        del self.epochs[:gone], self.firsts[:gone]
        self.firsts[0] = base


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
