"""A log as it is known in memory: its ids as runs, its newest entries, and where on disk the others are.

The entries of a log lie in *segments*, files that are written from their beginning to their end. Of old
entries nothing is kept in memory but a mark every so many bytes of a segment, by which their place is
found. Cutting a log never touches a file: the segment is closed at the cut, what is after that is ignored,
and the log goes on in a new one. Which segments make up the log, and where they end, is in the replica's
meta file (``meta``).

G1  Segments follow each other without a gap, from the entry after the base to the head.
G2  The tail ends at the head, and has every entry that is not durable.
G3  base <= durable <= head.
"""

from __future__ import annotations

from bisect import bisect_right

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import Violation
from motet.core.shardlog.entry import Entry, EntryId, EpochRuns, entry_bytes
from motet.ids import Offset, WriteId


class Segment(msgspec.Struct):
    """One file of a log."""

    #: never used twice by a replica
    number: int
    #: of its records: drawn anew in every life of the node, so that nothing older is mistaken for ours
    salt: int
    first: Offset
    #: the last entry, once the segment is closed
    end: Offset | None = None
    #: how far it is written; of one that was closed in an earlier life, as the meta file says
    size_bytes: int = 0
    #: of its newest entry
    clock: Clock = ZERO
    #: the first version of the meta file that names it
    meta_version: int = 0
    allocated_bytes: int = 0
    #: entry marks[i] begins at byte places[i]; more are found when it is read
    marks: list[Offset] = msgspec.field(default_factory=list)
    places: list[int] = msgspec.field(default_factory=list)

    def mark(self, offset: Offset, place: int, step_bytes: int) -> None:
        """An entry begins here: remember it if the last mark is far enough back."""
        if not self.places:
            self.marks.append(self.first)
            self.places.append(0)
        if place - self.places[-1] >= step_bytes and offset > self.marks[-1]:
            self.marks.append(offset)
            self.places.append(place)

    def nearest(self, offset: Offset) -> tuple[Offset, int]:
        """The last known entry at or before this one, and where it begins."""
        if not self.marks:
            return self.first, 0
        at = bisect_right(self.marks, offset) - 1
        return self.marks[at], self.places[at]

    def cut(self, keep: Offset) -> None:
        """Close it with this entry."""
        self.end = keep
        kept = bisect_right(self.marks, keep)
        del self.marks[kept:], self.places[kept:]


class PendingWrite(msgspec.Struct):
    """Entries on their way to the disk, in one write."""

    write: WriteId
    segment: int
    place: int
    #: kept in case it has to be tried again
    data: bytes
    #: the last entry in it
    last: Offset
    is_durable: bool = False
    has_failed: bool = False


