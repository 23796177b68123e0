"""An object store: write-once objects under keys, read by range. The shape of S3, kept small.

Every call ends in one of three ways: it returns, it raises an ``ObjectError`` or ``DiskFull`` (nothing was
changed), or it raises ``OutcomeUnknown`` (a timeout, a broken connection): then the caller reads back and
compares, which is always possible because a key is never used for two contents.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from motet.ids import ObjectKey


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
