"""Kills what a test process leaves behind when it dies without a word.

A local cluster starts this file as a process of its own, with a pipe to its standard input, and writes
``+PID`` for each node it starts and ``-PID`` for each that has ended. When the pipe ends, and it does
whatever happens to the test process, the reaper kills the nodes that are still there, and removes the folders
whose paths it was told. It imports next to nothing, needs no help from the nodes, and works wherever there
are pipes and signals.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

removals_max, removal_pause_seconds = 100, 0.05


class Reaper:
    """The cluster's end of the pipe."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            # Isolated, and without site packages: it starts in a few milliseconds.
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            # It may outlive this process: whoever reads our output must not wait for it.
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # ^C in the terminal is not for the reaper
        )

    def started(self, pid: int) -> None:
        self._tell(f"+{pid}\n")

    def ended(self, pid: int) -> None:
        with contextlib.suppress(
            OSError
        ):  # even if the reaper is gone, the other nodes must be ended
            self._tell(f"-{pid}\n")

    def remove_at_end(self, folder: Path) -> None:
        """Remove a folder when this process has ended, with whatever is still put there."""
        self._tell(f"{folder.absolute()}\n")

    def close(self) -> None:
        """Let the reaper go; whatever it still knows of, it kills."""
        self._pipe.close()
        self._process.wait()

    @property
    def _pipe(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _tell(self, line: str) -> None:
        self._pipe.write(line.encode())
        self._pipe.flush()


def reap(lines: Iterable[str]) -> None:
    """Follow what starts and ends, and kill the rest when there are no more lines."""
    alive: dict[int, None] = {}
    folders = []
    for line in lines:
        if line.startswith("/"):
            folders.append(line.rstrip("\n"))
            continue
        pid = int(line[1:])
        if line.startswith("+"):
            alive[pid] = None
        else:
            alive.pop(pid, None)
    for pid in alive:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for folder in folders:
        _remove(folder)


def _remove(folder: str) -> None:
    """All of it: a process that is just being killed may still put something there."""
    import shutil
    import threading

    for _ in range(removals_max):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):  # noqa: PTH110
            return
        threading.Event().wait(removal_pause_seconds)


if __name__ == "__main__":
    reap(sys.stdin)
