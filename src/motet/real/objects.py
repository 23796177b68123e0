"""The objects port on a folder: a bucket for one machine, or for several over a shared file system.

O1  An object appears whole or not at all: it is written and synced under another name and then given
    its own. ``put`` renames; a create-only put makes a hard link, which exactly one of any number of
    threads and processes can do.
O2  When a put or delete returns, it is durable: every folder on the way to the object is synced, since
    another process may have made it a moment ago and not synced it yet.
O3  An error before the object got its name changed nothing and is an ``ObjectError``, or ``DiskFull`` when
    there was no room for it; one after it is ``OutcomeUnknown``.
O4  An unfinished file lies in a folder of its own, locked by whoever writes it. The system releases the lock
    however its holder ends, so a file that can be locked belongs to nobody. A writer whose file is swept
    between its creation and its lock hears of it when it wants to name the file, and has changed nothing.
O5  Any text can be a key, and no key can reach outside the folder or collide with another. Each part of a
    key between slashes becomes one name: lower-case letters, digits and ``._-~`` stay, every other byte
    becomes ``%`` and two hexadecimal digits; upper-case letters too, since some file systems take them for
    lower-case ones. Folders end in ``+``, so that the objects ``a`` and ``a/b`` can both be there; an empty
    last part is called ``%``. A leading dot is escaped: names that begin with one are the store's own.

Blocking calls run in threads. Many processes may use one folder at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
import threading
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from urllib.parse import unquote_to_bytes

from motet.errors import (
    BadInput,
    DiskFull,
    MotetError,
    ObjectError,
    ObjectExists,
    ObjectMissing,
    OutcomeUnknown,
)
from motet.ids import ObjectKey
from motet.ports import ObjectInfo
from motet.real.durable import FULL, make_folder, read_up_to, sync_file, sync_folder_at, write_all
from motet.real.process import RealTime

key_bytes_max = 1024
"""The bound of S3."""

name_bytes_max = 255
"""The longest name that common file systems take."""

FOLDER_MARK = "+"
_EMPTY = "%"
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789._-~")


def path_of(key: ObjectKey) -> PurePosixPath:
    """Where the object is, relative to the store's folder. ``BadInput`` for what cannot be a key."""
    size_bytes = len(_bytes_of(key))
    if not 0 < size_bytes <= key_bytes_max:
        raise BadInput(f"a key of {size_bytes} bytes", hint=f"use 1 to {key_bytes_max} bytes")
    *folders, last = key.split("/")
    names = [_escape(folder) + FOLDER_MARK for folder in folders]
    names.append(_escape(last) or _EMPTY)
    if max(map(len, names)) > name_bytes_max:
        raise BadInput(
            f"a part of the key {key!r} is too long for a file name",
            hint=f"use at most {name_bytes_max} bytes between slashes, a third of that if escaped",
        )
    return PurePosixPath(*names)


def key_of(path: PurePosixPath) -> ObjectKey:
    """The key of the object at this relative path."""
    *folders, last = path.parts
    names = [folder.removesuffix(FOLDER_MARK) for folder in folders]
    names.append("" if last == _EMPTY else last)
    return ObjectKey("/".join(unquote_to_bytes(name).decode() for name in names))


def folder_of_prefix(prefix: str) -> PurePosixPath:
    """The folder below which all objects are whose key starts with the prefix."""
    folders = prefix.split("/")[:-1]
    return PurePosixPath(*[_escape(folder) + FOLDER_MARK for folder in folders])


def _escape(part: str) -> str:
    name = "".join(chr(byte) if byte in _PLAIN else f"%{byte:02x}" for byte in _bytes_of(part))
    return "%2e" + name[1:] if name.startswith(".") else name


def _bytes_of(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{text!r} cannot be a key or part of one: it is not valid text") from None


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
