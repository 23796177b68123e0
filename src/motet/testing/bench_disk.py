"""The disk of one node on the workbench: what is durable, what is not yet, and what a crash leaves."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from motet.core.machine import DiskChange, Preallocate, Remove, Replace, Truncate, Write
from motet.errors import BadScenario
from motet.ids import FileName, WriteId

Files = dict[FileName, bytes]


class BenchDisk:
    """Files in memory, with the line between written and durable drawn by hand.

    Reads see what was written; a crash goes back to what is durable, plus whatever of the rest the script
    wants kept.
    """

    def __init__(self) -> None:
        self.durable: Files = {}
        #: asked for and not yet durable, oldest first
        self.pending: list[DiskChange] = []
        #: nothing can grow any more
        self.full = False
        #: files that cannot be read back, and why
        self.unreadable: dict[FileName, str] = {}

    def ask(self, change: DiskChange) -> str | None:
        """Take a change in; the reason when there is no room for it, and then nothing changes."""
        if self.full and self._grows(change):
            return "disk full"
        self.pending.append(change)
        return None

    def sync(self, file: FileName | None = None) -> list[WriteId]:
        """Make what is pending durable, on one file or on all of them; says which changes that were."""
        done = [change for change in self.pending if file in (None, change.file)]
        self.pending = [change for change in self.pending if file not in (None, change.file)]
        for change in done:
            _apply(self.durable, change)
        return [change.id for change in done]

    def crash(self, keep: Sequence[WriteId] = (), torn: tuple[WriteId, int] | None = None) -> None:
        """Forget what is pending but for the changes in ``keep`` and the first bytes of a torn one."""
        for change in self.pending:
            if torn is not None and change.id == torn[0]:
                _apply(self.durable, _torn(change, torn[1]))
            elif change.id in keep:
                _apply(self.durable, change)
        self.pending = []

    def files(self) -> Files:
        """What a read sees, in order of name."""
        files = dict(self.durable)
        for change in self.pending:
            _apply(files, change)
        return dict(sorted(files.items()))

    def read(self, file: FileName, offset: int, size_bytes: int | None) -> bytes:
        """Fewer bytes at the end of the file, none without the file."""
        end = None if size_bytes is None else offset + size_bytes
        return self.files().get(file, b"")[offset:end]

    def _grows(self, change: DiskChange) -> bool:
        size = len(self.files().get(change.file, b""))
        match change:
            case Write():
                return change.offset + len(change.data) > size
            case Preallocate():
                return change.size_bytes > size
            case Replace():
                return True  # the new content stands beside the old one until it takes its place
            case Truncate() | Remove():
                return False


def _apply(files: Files, change: DiskChange) -> None:
    content = files.get(change.file, b"")
    match change:
        case Write(offset=offset, data=data):
            padded = content.ljust(offset, b"\0")
            files[change.file] = padded[:offset] + data + padded[offset + len(data) :]
        case Replace(data=data):
            files[change.file] = data
        case Truncate(size_bytes=size):
            files[change.file] = content[:size]
        case Preallocate(size_bytes=size):
            files[change.file] = content.ljust(size, b"\0")
        case Remove():
            files.pop(change.file, None)


def _torn(change: DiskChange, size_bytes: int) -> Write:
    if not isinstance(change, Write) or not 0 <= size_bytes < len(change.data):
        raise BadScenario(
            f"#{change.id} cannot be torn after {size_bytes} bytes",
            hint="only a write can, inside its data; a replace is old or new",
        )
    return msgspec.structs.replace(change, data=change.data[:size_bytes])
