"""The disk port on a folder of this machine.

D1  *One owner.* A lock keeps every other process out, so what we know of a file (its size, its open
    descriptor) stays true for as long as we live.
D2  *No holes.* Room is taken before it is used: reserved from the system, which then cannot find the disk
    full when it is written, or, where that is not to be had, filled with zeros. Zeros everywhere would
    make the disk write everything twice: a log in blocks of 256 KiB would be half as quick.
D3  *All or nothing.* What grows a file is written after its end first, and cut off again when the
    room does not suffice; only then are bytes overwritten.
D4  *Found means durable.* A file left by an earlier life is synced before anybody sees what is in it:
    after a killed process the system still shows bytes that a power failure would take away.
D5  *A failed sync is final.* Nobody knows what is on the disk then, and asking again would be answered
    with yes. The same holds when a partial change cannot be undone. Every later call is refused.
D6  *A log leaves the cache.* A file that is made larger again and again, ahead of what is written, is a
    log: what has been synced is not written again, and its newest part is in its machine's memory. Its
    pages are given back to the system, which hands them out for what is written next: where memory is
    lent (a virtual machine), pages that nobody had before cost four times as much. A reader that lags
    reads from the disk.

Calls come from one thread at a time.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from motet.errors import BadInput, DiskError, DiskFull, DiskReadFailed
from motet.ids import FileName
from motet.limits import open_files_max
from motet.real.durable import (
    FULL,
    FolderLock,
    OpenFile,
    make_folder,
    read_up_to,
    release_cache,
    reserve,
    sync_file,
    sync_files,
    sync_folder,
    write_all,
    write_zeros,
)

_FLAT_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")
# Our own files have a character that the port's names cannot have.
_LOCK = "lock~"
_HALF_WRITTEN = "~new"
_SYNCS_AT_ONCE = 8


class RealDisk:
    """Named files in one folder, from construction to ``close``.

    ``NodeError`` when another process has the folder. ``DiskFull`` and ``DiskReadFailed`` can be
    answered; any other ``DiskError`` means that the process has to stop (D5).
    """

    def __init__(self, folder: Path, open_files: int = open_files_max) -> None:
        self._folder = folder
        self._open_files = open_files
        #: the one used longest ago comes first
        self._opened: OrderedDict[FileName, OpenFile] = OrderedDict()
        #: an earlier life may have ended between making a file and syncing it (D4)
        self._names_unsynced = True
        #: threads that wait for syncs, once there was more than one to wait for
        self._syncing: ThreadPoolExecutor | None = None
        #: why nothing goes any more
        self._over: str | None = None
        try:
            make_folder(folder)
            self._lock = FolderLock(folder / _LOCK)
            self._folder_fd = os.open(folder, os.O_RDONLY)
            for left_over in folder.glob("*" + _HALF_WRITTEN):
                left_over.unlink()
        except OSError as error:
            raise DiskError(f"{folder}: {error.strerror}") from error

    # The port -------------------------------------------------------------------------------------

    def preallocate(self, file: FileName, size_bytes: int) -> None:
        opened = self._open(file)
        if opened is not None and opened.size >= size_bytes:
            return
        with self._growing(file, opened) as grown:
            grown.is_log = 0 < grown.written <= grown.size
            if not reserve(grown.fd, grown.size, size_bytes):
                write_zeros(grown.fd, grown.size, size_bytes)
            grown.size = size_bytes

    def write(self, file: FileName, offset: int, data: bytes) -> None:
        assert offset >= 0
        opened = self._open(file)
        end = offset + len(data)
        if opened is not None and end <= opened.size:
            opened.unsynced = True
            opened.written = end
            try:
                self._overwrite(file, opened.fd, data, offset)
            except OSError as error:
                raise self._refused(file, error) from error
            return
        with self._growing(file, opened) as grown:
            inside = max(0, grown.size - offset)
            write_zeros(grown.fd, grown.size, offset)
            write_all(grown.fd, data[inside:], offset + inside)
            if inside:
                self._overwrite(file, grown.fd, data[:inside], offset)
            grown.size = max(grown.size, end)
            grown.written = end

    def read(self, file: FileName, offset: int, size_bytes: int | None = None) -> bytes:
        assert offset >= 0
        opened = self._open(file)
        if opened is None:
            return b""
        left = max(0, opened.size - offset)
        wanted = left if size_bytes is None else min(left, size_bytes)
        try:
            return read_up_to(opened.fd, offset, wanted)
        except OSError as error:
            raise DiskReadFailed(f"{file}: {wanted} bytes at {offset}: {error.strerror}") from error

    def size(self, file: FileName) -> int | None:
        opened = self._open(file)
        return None if opened is None else opened.size

    def sync(self, file: FileName) -> None:
        opened = self._open(file)
        if opened is not None:
            self._sync_file(file, opened)
            release_cache(opened)
        if self._names_unsynced:
            self._sync_names()

    def sync_all(self, files: Collection[FileName]) -> None:
        # Asked for many at once, a file system writes its journal and empties the drive's cache once.
        names = list(files)
        for first in range(0, len(names), max(self._open_files // 2, 1)):
            some = names[first : first + max(self._open_files // 2, 1)]
            found = [(file, each) for file in some if (each := self._open(file)) is not None]
            shares = [found[n::_SYNCS_AT_ONCE] for n in range(_SYNCS_AT_ONCE)]
            failures = [
                each for each in self._threads().map(sync_files, shares) if each is not None
            ]
            if failures:
                file, error = failures[0]
                raise self._end(f"{file}: sync failed: {error.strerror}") from error
            for _, opened in found:
                opened.unsynced = False
                release_cache(opened)
        if self._names_unsynced:
            self._sync_names()

    def truncate(self, file: FileName, size_bytes: int) -> None:
        opened = self._open(file)
        if opened is None or opened.size <= size_bytes:
            return
        opened.unsynced = True
        try:
            os.ftruncate(opened.fd, size_bytes)
        except OSError as error:
            raise self._refused(file, error) from error
        opened.size = size_bytes

    def replace(self, file: FileName, data: bytes) -> None:
        self._check_alive(file)
        self._rename(file, self._write_beside(file, data), len(data))
        self._sync_names()

    def replace_all(self, files: Mapping[FileName, bytes]) -> dict[FileName, DiskFull]:
        full: dict[FileName, DiskFull] = {}
        if len(files) == 1:
            for file, data in files.items():
                try:
                    self.replace(file, data)
                except DiskFull as error:
                    full[file] = error
            return full
        for file in files:
            self._check_alive(file)
        written = list(self._threads().map(self._try_write_beside, files.items()))
        for each in written:
            if isinstance(each, DiskError) and not isinstance(each, DiskFull):
                raise each
        for (file, data), fd in zip(files.items(), written, strict=True):
            if isinstance(fd, DiskFull):
                full[file] = fd
            elif isinstance(fd, int):
                self._rename(file, fd, len(data))
        self._sync_names()
        return full

    def remove(self, file: FileName) -> None:
        self._check_alive(file)
        self._forget(file)
        try:
            os.unlink(file, dir_fd=self._folder_fd)
        except FileNotFoundError:
            if not self._names_unsynced:
                return
        except OSError as error:
            raise self._refused(file, error) from error
        self._sync_names()

    def files(self) -> list[FileName]:
        return sorted(
            FileName(path.name)
            for path in self._folder.iterdir()
            if _FLAT_NAME.fullmatch(path.name) and path.is_file()
        )

    def close(self) -> None:
        """Give the folder back. Syncs nothing: what nobody waited for, nobody was promised."""
        if self._over is None:
            self._end("the disk is closed")
        if self._syncing is not None:
            self._syncing.shutdown()
            self._syncing = None
        if self._folder_fd >= 0:
            os.close(self._folder_fd)
            self._folder_fd = -1
            self._lock.close()

    def _threads(self) -> ThreadPoolExecutor:
        if self._syncing is None:
            self._syncing = ThreadPoolExecutor(_SYNCS_AT_ONCE, "motet-sync")
        return self._syncing

    # Open files -----------------------------------------------------------------------------------

    def _open(self, file: FileName) -> OpenFile | None:
        opened = self._opened.get(file)
        if opened is not None:
            self._opened.move_to_end(file)
            return opened
        self._check_alive(file)
        try:
            fd = os.open(file, os.O_RDWR, dir_fd=self._folder_fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._refused(file, error) from error
        opened = OpenFile(fd, os.fstat(fd).st_size)
        self._remember(file, opened)
        self._sync_file(file, opened)
        return opened

    def _create(self, file: FileName) -> OpenFile:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
        opened = OpenFile(os.open(file, flags, 0o644, dir_fd=self._folder_fd), 0)
        self._names_unsynced = True
        self._remember(file, opened)
        return opened

    def _remember(self, file: FileName, opened: OpenFile) -> None:
        while len(self._opened) >= self._open_files:
            oldest = next(iter(self._opened))
            # An error of writing back in the background is reported only to a descriptor that was
            # open at the time: none is closed with bytes still to be written.
            if self._opened[oldest].unsynced:
                self._sync_file(oldest, self._opened[oldest])
            self._forget(oldest)
        self._opened[file] = opened

    def _forget(self, file: FileName) -> None:
        opened = self._opened.pop(file, None)
        if opened is not None:
            os.close(opened.fd)

    # Changing -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _growing(self, file: FileName, opened: OpenFile | None) -> Iterator[OpenFile]:
        """Around what needs new room: without it the file is cut back to what it was (D3)."""
        size_before = None if opened is None else opened.size
        try:
            grown = opened or self._create(file)
            grown.unsynced = True
            yield grown
        except OSError as error:
            self._cut_back(file, size_before)
            raise self._refused(file, error) from error

    def _cut_back(self, file: FileName, size_before: int | None) -> None:
        try:
            if size_before is not None:
                os.ftruncate(self._opened[file].fd, size_before)
            elif file in self._opened:
                self._forget(file)
                os.unlink(file, dir_fd=self._folder_fd)
        except OSError as error:
            raise self._end(f"{file}: cutting it back failed: {error.strerror}") from error

    def _overwrite(self, file: FileName, fd: int, data: bytes, offset: int) -> None:
        """Write over room that is there. Raises ``OSError`` only when no byte has been changed.

        It can run out of room only where every write takes new room (copy on write, snapshots).
        """
        done = os.pwrite(fd, data, offset)
        if done == len(data):
            return
        try:
            write_all(fd, data[done:], offset + done)
        except OSError as error:
            raise self._end(f"{file}: half overwritten at {offset}: {error.strerror}") from error

    def _rename(self, file: FileName, fd: int, size_bytes: int) -> None:
        """What was written beside it takes the place of a file."""
        self._forget(file)
        self._remember(file, OpenFile(fd, size_bytes))
        try:
            os.replace(
                file + _HALF_WRITTEN, file, src_dir_fd=self._folder_fd, dst_dir_fd=self._folder_fd
            )
        except OSError as error:
            raise self._end(f"{file}: replacing it failed: {error.strerror}") from error

    def _try_write_beside(self, wanted: tuple[FileName, bytes]) -> int | DiskError:
        """In a thread of its own."""
        try:
            return self._write_beside(*wanted)
        except DiskError as error:
            return error

    def _write_beside(self, file: FileName, data: bytes) -> int:
        """Write and sync a replacement under another name; its open descriptor."""
        beside = file + _HALF_WRITTEN
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC
            fd = os.open(beside, flags, 0o644, dir_fd=self._folder_fd)
        except OSError as error:
            raise self._refused(file, error) from error
        try:
            write_all(fd, data, 0)
            sync_file(fd)
        except OSError as error:
            os.close(fd)
            os.unlink(beside, dir_fd=self._folder_fd)
            raise self._refused(file, error) from error
        return fd

    # Syncing and failing ----------------------------------------------------------------------------

    def _sync_file(self, file: FileName, opened: OpenFile) -> None:
        try:
            sync_file(opened.fd)
        except OSError as error:
            raise self._end(f"{file}: sync failed: {error.strerror}") from error
        opened.unsynced = False

    def _sync_names(self) -> None:
        try:
            sync_folder(self._folder_fd)
        except OSError as error:
            raise self._end(f"{self._folder}: sync failed: {error.strerror}") from error
        self._names_unsynced = False

    def _refused(self, file: FileName, error: OSError) -> DiskError:
        """The error for a change that did not happen and left the file as it was."""
        if error.errno in FULL:
            return DiskFull(f"{file}: {error.strerror}")
        return DiskError(f"{file}: {error.strerror}")

    def _end(self, why: str) -> DiskError:
        """Let nothing through any more (D5)."""
        self._over = why
        for file in list(self._opened):
            self._forget(file)
        return DiskError(why, hint="stop the process: what is on the disk now is unknown")

    def _check_alive(self, file: FileName) -> None:
        if not _FLAT_NAME.fullmatch(file) or file in (".", ".."):
            raise BadInput(
                f"{file!r} is not the name of a file here",
                hint="up to 200 letters, digits, dots, dashes and underscores",
            )
        if self._over is not None:
            raise DiskError(f"{file}: refused, because {self._over}")
