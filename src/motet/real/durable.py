"""What it takes to get bytes onto the platter, for the disk and the object store; and the lock of a folder.

An interrupted system call is repeated by Python itself; short writes and reads are continued here. A sync
that failed is never tried again: the kernel may have dropped the dirty pages and would then report success
for bytes that are gone.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sys
from pathlib import Path

from motet.errors import NodeError
from motet.ids import FileName

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The ways a file system says that there is no room: disk full, quota used up, file size limit."""

ZEROS = bytes(1 << 20)
"""What gaps and preallocated space are filled with, one write at a time."""

if sys.platform == "darwin":
    import fcntl

    _NOT_SUPPORTED = frozenset({errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOTTY})

    def sync_file(fd: int) -> None:
        """Make a file durable. ``fsync`` stops at the drive's cache here; F_FULLFSYNC empties it."""
        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise
            os.fsync(fd)  # a network or memory file system that has no such call

    sync_folder = sync_file
else:

    def sync_file(fd: int) -> None:
        """Make a file's bytes and its size durable; its times may be lost."""
        os.fdatasync(fd)

    def sync_folder(fd: int) -> None:
        """Make the names in a folder durable: what was created, renamed or removed."""
        os.fsync(fd)


def sync_folder_at(path: Path) -> None:
    """Make the names in the folder at this path durable."""
    fd = os.open(path, os.O_RDONLY)
    try:
        sync_folder(fd)
    finally:
        os.close(fd)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, durably; one that is there is fine."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        sync_folder_at(folder.parent)


def replace_file(path: Path, data: bytes) -> None:
    """Give a file this content, durable, whole or not at all, and for this user alone."""
    draft = path.with_name(f"{path.name}~")
    draft.unlink(missing_ok=True)
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(fd)
    draft.replace(path)
    sync_folder_at(path.parent)


def write_all(fd: int, data: bytes, offset: int) -> None:
    """Write all of it, however little the system takes at a time."""
    done = os.pwrite(fd, data, offset)
    if done < len(data):
        rest = memoryview(data)
        while done < len(data):
            done += os.pwrite(fd, rest[done:], offset + done)


def write_zeros(fd: int, start: int, end: int) -> None:
    """Fill from start to end with zeros that really take up room: no holes."""
    while start < end:
        start += os.pwrite(fd, memoryview(ZEROS)[: end - start], start)


def reserve(fd: int, start: int, end: int) -> bool:
    """Take room that reads as zeros, or hear at once that there is none; False where the system cannot."""
    if not hasattr(os, "posix_fallocate"):  # macOS
        return False
    try:
        os.posix_fallocate(fd, start, end - start)
    except OSError as error:
        if error.errno in FULL:
            raise
        return False
    return True


def leave_cache(fd: int, start: int, end: int) -> None:
    """The system need not keep this part of a file in memory. What it has not written yet, it keeps."""
    if hasattr(os, "posix_fadvise"):  # not on macOS
        with contextlib.suppress(OSError):  # it is no more than a hint
            os.posix_fadvise(fd, start, end - start, os.POSIX_FADV_DONTNEED)


def read_up_to(fd: int, offset: int, size_bytes: int) -> bytes:
    """So many bytes, or fewer at the end of the file."""
    data = os.pread(fd, size_bytes, offset)
    if len(data) == size_bytes or not data:
        return data
    parts = [data]
    left = size_bytes - len(data)
    while left and (data := os.pread(fd, left, offset + size_bytes - left)):
        parts.append(data)
        left -= len(data)
    return b"".join(parts)


class FolderLock:
    """Held from construction to ``close``, or to the end of the process however it ends.

    The file stays behind, with the number of the process that held it last; only the lock counts.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, 32, 0).decode(errors="replace").strip()
            os.close(self._fd)
            raise NodeError(
                f"{path.parent} is in use by process {holder or '(just starting)'}",
                hint="stop that process first, or give this one a folder of its own",
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)

    def close(self) -> None:
        """Let the next one in."""
        os.close(self._fd)


def holder_of(path: Path) -> str | None:
    """The number of the process that holds this lock; None when nobody does. It changes nothing."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(fd, 32, 0).decode(errors="replace").strip() or "(just starting)"
    else:
        return None
    finally:
        os.close(fd)


_CACHED_BYTES = 1 << 20  # at the end of a log that stay in the system's cache


class OpenFile:
    """A descriptor and what we know of its file."""

    __slots__ = ("fd", "is_log", "released", "size", "unsynced", "written")

    def __init__(self, fd: int, size: int) -> None:
        self.fd = fd
        self.size = size
        self.unsynced = False
        #: it has been made larger ahead of what is written, and not for the first time
        self.is_log = False
        #: where the last write ended, and up to where the cache was told to forget it
        self.written = 0
        self.released = 0


def sync_files(files: list[tuple[FileName, OpenFile]]) -> tuple[FileName, OSError] | None:
    """In a thread of its own: sync one by one; which one failed, if one did, and how."""
    for file, opened in files:
        try:
            sync_file(opened.fd)
        except OSError as error:
            return file, error
    return None


def release_cache(opened: OpenFile) -> None:
    """What of a log was written long ago need not stay in the system's cache."""
    if opened.is_log and opened.written - opened.released >= 2 * _CACHED_BYTES:
        kept_from = opened.written - _CACHED_BYTES
        leave_cache(opened.fd, opened.released, kept_from)
        opened.released = kept_from
