"""The simulated disk: what is durable, what is only written, and what a crash makes of the difference.

Each file is its durable content plus the list of changes since its last sync. Reading sees all changes.
A crash decides for each change whether it is kept, lost, or torn into sectors of which some are kept;
that covers every order in which a drive may have written its cache back. Rot damages durable sectors;
a damaged sector stays damaged until it is written again.
"""

from __future__ import annotations

import itertools
import re
from enum import IntEnum

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
    RESIZE = 2
    REPLACE = 3
    REMOVE = 4


class Change(msgspec.Struct, frozen=True):
    """A change that is visible but not yet durable."""

    kind: ChangeKind
    offset: int
    data: bytes


class _File:
    """One file: ``content`` is what a reader sees, None when there is no file."""

    __slots__ = ("content", "durable", "pending", "unreadable")

    def __init__(self) -> None:
        self.durable: bytes | None = None
        self.content: bytearray | None = None
        #: content is durable with pending applied in order
        self.pending: list[Change] = []
        #: sectors that cannot be read until they are written again
        self.unreadable: dict[int, None] = {}


class SimDisk:
    """The disk port in a seeded world."""

    def __init__(self, dice: Dice, faults: DiskFaults | None = None) -> None:
        self._dice = dice
        self.faults = faults or DiskFaults()
        self._files: dict[FileName, _File] = {}
        #: while set, nothing that needs new room succeeds
        self.full = False

    # The port

    def preallocate(self, file: FileName, size_bytes: int) -> None:
        if (self.size(file) or 0) < size_bytes or self.size(file) is None:
            self._need_room(file)
            self._change(file, Change(ChangeKind.RESIZE, size_bytes, b""))

    def write(self, file: FileName, offset: int, data: bytes) -> None:
        size = self.size(file)
        if size is None or offset + len(data) > size:
            self._need_room(file)
        self._change(file, Change(ChangeKind.WRITE, offset, bytes(data)))

    def read(self, file: FileName, offset: int, size_bytes: int | None = None) -> bytes:
        entry = self._entry(file)
        if entry.content is None:
            return b""
        end = len(entry.content) if size_bytes is None else offset + size_bytes
        data = bytes(entry.content[offset:end])
        if entry.unreadable:
            last = (offset + len(data) + SECTOR_BYTES - 1) // SECTOR_BYTES
            bad = [s for s in range(offset // SECTOR_BYTES, last) if s in entry.unreadable]
            if bad:
                raise DiskReadFailed(f"{file}: sector {bad[0]} cannot be read")
        if data and self._dice.chance(self.faults.read_error):
            raise DiskReadFailed(f"{file}: reading {len(data)} bytes at {offset} failed")
        return data

    def size(self, file: FileName) -> int | None:
        content = self._entry(file).content
        return None if content is None else len(content)

    def sync(self, file: FileName) -> None:
        self.settle(file, len(self._entry(file).pending))

    def truncate(self, file: FileName, size_bytes: int) -> None:
        size = self.size(file)
        if size is not None and size_bytes < size:
            self._change(file, Change(ChangeKind.RESIZE, size_bytes, b""))

    def replace(self, file: FileName, data: bytes) -> None:
        self.stage_replace(file, data)
        self.sync(file)

    def remove(self, file: FileName) -> None:
        self.stage_remove(file)
        self.sync(file)

    def files(self) -> list[FileName]:
        return sorted(name for name, file in self._files.items() if file.content is not None)

    # What the world adds: changes take time, and time is when crashes happen

    def stage_replace(self, file: FileName, data: bytes) -> None:
        """Begin to replace: visible at once, and after a crash before ``settle`` old or new."""
        self._need_room(file)
        self._change(file, Change(ChangeKind.REPLACE, 0, bytes(data)))

    def stage_remove(self, file: FileName) -> None:
        """Begin to remove."""
        if self._entry(file).content is not None:
            self._change(file, Change(ChangeKind.REMOVE, 0, b""))

    def pending(self, file: FileName) -> int:
        """How many changes of the file are not durable yet."""
        return len(self._entry(file).pending)

    def settle(self, file: FileName, count: int) -> None:
        """Make the oldest ``count`` changes of the file durable."""
        entry = self._entry(file)
        assert count <= len(entry.pending)
        if count == len(entry.pending):
            entry.durable = None if entry.content is None else bytes(entry.content)
        else:
            entry.durable = _apply(entry.durable, entry.pending[:count])
        del entry.pending[:count]

    def crash(self) -> list[str]:
        """Lose power. Says what became of unsynced changes, for the trace and the coverage marks."""
        marks: list[str] = []
        for entry in self._files.values():
            if entry.pending:
                entry.durable = self._survivors(entry, marks)
            entry.pending = []
            entry.content = None if entry.durable is None else bytearray(entry.durable)
        return marks

    def rot(self) -> FileName | None:
        """Damage one durable sector of one file, by flipped bits or so that it cannot be read."""
        names = [name for name, entry in self._files.items() if entry.durable]
        if not names:
            return None
        name = self._dice.pick(sorted(names))
        entry = self._files[name]
        assert entry.durable is not None
        at = self._dice.between(0, len(entry.durable) - 1)
        if self._dice.chance(0.3):
            entry.unreadable[at // SECTOR_BYTES] = None
            return name
        damaged = bytearray(entry.durable)
        damaged[at] ^= 1 << self._dice.between(0, 7)
        entry.durable = bytes(damaged)
        content = _apply(entry.durable, entry.pending)
        entry.content = None if content is None else bytearray(content)
        return name

    # Inside

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
        if change.kind is ChangeKind.WRITE:  # the hot one: in place, without copying the file
            entry.content = _write(entry.content, change.offset, change.data)
        else:
            content = _apply(entry.content, [change])
            entry.content = None if content is None else bytearray(content)
        if entry.unreadable:
            self._heal(entry, change)

    def _heal(self, entry: _File, change: Change) -> None:
        """A sector written whole or cut off can be read again."""
        if change.kind is ChangeKind.WRITE:
            first = (change.offset + SECTOR_BYTES - 1) // SECTOR_BYTES
            last = (change.offset + len(change.data)) // SECTOR_BYTES
            for sector in range(first, last):
                entry.unreadable.pop(sector, None)
        elif change.kind is not ChangeKind.RESIZE:
            entry.unreadable.clear()

    def _survivors(self, entry: _File, marks: list[str]) -> bytes | None:
        kept: list[Change] = []
        for change in entry.pending:
            if self._dice.chance(self.faults.lost):
                marks.append("lost_write")
                if change.kind is not ChangeKind.WRITE:
                    break  # later changes went to a file or a size that never came to be
                continue
            if change.kind is ChangeKind.WRITE and self._dice.chance(self.faults.torn):
                marks.append("torn_write")
                kept.extend(self._tear(change))
                continue
            kept.append(change)
        return _apply(entry.durable, kept)

    def _tear(self, change: Change) -> list[Change]:
        """Some of a write's sectors; within one sector only a prefix of the bytes is never kept."""
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


def _apply(content: bytes | bytearray | None, changes: list[Change]) -> bytes | None:
    result = None if content is None else bytearray(content)
    for change in changes:
        if change.kind is ChangeKind.WRITE:
            result = _write(result, change.offset, change.data)
        elif change.kind is ChangeKind.RESIZE:
            result = _resize(result, change.offset)
        elif change.kind is ChangeKind.REPLACE:
            result = bytearray(change.data)
        else:
            result = None
    return None if result is None else bytes(result)


def _write(content: bytearray | None, offset: int, data: bytes) -> bytearray:
    content = bytearray() if content is None else content
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data
    return content


def _resize(content: bytearray | None, size_bytes: int) -> bytearray:
    content = bytearray() if content is None else content
    if len(content) > size_bytes:
        del content[size_bytes:]
    else:
        content.extend(bytes(size_bytes - len(content)))
    return content
