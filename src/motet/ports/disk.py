"""The disk: named files in one folder, with an explicit line between written and durable.

All calls return when they are done and none waits for the platter but ``sync``, ``sync_all``,
``replace`` and ``remove``. A driver writes what a turn brought and then syncs each file once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from motet.errors import DiskFull
from motet.ids import FileName


class Disk(Protocol):
    """Files that survive what they promise to survive.

    After a crash a file holds everything that was there at its last ``sync``, and any subset of what was
    written since, torn at sector boundaries. What the next life has found there stays: a second crash
    does not take it away. Names are flat (letters, digits, ``.``, ``-``, ``_``), others are ``BadInput``.
    """

    def preallocate(self, file: FileName, size_bytes: int) -> None:
        """Make the file at least this large, zero-filled; what is there stays. ``DiskFull`` when full."""

    def write(self, file: FileName, offset: int, data: bytes) -> None:
        """Write at an offset, filling a gap with zeros. ``DiskFull``: the file is as it was."""

    def read(self, file: FileName, offset: int, size_bytes: int | None = None) -> bytes:
        """Up to so many bytes (None: to the end); fewer at the end, none without the file.

        ``DiskReadFailed`` when the disk cannot give them back.
        """

    def size(self, file: FileName) -> int | None:
        """How large the file is, None when there is none."""

    def sync(self, file: FileName) -> None:
        """Make everything written to the file durable, its existence and size included; no file is fine.

        An error here is final for the process: what is on disk is then unknown.
        """

    def sync_all(self, files: Collection[FileName]) -> None:
        """The same for several files; they may become durable in any order."""

    def truncate(self, file: FileName, size_bytes: int) -> None:
        """Cut the file to at most this size; durable with the next ``sync``. It never grows."""

    def replace(self, file: FileName, data: bytes) -> None:
        """Atomically and durably give the file this content. ``DiskFull``: the old content stays."""

    def replace_all(self, files: Mapping[FileName, bytes]) -> dict[FileName, DiskFull]:
        """The same for several files, each for itself; those that there was no room for are as they were."""

    def remove(self, file: FileName) -> None:
        """Remove the file durably; no file is fine."""

    def files(self) -> list[FileName]:
        """The names of all files, sorted."""