class Log(msgspec.Struct):
    """All that is known of one log."""

    runs: EpochRuns = msgspec.field(default_factory=EpochRuns)
    #: oldest first
    segments: list[Segment] = msgspec.field(default_factory=list)
    #: everything up to here is on disk
    durable: Offset = Offset(0)
    #: the highest of any entry that is, or was, in it
    clock: Clock = ZERO
    #: newest entries, up to the head
    tail: list[Entry] = msgspec.field(default_factory=list)
    tail_bytes: int = 0
    #: oldest first: what is being written
    pending: list[PendingWrite] = msgspec.field(default_factory=list)

    @staticmethod
    def after(base: EntryId, clock: Clock = ZERO) -> Log:
        """A log that is empty after this entry."""
        return Log(EpochRuns.after(base), durable=base.offset, clock=clock)

    @property
    def head(self) -> EntryId:
        return self.runs.head

    @property
    def base(self) -> EntryId:
        """The last entry that is no longer kept."""
        return self.runs.base

    @property
    def first(self) -> Offset:
        """The first entry that is kept, if there is one."""
        return Offset(self.runs.base.offset + 1)

    @property
    def tail_first(self) -> Offset:
        """The first entry in memory."""
        return Offset(self.runs.head.offset - len(self.tail) + 1)

    @property
    def is_empty(self) -> bool:
        """There is no entry, and never was one."""
        return self.runs.head.offset == 0

    @property
    def size_bytes(self) -> int:
        """On disk, about."""
        return sum(segment.size_bytes for segment in self.segments)

    # Growing

    def add(self, entry: Entry) -> None:
        """Take in the next entry; its bytes are the storage's business."""
        self.runs.add(entry.id)
        self.clock = max(self.clock, entry.clock)
        self.tail.append(entry)
        self.tail_bytes += entry_bytes(entry)

    def forget_tail(self, bytes_max: int, up_to: Offset) -> None:
        """Keep no more than so much in memory, but everything after ``up_to``."""
        if self.tail_bytes <= bytes_max + bytes_max // 4:
            return  # a little more is let be, so that this is not done for every entry
        first, gone = self.tail_first, 0
        for entry in self.tail:
            if self.tail_bytes <= bytes_max or first + gone > up_to:
                break
            self.tail_bytes -= entry_bytes(entry)
            gone += 1
        del self.tail[:gone]

    # Looking

    def segment_of(self, offset: Offset) -> Segment:
        """The segment that has this entry."""
        at = bisect_right(self.segments, offset, key=lambda segment: segment.first) - 1
        assert at >= 0, f"entry {offset} is in no segment"
        return self.segments[at]

    def numbered(self, number: int) -> Segment | None:
        """The segment of this number, if it is still part of the log."""
        for segment in reversed(self.segments):
            if segment.number == number:
                return segment
        return None

    def last_of(self, segment: Segment) -> Offset:
        """The last entry of a segment."""
        return self.runs.head.offset if segment.end is None else segment.end

    def in_memory(self, after: Offset, last: Offset, bytes_max: int) -> list[Entry] | None:
        """Entries above ``after`` up to ``last``, at least one; None when they are not in memory."""
        start = after + 1 - self.tail_first
        if start < 0:
            return None
        found: list[Entry] = []
        size_bytes = 0
        for at in range(start, start + last - after):
            entry = self.tail[at]
            size_bytes += entry_bytes(entry)
            if found and size_bytes > bytes_max:
                break
            found.append(entry)
        return found

    # Shrinking

    def cut(self, keep: Offset) -> list[int]:
        """Forget what is above this offset; the numbers of segments that are not part of it any more."""
        assert self.base.offset <= keep <= self.head.offset
        dropped = self.head.offset - keep
        if dropped == 0:
            return []
        gone = [segment.number for segment in self.segments if segment.first > keep]
        self.segments = [segment for segment in self.segments if segment.first <= keep]
        if self.segments and self.last_of(self.segments[-1]) > keep:
            self.segments[-1].cut(keep)
        for entry in self.tail[-dropped:]:
            self.tail_bytes -= entry_bytes(entry)
        del self.tail[-dropped:]
        self.runs.cut(keep)
        self.durable = min(self.durable, keep)
        self._cut_pending(keep)
        return gone

    def _cut_pending(self, keep: Offset) -> None:
        kept: list[PendingWrite] = []
        for pending in self.pending:
            if self.durable >= keep or (kept and kept[-1].last >= keep):
                break
            pending.last = min(pending.last, keep)
            kept.append(pending)
        self.pending = kept

    def trim(self, first: Offset) -> list[int]:
        """Forget whole segments below this offset; their numbers."""
        gone = []
        while self.segments and self.last_of(self.segments[0]) < first:
            segment = self.segments[0]
            if segment.end is None:
                break  # it is still being written
            self.runs.trim(segment.end)
            gone.append(self.segments.pop(0).number)
        return gone

    def violations(self) -> list[Violation]:
        """G1 to G3."""
        found = []
        if not self.base.offset <= self.durable <= self.head.offset:
            found.append(Violation("G3", f"{self.base} {self.durable} {self.head}"))
        expected, head = self.first, self.head.offset
        for segment in self.segments:  # after each step of a simulation: nothing is called in here
            if segment.first != expected:
                found.append(Violation("G1", f"segment {segment.number} at {segment.first}"))
            end = segment.end
            expected = Offset((head if end is None else end) + 1)
        if expected != self.head.offset + 1:
            found.append(
                Violation("G1", f"segments end before {expected}, the head is {self.head}")
            )
        if self.tail_first > self.durable + 1:
            found.append(Violation("G2", f"durable {self.durable}, tail from {self.tail_first}"))
        return found
