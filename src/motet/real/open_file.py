"""An open file of a disk, and what is done with its descriptor alone: also in threads."""

from __future__ import annotations

from motet.ids import FileName
from motet.real.durable import leave_cache, sync_file

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
