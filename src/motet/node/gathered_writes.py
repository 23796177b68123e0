"""The writes of a turn, gathered so that those which lie behind each other in a file become one call.

Journals grow at their end, so a turn of 64 records is one call of the system instead of 64, and the call
is what costs. Within a file the order of writes is kept. Across files there is none to keep: nothing
is durable before the sync, and a crash may leave any subset (E4).
"""

from __future__ import annotations

from collections.abc import Iterable

from motet.core.machine import Write
from motet.errors import DiskFull
from motet.ids import FileName
from motet.ports import Disk

long_bytes = 64 << 10
"""A write of so much costs its bytes, not its call."""


class _Run:
    """Writes that lie behind each other."""

    __slots__ = ("end", "writes")

    def __init__(self, first: Write) -> None:
        self.writes = [first]
        self.end = first.offset + len(first.data)


class GatheredWrites:
    """Takes writes, and does them when it is told to."""

    __slots__ = ("_last_runs", "_runs", "size_bytes")

    def __init__(self) -> None:
        self._runs: list[_Run] = []
        #: the newest run of each file
        self._last_runs: dict[FileName, _Run] = {}
        self.size_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._runs)

    @property
    def count(self) -> int:
        """How many writes there are."""
        return sum(len(run.writes) for run in self._runs)

    def files(self) -> Iterable[FileName]:
        """Which files will change, in the order in which they were touched first."""
        return self._last_runs.keys()

    def add(self, write: Write) -> int:
        """Do this one later; how many bytes are gathered now."""
        size_bytes = len(write.data)
        run = self._last_runs.get(write.file)
        if run is not None and run.end == write.offset:
            run.writes.append(write)
            run.end += size_bytes
        else:
            self._last_runs[write.file] = run = _Run(write)
            self._runs.append(run)
        self.size_bytes = total_bytes = self.size_bytes + size_bytes
        return total_bytes

    def carry_out(self, disk: Disk) -> list[tuple[Write, DiskFull]]:
        """Do all of them now; those for which there was no room. Any other error is passed on."""
        runs, self._runs = self._runs, []
        self._last_runs = {}
        self.size_bytes = 0
        failed: list[tuple[Write, DiskFull]] = []
        for run in runs:
            failed += _write_run(disk, run.writes)
        return failed


def _write_run(disk: Disk, writes: list[Write]) -> list[tuple[Write, DiskFull]]:
    # Putting long ones together would cost more than the calls.
    if len(writes) > 1 and len(writes[0].data) < long_bytes:
        first = writes[0]
        try:
            disk.write(first.file, first.offset, b"".join([write.data for write in writes]))
        except DiskFull:
            pass  # the file is as it was; what there is room for will fit one by one
        else:
            return []
    failed = []
    for write in writes:
        try:
            disk.write(write.file, write.offset, write.data)
        except DiskFull as error:
            failed.append((write, error))
    return failed
