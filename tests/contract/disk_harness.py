"""What the disk suite needs beyond the port: a crash, and a disk without room."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from motet.ports import Disk
from motet.real.disk import RealDisk
from motet.sim.dice import Dice
from motet.sim.disk import SimDisk
from motet.sim.faults import DiskFaults

SEED = 7


class DiskHarness(Protocol):
    """One disk over any number of crashes."""

    @property
    def disk(self) -> Disk:
        """The disk of the current life."""

    def crash(self) -> None:
        """End this life without a warning and begin the next."""

    def full(self) -> AbstractContextManager[None]:
        """While it lasts, nothing that needs new room succeeds (room: larger than any file so far)."""

    def close(self) -> None:
        """The end of the test."""


class RealDiskHarness:
    """A folder. A crash abandons what was not synced to the system, which happens to keep it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.disk: RealDisk = RealDisk(folder)

    def crash(self) -> None:
        self.disk.close()
        self.disk = RealDisk(self._folder)

    @contextmanager
    def full(self) -> Iterator[None]:
        """The system's limit on the size of files, set to the largest there is."""
        largest = max((path.stat().st_size for path in self._folder.iterdir()), default=0)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    def close(self) -> None:
        self.disk.close()


class SimDiskHarness:
    """A disk in memory that loses and tears unsynced writes at each crash."""

    def __init__(self, _folder: Path) -> None:
        self.disk = SimDisk(Dice(SEED, "disk"), DiskFaults(lost=0.4, torn=0.4))

    def crash(self) -> None:
        self.disk.crash()

    @contextmanager
    def full(self) -> Iterator[None]:
        self.disk.full = True
        yield
        self.disk.full = False

    def close(self) -> None:
        pass
