"""One process per folder: a lock that the system gives back whatever happens to its holder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from motet.errors import NodeError


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
