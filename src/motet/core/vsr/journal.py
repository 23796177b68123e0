"""What a replica knows of its log: a ring of headers, and of each whether its prepare is safely on disk.

A slot is *clean* when the prepare of its header is durable. It is *dirty* when it is not, or not yet.
It is *faulty* when it is dirty because the disk has lost what was there: then the prepare may have been
acknowledged once, and the replica must not deny it. Only a slot that is dirty and not faulty is denied.

J1  The ring holds the head of the log and nothing above it.
J2  A clean slot has a header.
J3  A faulty slot is dirty.
J4  A dirty slot with a header is in ``missing``.
"""

from __future__ import annotations

import msgspec

from motet.core.machine import Violation
from motet.core.vsr.header import Checksum, Header
from motet.ids import Op, WriteId


class Writing(msgspec.Struct, frozen=True):
    """A prepare on its way to the disk."""

    op: Op
    checksum: Checksum
    write: WriteId


class Cached(msgspec.Struct, frozen=True):
    """A prepare in memory."""

    header: Header
    body: bytes


class Journal(msgspec.Struct):
    """One entry per slot; slot = op % slots."""

    slots: int
    headers: list[Header | None]
    dirty: list[bool]
    faulty: list[bool]
    #: the newest write of each slot that is not durable yet
    writing: dict[int, Writing] = {}
    #: op -> its prepare, for those that are still to be written, committed or served often
    cache: dict[Op, Cached] = {}
    #: slots whose redundant header is to be written along with the next prepare
    headers_due: dict[int, None] = {}
    #: dirty slots that have a header: what repair has to look at (the values mean nothing)
    missing: dict[int, None] = {}

    @staticmethod
    def empty(slots: int) -> Journal:
        return Journal(slots, [None] * slots, [True] * slots, [False] * slots)

    # Looking

    def header(self, op: Op) -> Header | None:
        """The header at this op; None if there is none, or the slot holds another op."""
        found = self.headers[op % self.slots]
        return found if found is not None and found.op == op else None

    def has(self, header: Header) -> bool:
        found = self.headers[header.op % self.slots]
        return found is not None and found.checksum == header.checksum

    def is_clean(self, op: Op) -> bool:
        """This op's prepare is on disk."""
        return self.header(op) is not None and not self.dirty[op % self.slots]

    def is_faulty(self, op: Op) -> bool:
        return self.faulty[op % self.slots]

    def not_clean(self, lowest: Op, highest: Op) -> list[Op]:
        """Which of these ops are not known to be on disk; their headers are there. Quick when few are."""
        first, last = lowest % self.slots, highest % self.slots
        if highest - lowest != last - first:  # around the end of the ring, or nothing at all
            ops = map(Op, range(lowest, highest + 1))
            return [op for op in ops if not self.is_clean(op)]
        found: list[Op] = []
        slot = first - 1
        for _ in range(self.dirty[first : last + 1].count(True)):
            slot = self.dirty.index(True, slot + 1)
            found.append(Op(lowest + slot - first))
        return found

    def cached(self, header: Header) -> Cached | None:
        """Its prepare, if it is in memory."""
        found = self.cache.get(header.op)
        return found if found is not None and found.header.checksum == header.checksum else None

    def is_being_written(self, header: Header) -> bool:
        writing = self.writing.get(header.op % self.slots)
        return writing is not None and writing.checksum == header.checksum

    def can_serve(self, header: Header) -> bool:
        """It can be had from here: on disk, on its way there, or in memory."""
        if not self.has(header):
            return False
        return not self.dirty[header.op % self.slots] or self.cached(header) is not None

    # Changing

    def recover(self, slot: int, header: Header | None, *, dirty: bool, faulty: bool) -> None:
        """What the ring was found to hold in this slot at a start."""
        self.headers[slot] = header
        self.dirty[slot], self.faulty[slot] = dirty, faulty
        if dirty and header is not None:
            self.missing[slot] = None

    def set_header(self, header: Header) -> None:
        """The log has this op here; its prepare is still to come, unless it is there already."""
        slot = header.op % self.slots
        before = self.headers[slot]
        if before is not None and before.checksum == header.checksum:
            return
        # A slot whose content nobody knows may have held just this prepare. One that is known to have
        # held another certainly did not.
        self.faulty[slot] = self.faulty[slot] and before is None
        self.headers[slot] = header
        self.dirty[slot] = True
        self.missing[slot] = None
        self.headers_due.pop(slot, None)

    def remove_above(self, op: Op, head: Op) -> None:
        """Forget what is above an op; what is on disk stays, and is overwritten in time."""
        for each in range(op + 1, max(op, head) + 1):
            if self.header(Op(each)) is not None:
                slot = each % self.slots
                self.headers[slot] = None
                self.dirty[slot], self.faulty[slot] = True, False
                self.missing.pop(slot, None)
                self.headers_due.pop(slot, None)
            self.cache.pop(Op(each), None)

    def written(self, slot: int, write: WriteId) -> Header | None:
        """A prepare is durable; its header, if it is still what the log has there."""
        writing = self.writing.get(slot)
        if writing is None or writing.write != write:
            return None
        del self.writing[slot]
        header = self.headers[slot]
        if header is None or header.checksum != writing.checksum:
            return None
        self.dirty[slot] = self.faulty[slot] = False
        self.missing.pop(slot, None)
        self.headers_due[slot] = None
        return header

    def mark_faulty(self, header: Header) -> None:
        """The disk has lost this prepare."""
        if self.has(header) and not self.is_being_written(header):
            slot = header.op % self.slots
            self.dirty[slot] = self.faulty[slot] = True
            self.missing[slot] = None

    def invariants(self, head: Op) -> list[Violation]:
        header = self.header(head)
        if header is None:
            return [Violation("J1", f"the head, op {head}, has no header")]
        slot = head % self.slots
        if not self.dirty[slot] and self.faulty[slot]:
            return [Violation("J3", f"op {head} is faulty and clean")]
        if self.dirty[slot] != (slot in self.missing):
            return [Violation("J4", f"op {head} is missing, and nobody looks for it")]
        return []
