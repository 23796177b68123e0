"""Files of an object store that are still being written, and how those of the dead are told from them.

An unfinished file lies in a folder of its own and is locked by whoever writes it. The system gives the lock
back however its holder ends, so a file that can be locked belongs to nobody. A file is young for a moment
between its birth and its lock; a writer whose file is swept in that moment hears of it when it wants to
name the file, and has changed nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import threading
from pathlib import Path

from motet.real.durable import sync_file, write_all
from motet.real.time import RealTime

young_seconds_max = 60
"""A file that nobody has locked is left alone for so long after its last change."""


class UnfinishedFile:
    """A file that grows piece by piece, in any threads, until it is closed."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"{os.getpid()}-{secrets.token_hex(8)}"
        self.size_bytes = 0
        #: nobody may close the file under the hands of a thread that writes it
        self._lock = threading.Lock()
        self._fd: int | None = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        with contextlib.suppress(OSError):  # a file system without locks: there nothing is swept
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def write(self, data: bytes) -> None:
        """Append some bytes; an ``OSError`` says why not."""
        with self._lock:
            assert self._fd is not None, "a file that is closed"
            write_all(self._fd, data, self.size_bytes)
            self.size_bytes += len(data)

    def sync(self) -> None:
        """Make durable what was written. It can be given its name then."""
        with self._lock:
            assert self._fd is not None, "a file that is closed"
            sync_file(self._fd)

    def close(self) -> None:
        """Remove it, unless it has got another name by now. A second time is fine."""
        with self._lock:
            if self._fd is None:
                return
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)
            os.close(self._fd)
            self._fd = None


def sweep(folder: Path) -> None:
    """Remove the files of those who have died."""
    young_ns = RealTime().now().wall_ns - young_seconds_max * 10**9
    for path in folder.iterdir():
        with contextlib.suppress(OSError):  # another one sweeps too, or it is another user's
            if path.stat().st_mtime_ns < young_ns and _is_nobodys(path):
                path.unlink()


def _is_nobodys(path: Path) -> bool:
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
