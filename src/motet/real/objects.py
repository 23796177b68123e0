"""The objects port on a folder: a bucket for one machine, or for several over a shared file system.

O1  An object appears whole or not at all: it is written and synced under another name and then given
    its own. ``put`` renames; a create-only put makes a hard link, which exactly one of any number of
    threads and processes can do.
O2  When a put or delete returns, it is durable: every folder on the way to the object is synced, since
    another process may have made it a moment ago and not synced it yet.
O3  An error before the object got its name changed nothing and is an ``ObjectError``, or ``DiskFull`` when
    there was no room for it; one after it is ``OutcomeUnknown``.

Blocking calls run in threads, so the loop goes on. Many processes may use one folder at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from motet.errors import (
    DiskFull,
    MotetError,
    ObjectError,
    ObjectExists,
    ObjectMissing,
    OutcomeUnknown,
)
from motet.ids import ObjectKey
from motet.ports.objects import ObjectInfo
from motet.real.durable import FULL, make_folder, read_up_to, sync_folder_at
from motet.real.object_paths import folder_of_prefix, key_of, path_of
from motet.real.unfinished import UnfinishedFile, sweep

_OWN = "."
"""What the store keeps for itself has names that begin so; no object has."""

_UNFINISHED = ".unfinished"

_attempts_max = 100
"""How often a put makes its folder again that a delete has just found empty and removed."""


class LocalObjects:
    """Objects as files below one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._unfinished = folder / _UNFINISHED
        try:
            make_folder(self._unfinished)
            sweep(self._unfinished)
        except OSError as error:
            raise ObjectError(f"{folder}: {error.strerror}") from error

    async def put(self, key: ObjectKey, data: bytes, *, create_only: bool = False) -> None:
        path_of(key)  # refuses what cannot be a key before anything is written
        await asyncio.to_thread(self._put, key, data, create_only)

    async def get(self, key: ObjectKey, offset: int = 0, size_bytes: int | None = None) -> bytes:
        return await asyncio.to_thread(self._get, key, path_of(key), offset, size_bytes)

    async def head(self, key: ObjectKey) -> ObjectInfo:
        return await asyncio.to_thread(self._head, key, path_of(key))

    async def delete(self, key: ObjectKey) -> None:
        await asyncio.to_thread(self._delete, key, path_of(key))

    async def list(self, prefix: str = "") -> list[ObjectInfo]:
        return await asyncio.to_thread(list_folder, self._folder, prefix)

    async def confirm(self, key: ObjectKey) -> ObjectInfo:
        """The size of an object that is durable, also if somebody has named it a moment ago."""
        return await asyncio.to_thread(self._confirm, key, path_of(key))

    def file_of(self, key: ObjectKey) -> Path:
        """The file in which an object is, or would be."""
        return self._folder / path_of(key)

    # Piece by piece, called from any thread ---------------------------------------------------------

    def begin(self) -> UnfinishedFile:
        """A file for an object that is yet to come; whoever asked for it closes it in any case."""
        try:
            return UnfinishedFile(self._unfinished)
        except OSError as error:
            raise put_failed(str(self._unfinished), error) from error

    def finish(self, key: ObjectKey, unfinished: UnfinishedFile, *, create_only: bool) -> None:
        """Make what was written an object, durably."""
        target = self.file_of(key)
        try:
            unfinished.sync()
            self._give_name(unfinished.path, target, os.link if create_only else os.replace)
        except FileExistsError:
            self._sync_folders(key, target.parent)  # whoever hears of it may rely on it
            raise ObjectExists(f"{key} is already there") from None
        except OSError as error:
            raise put_failed(f"put {key}", error) from error
        self._sync_folders(key, target.parent)

    # What runs in threads ---------------------------------------------------------------------------

    def _put(self, key: ObjectKey, data: bytes, create_only: bool) -> None:
        unfinished = self.begin()
        try:
            unfinished.write(data)
            self.finish(key, unfinished, create_only=create_only)
        except OSError as error:
            raise put_failed(f"put {key}", error) from error
        finally:
            unfinished.close()

    def _give_name(
        self, unfinished: Path, target: Path, name: Callable[[Path, Path], None]
    ) -> None:
        for _ in range(_attempts_max):
            # Whatever making the folder met on its way, only the next step says whether it is there.
            with contextlib.suppress(FileExistsError, FileNotFoundError):
                target.parent.mkdir(parents=True)
            with contextlib.suppress(FileNotFoundError):
                name(unfinished, target)
                return
        raise OSError(None, f"{target.parent} does not stay")

    def _get(
        self, key: ObjectKey, path: PurePosixPath, offset: int, size_bytes: int | None
    ) -> bytes:
        assert offset >= 0
        try:
            fd = os.open(self._folder / path, os.O_RDONLY)
            try:
                left = max(0, os.fstat(fd).st_size - offset)
                return read_up_to(fd, offset, left if size_bytes is None else min(left, size_bytes))
            finally:
                os.close(fd)
        except FileNotFoundError:
            raise ObjectMissing(f"there is no {key}") from None
        except OSError as error:
            raise ObjectError(f"get {key}: {error.strerror}") from error

    def _head(self, key: ObjectKey, path: PurePosixPath) -> ObjectInfo:
        try:
            return ObjectInfo(key, (self._folder / path).stat().st_size)
        except FileNotFoundError:
            raise ObjectMissing(f"there is no {key}") from None
        except OSError as error:
            raise ObjectError(f"head {key}: {error.strerror}") from error

    def _confirm(self, key: ObjectKey, path: PurePosixPath) -> ObjectInfo:
        info = self._head(key, path)
        self._sync_folders(key, (self._folder / path).parent)
        return info

    def _delete(self, key: ObjectKey, path: PurePosixPath) -> None:
        target = self._folder / path
        try:
            target.unlink(missing_ok=True)
        except OSError as error:
            raise ObjectError(f"delete {key}: {error.strerror}") from error
        self._sync_folders(key, target.parent)
        for folder in target.relative_to(self._folder).parents[:-1]:
            try:
                (self._folder / folder).rmdir()
            except OSError:
                break  # not empty

    def _sync_folders(self, key: ObjectKey, folder: Path) -> None:
        """Make a change in this folder durable, and every folder above it up to the store's."""
        try:
            for path in (folder, *folder.parents):
                with contextlib.suppress(FileNotFoundError):  # removed again by somebody's delete
                    sync_folder_at(path)
                if path == self._folder:
                    return
        except OSError as error:
            raise OutcomeUnknown(f"{key}: {error.strerror}") from error


def put_failed(what: str, error: OSError) -> MotetError:
    """The error for a put that changed nothing."""
    if error.errno in FULL:
        return DiskFull(
            f"{what}: {error.strerror}", hint="free some room, then write it again; reads go on"
        )
    return ObjectError(f"{what}: {error.strerror}")


def list_folder(top: Path, prefix: str) -> list[ObjectInfo]:
    """All objects below the store's folder whose key starts with the prefix, sorted by key."""
    found: list[ObjectInfo] = []
    for folder, folders, names in os.walk(top / folder_of_prefix(prefix), onerror=_cannot_list):
        folders[:] = [name for name in folders if not name.startswith(_OWN)]
        for name in names:
            if name.startswith(_OWN):
                continue
            path = Path(folder, name)
            key = key_of(PurePosixPath(path.relative_to(top)))
            if key.startswith(prefix):
                with contextlib.suppress(FileNotFoundError):  # deleted while we looked
                    found.append(ObjectInfo(key, path.stat().st_size))
    return sorted(found, key=lambda info: info.key)


def _cannot_list(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise ObjectError(f"list {error.filename}: {error.strerror}") from error
