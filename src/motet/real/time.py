"""Time as the system tells it."""

from __future__ import annotations

import time
from pathlib import Path

from motet.core.machine import NS_PER_MS, Now


class RealTime:
    """The time port: the monotonic clock and the time of day."""

    def now(self) -> Now:
        return Now(time.monotonic_ns(), time.time_ns())


class ShiftedTime(RealTime):
    """A wall clock that is wrong by as many milliseconds as a file says, for tests; no file: it is right.

    The file is looked at every ``look_ms``, so that a wall can jump while a node runs.
    """

    look_ms = 20

    def __init__(self, file: Path) -> None:
        self._file = file
        self._looked_ns = 0
        self._shift_ns = 0

    def now(self) -> Now:
        now = super().now()
        if now.monotonic_ns - self._looked_ns >= self.look_ms * NS_PER_MS:
            self._looked_ns = now.monotonic_ns
            self._shift_ns = self._read() * NS_PER_MS
        return Now(now.monotonic_ns, now.wall_ns + self._shift_ns)

    def _read(self) -> int:
        try:
            return int(self._file.read_text() or 0)
        except (FileNotFoundError, ValueError):
            return 0
