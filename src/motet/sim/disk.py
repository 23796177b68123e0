"""The simulated disk: what is durable, what is only written, and what a crash makes of the difference.

Each file is its durable content plus the list of changes since its last sync. Reading sees all changes.
A crash decides for each change whether it is kept, lost, or torn into sectors of which some are kept;
that covers every order in which a drive may have written its cache back. A write may survive the cut
before it, but not the replacement of its file: that is another file. Rot damages durable sectors; a
damaged sector stays damaged until what is written over it is durable.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import Protocol

import msgspec

from motet.errors import BadInput, DiskFull, DiskReadFailed
from motet.ids import FileName
from motet.sim.dice import Dice
from motet.sim.faults import DiskFaults

SECTOR_BYTES = 512
_FLAT_NAME = re.compile(r"[A-Za-z0-9._-]+")


class ChangeKind(IntEnum):
    """What a pending change does to its file."""

    WRITE = 1
    GROW = 2
    CUT = 3
    REPLACE = 4
    REMOVE = 5


TEARABLE = (ChangeKind.WRITE, ChangeKind.GROW)
ENDINGS = (ChangeKind.REPLACE, ChangeKind.REMOVE)


class Change(msgspec.Struct, frozen=True):
    """A change that is visible but not yet durable."""

    kind: ChangeKind
    #: where a write begins, or the size to grow or to cut to
    offset: int
    data: bytes = b""


class _Image:
    """A file as it looks from one side: its bytes, and the sectors that cannot be read."""

    __slots__ = ("content", "unreadable")

    def __init__(self) -> None:
        #: None when there is no file
        self.content: bytearray | None = None
        self.unreadable: dict[int, None] = {}

    def copy(self) -> _Image:
        twin = _Image()
        twin.content = None if self.content is None else bytearray(self.content)
        twin.unreadable = dict(self.unreadable)
        return twin

    def apply(self, change: Change) -> None:
        """In place: a small write to a large file costs as much as the write."""
        kind, at = change.kind, change.offset
        if kind is ChangeKind.REMOVE:
            self.content = None
        elif kind is ChangeKind.REPLACE:
            self.content = bytearray(change.data)
        else:
            if self.content is None:
                self.content = bytearray()
            content = self.content
            if len(content) < at:
                content.extend(bytes(at - len(content)))
            if kind is ChangeKind.WRITE:
                content[at : at + len(change.data)] = change.data
            elif kind is ChangeKind.CUT:
                del content[at:]
        if self.unreadable:
            self._heal(change)

    def _heal(self, change: Change) -> None:
        """A sector that was written whole or cut off can be read again."""
        kind, at = change.kind, change.offset
        first = (at + SECTOR_BYTES - 1) // SECTOR_BYTES
        if kind is ChangeKind.WRITE:
            for sector in range(first, (at + len(change.data)) // SECTOR_BYTES):
                self.unreadable.pop(sector, None)
        elif kind is ChangeKind.CUT:
            self.unreadable = {s: None for s in self.unreadable if s < first}
        elif kind is not ChangeKind.GROW:
            self.unreadable.clear()


class _File:
    """One file: what is on the platter, what a reader sees, and the changes between the two."""

    __slots__ = ("durable", "pending", "seen")

    def __init__(self) -> None:
        self.durable = _Image()
        #: durable with pending applied in order
        self.seen = _Image()
        self.pending: list[Change] = []


class DamageMap(Protocol):
    """Where a disk may be damaged: not every protocol survives damage everywhere at once."""

    def spot(self, dice: Dice, /) -> tuple[FileName, int] | None:
        """A byte to rot; None if nothing may rot now."""

    def may_fail(self, file: FileName, offset: int, size_bytes: int, /) -> bool:
        """May a read of these bytes fail?"""


class SimDisk:
    """The disk port in a seeded world."""

    def __init__(self, dice: Dice, faults: DiskFaults | None = None) -> None:
        self._dice = dice
        self.faults = faults or DiskFaults()
        self._files: dict[FileName, _File] = {}
        #: while set, nothing that needs new room succeeds
        self.full = False
        #: while set, reads do not fail but for sectors that are damaged
        self.steady = False
        #: where it may be damaged; None for everywhere
        self.damage: DamageMap | None = None

    # The port

    def preallocate(self, file: FileName, size_bytes: int) -> None:
        size = self.size(file)
        if size is None or size < size_bytes:
            self._need_room(file)
            self._change(file, Change(ChangeKind.GROW, size_bytes))

    def write(self, file: FileName, offset: int, data: bytes) -> None:
        size = self.size(file)
        if size is None or offset + len(data) > size:
            self._need_room(file)
        self._change(file, Change(ChangeKind.WRITE, offset, bytes(data)))

    def read(self, file: FileName, offset: int, size_bytes: int | None = None) -> bytes:
        seen = self._entry(file).seen
        if seen.content is None:
            return b""
        end = len(seen.content) if size_bytes is None else offset + size_bytes
        data = bytes(seen.content[offset:end])
        if seen.unreadable:
            last = (offset + len(data) + SECTOR_BYTES - 1) // SECTOR_BYTES
            bad = [s for s in range(offset // SECTOR_BYTES, last) if s in seen.unreadable]
            if bad:
                raise DiskReadFailed(f"{file}: sector {bad[0]} cannot be read")
        if data and not self.steady and self._fails(file, offset, len(data)):
            raise DiskReadFailed(f"{file}: reading {len(data)} bytes at {offset} failed")
        return data

    def size(self, file: FileName) -> int | None:
        content = self._entry(file).seen.content
        return None if content is None else len(content)

    def sync(self, file: FileName) -> None:
        self.settle(file, len(self._entry(file).pending))

    def sync_all(self, files: Collection[FileName]) -> None:
        for file in files:
            self.sync(file)

    def truncate(self, file: FileName, size_bytes: int) -> None:
        size = self.size(file)
        if size is not None and size_bytes < size:
            self._change(file, Change(ChangeKind.CUT, size_bytes))

    def replace(self, file: FileName, data: bytes) -> None:
        self.stage_replace(file, data)
        self.sync(file)

    def replace_all(self, files: Mapping[FileName, bytes]) -> dict[FileName, DiskFull]:
        full: dict[FileName, DiskFull] = {}
        for file, data in files.items():
            try:
                self.replace(file, data)
            except DiskFull as error:
                full[file] = error
        return full

    def remove(self, file: FileName) -> None:
        self.stage_remove(file)
        self.sync(file)

    def files(self) -> list[FileName]:
        return sorted(name for name, file in self._files.items() if file.seen.content is not None)

    # What the world adds: changes take time, and time is when crashes happen

    def stage_replace(self, file: FileName, data: bytes) -> None:
        """Begin to replace: visible at once, and after a crash before ``settle`` old or new."""
        self._need_room(file)
        self._change(file, Change(ChangeKind.REPLACE, 0, bytes(data)))

    def stage_remove(self, file: FileName) -> None:
        """Begin to remove."""
        if self._entry(file).seen.content is not None:
            self._change(file, Change(ChangeKind.REMOVE, 0))

    def pending(self, file: FileName) -> int:
        """How many changes of the file are not durable yet."""
        return len(self._entry(file).pending)

    def settle(self, file: FileName, count: int) -> None:
        """Make the oldest ``count`` changes of the file durable."""
        entry = self._entry(file)
        assert count <= len(entry.pending)
        for change in entry.pending[:count]:
            entry.durable.apply(change)
        del entry.pending[:count]

    def crash(self) -> list[str]:
        """Lose power. Says what became of unsynced changes, for the trace and the coverage marks."""
        marks: list[str] = []
        for entry in self._files.values():
            if entry.pending:
                for change in self._survivors(entry.pending, marks):
                    entry.durable.apply(change)
                entry.pending = []
                entry.seen = entry.durable.copy()
        return marks

    def wipe(self) -> None:
        """Another disk, an empty one, is there instead."""
        self._files = {}

    def rot(self) -> FileName | None:
        """Damage one durable sector of one file, by flipped bits or so that it cannot be read."""
        spot = self._spot() if self.damage is None else self.damage.spot(self._dice)
        if spot is None:
            return None
        name, at = spot
        entry = self._entry(name)
        content = entry.durable.content
        if content is None or at >= len(content):
            return None
        if self._dice.chance(0.3):
            entry.durable.unreadable[at // SECTOR_BYTES] = None
        else:
            content[at] ^= 1 << self._dice.between(0, 7)
        entry.seen = entry.durable.copy()
        for change in entry.pending:
            entry.seen.apply(change)
        return name

    def durable(self, file: FileName, offset: int, size_bytes: int) -> bytes:
        """What a crash cannot take any more, for checkers."""
        content = self._entry(file).durable.content
        return b"" if content is None else bytes(content[offset : offset + size_bytes])

    # Inside

    def _fails(self, file: FileName, offset: int, size_bytes: int) -> bool:
        if not self._dice.chance(self.faults.read_error):
            return False
        return self.damage is None or self.damage.may_fail(file, offset, size_bytes)

    def _spot(self) -> tuple[FileName, int] | None:
        """Any byte of any file."""
        names = [name for name, entry in self._files.items() if entry.durable.content]
        if not names:
            return None
        name = self._dice.pick(sorted(names))
        content = self._files[name].durable.content
        assert content is not None
        return name, self._dice.between(0, len(content) - 1)

    def _entry(self, file: FileName) -> _File:
        entry = self._files.get(file)
        if entry is None:
            if not _FLAT_NAME.fullmatch(file) or file in (".", ".."):
                raise BadInput(f"{file!r} is not a flat file name")
            entry = self._files[file] = _File()
        return entry

    def _need_room(self, file: FileName) -> None:
        if self.full:
            raise DiskFull(f"no room for {file}")

    def _change(self, file: FileName, change: Change) -> None:
        entry = self._entry(file)
        entry.pending.append(change)
        entry.seen.apply(change)

    def _survivors(self, pending: list[Change], marks: list[str]) -> list[Change]:
        kept: list[Change] = []
        for change in pending:
            if self._dice.chance(self.faults.lost):
                marks.append("lost_write")
                if change.kind in ENDINGS:
                    break  # later changes went to a file that never came to be
            elif change.kind in TEARABLE and self._dice.chance(self.faults.torn):
                marks.append("torn_write")
                kept.extend(self._tear(change))
            else:
                kept.append(change)
        return kept

    def _tear(self, change: Change) -> list[Change]:
        """Some of a write's sectors, each whole or not at all; or part of the way to a new size."""
        if change.kind is ChangeKind.GROW:
            sectors = self._dice.between(0, change.offset // SECTOR_BYTES)
            return [Change(ChangeKind.GROW, sectors * SECTOR_BYTES)]
        cuts = [change.offset]
        edge = (change.offset // SECTOR_BYTES + 1) * SECTOR_BYTES
        end = change.offset + len(change.data)
        cuts.extend(range(edge, end, SECTOR_BYTES))
        cuts.append(end)
        pieces = [
            Change(ChangeKind.WRITE, low, change.data[low - change.offset : high - change.offset])
            for low, high in itertools.pairwise(cuts)
        ]
        return self._dice.subset(pieces)
