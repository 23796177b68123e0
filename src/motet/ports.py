"""What a driver needs of the world, as small protocols: disk, network, objects, time, entropy.

:mod:`motet.real` offers them on this machine, :mod:`motet.sim` in a seeded world with faults. One contract
suite per port (``tests/contract``) runs against both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from motet.core.machine import Now
from motet.errors import DiskFull
from motet.format.frame import Frame
from motet.ids import Address, FileName, ObjectKey


class Time(Protocol):
    """A monotonic clock, and a wall clock that may jump."""

    def now(self) -> Now:
        """Read both."""


class Entropy(Protocol):
    """A source of bits nobody can predict, or exactly the seed can."""

    def nonce(self) -> int:
        """63 fresh random bits, never zero."""


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


class Delivery(msgspec.Struct, frozen=True):
    """One frame that has come in."""

    sender: Address
    frame: Frame


class Network(Protocol):
    """One node's or client's place in the network."""

    @property
    def address(self) -> Address:
        """Who we are to our peers."""

    def send(self, to: Address, frame: Frame) -> bool:
        """Queue a frame. False: dropped at once (unknown peer or a full queue); True promises nothing.

        What a node has to say to itself does not go through the network.
        """

    def flush(self) -> None:
        """Hand over all that is queued: one write per peer."""

    def take(self, limit: int) -> Sequence[Delivery]:
        """What has arrived, oldest first, at most so many."""


class ObjectInfo(msgspec.Struct, frozen=True):
    """What a listing says of an object."""

    key: ObjectKey
    size_bytes: int


class Objects(Protocol):
    """A bucket, or a folder that behaves like one."""

    async def put(self, key: ObjectKey, data: bytes, *, create_only: bool = False) -> None:
        """Write a whole object; ``ObjectExists`` if ``create_only`` finds the key taken."""

    async def get(self, key: ObjectKey, offset: int = 0, size_bytes: int | None = None) -> bytes:
        """A range of an object, shorter at its end. ``ObjectMissing`` when there is none."""

    async def head(self, key: ObjectKey) -> ObjectInfo:
        """Size of an object. ``ObjectMissing`` when there is none."""

    async def delete(self, key: ObjectKey) -> None:
        """Remove an object; none is fine."""

    async def list(self, prefix: str = "") -> list[ObjectInfo]:
        """All objects whose key starts with the prefix, sorted by key."""
