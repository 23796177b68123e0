"""Where the files of parts are kept, as a client sees it: in a folder at hand, or behind a node's HTTP port.

A file is put whole and is durable when ``put`` returns; it is never changed afterwards. Nothing is visible
to readers of a table by being here: that takes a publication that names it. What was put and never
published is garbage, and harmless.

Every call ends in one of three ways: it returns; it raises an ``ObjectError`` (``ObjectMissing`` when there
is no such file, ``BadRecord`` when it is not what was written) or ``DiskFull``, and nothing was changed; or
``OutcomeUnknown``, and putting the same again is fine.

*The folder at hand.* Whoever opens the database writes a fresh random token into ``.store`` and tells it to
those who ask. A client that reads the same token from the folder of that name on its own machine can use the
files directly. The token is a new one each time, so a copy of the folder on another machine is not taken for
it.

*Checks.* The manifest of a part has the hash of its file; the name of the file and the record that published
it have it, too. A file is hashed before its first read in a process, and again when its size, its time of
change or its inode has changed. Nothing is remembered of a file that is damaged: each reader is told.
Whoever opens the file of a part for reading checks it so: the store in a folder, Spark's own reader, and the
node that serves ranges over HTTP. A file that came over HTTP as a whole is hashed on arrival, too.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
import threading
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec

from motet.client.http_calls import ConnectionLost, HttpCalls, Unreachable
from motet.errors import (
    BadBytes,
    BadRecord,
    DiskReadFailed,
    NodeError,
    ObjectError,
    ObjectExists,
    ObjectMissing,
    TooLarge,
)
from motet.format.manifest import (
    HASH_BYTES,
    MANIFEST_FILE,
    decode_manifest,
    manifest_bytes_max,
    parse_part_key,
)
from motet.ids import ObjectKey
from motet.limits import KIB, MIB, checked_files_max, part_bytes_max
from motet.real.durable import make_folder, read_up_to
from motet.real.objects import LocalObjects

STORE_FILE = ".store"
_TOKEN = re.compile(r"[0-9a-f]{32}")


def prepare_folder(folder: Path) -> str:
    """Make the folder, durably, and give it a token; an ``OSError`` says why not."""
    make_folder(folder)
    token = secrets.token_hex(16)
    unfinished = folder / f"{STORE_FILE}~"
    # No other user may write there, so none needs to believe that it could: such a client uses HTTP.
    fd = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(fd, f"{token}\n".encode())
    finally:
        os.close(fd)
    unfinished.replace(folder / STORE_FILE)
    return token


def token_of(folder: Path) -> str | None:
    """The token of the folder of this name on this machine; None if there is none to be read."""
    try:
        token = (folder / STORE_FILE).read_text("ascii").strip()
    except (OSError, ValueError):
        return None
    return token if _TOKEN.fullmatch(token) else None


_piece_bytes = MIB
_locks = 64

State = tuple[int, int, int]
"""Size in bytes, time of the last change in nanoseconds, inode: another one, and the file is hashed again."""


class CheckedFiles:
    """The files that this process found to be what was written; for any threads."""

    def __init__(self, files_max: int = checked_files_max) -> None:
        self._files_max = files_max
        self._lock = threading.Lock()
        #: path -> its state when it was hashed, the last used at the end
        self._states: OrderedDict[str, State] = OrderedDict()
        #: of those who want the same file, one hashes it
        self._hashing = [threading.Lock() for _ in range(_locks)]

    def check(self, path: Path, key: ObjectKey, size_bytes: int | None = None) -> None:
        """``BadRecord`` when the file is not what was written; its size is checked where it is known."""
        try:
            fd = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            raise ObjectMissing(f"there is no {key}: {path} is missing") from None
        except OSError as error:
            raise ObjectError(f"{path}: {error.strerror}") from error
        try:
            self.check_open(fd, path, key, size_bytes)
        finally:
            os.close(fd)

    def check_open(
        self, fd: int, path: Path, key: ObjectKey, size_bytes: int | None = None
    ) -> None:
        """The same of a file that is open already."""
        promised = parse_part_key(key).hash
        status = os.fstat(fd)
        if size_bytes is not None and status.st_size != size_bytes:
            what = f"it has {status.st_size} bytes, and {size_bytes} were written"
            raise damaged(key, path, what)
        if promised is None:
            return  # a manifest, which has checksums of its own
        state = (status.st_size, status.st_mtime_ns, status.st_ino)
        name = str(path)
        if self._is_known(name, state):
            return
        with self._hashing[hash(name) % _locks]:
            if self._is_known(name, state):
                return
            found = _hash_of(fd, status.st_size, path)
            if found != promised:
                raise damaged(key, path, f"its hash is {found}, and {promised} was written")
            self._remember(name, state)

    def _is_known(self, name: str, state: State) -> bool:
        with self._lock:
            if self._states.get(name) != state:
                return False
            self._states.move_to_end(name)
            return True

    def _remember(self, name: str, state: State) -> None:
        with self._lock:
            self._states[name] = state
            self._states.move_to_end(name)
            while len(self._states) > self._files_max:
                self._states.popitem(last=False)


CHECKED = CheckedFiles()
"""Those of this process."""


def damaged(key: ObjectKey, path: Path, what: str) -> BadRecord:
    """The error that names the table, the part and the file."""
    named = parse_part_key(key)
    table = _table_name(path.parent)
    whose = f"table {table}" if table is not None else f"the table with id {named.table_id}"
    return BadRecord(
        f"part {named.part_id} of {whose} is damaged: {path}: {what}",
        hint="put a whole copy of this file in its place; other tables and other parts can be read",
    )


def _table_name(folder: Path) -> str | None:
    """The table as the manifest beside a file has it; None if that cannot be read either."""
    with suppress(OSError, BadBytes), (folder / MANIFEST_FILE).open("rb") as file:
        return decode_manifest(file.read(manifest_bytes_max)).table
    return None


def _hash_of(fd: int, size_bytes: int, path: Path) -> str:
    hash_ = hashlib.blake2b(digest_size=HASH_BYTES)
    try:
        for start in range(0, size_bytes, _piece_bytes):
            hash_.update(read_up_to(fd, start, min(_piece_bytes, size_bytes - start)))
    except OSError as error:
        raise DiskReadFailed(f"{path}: {error.strerror}") from error
    return hash_.hexdigest()


PARTS_PATH = "/api/parts"
_found_bytes_max = 64 * KIB


class PartsLocator(msgspec.Struct, frozen=True):
    """From where a store can be opened in another process: a folder, if it is at hand, else a node."""

    folder: str
    token: str
    #: empty when no node serves it
    base_url: str = ""


class PartsFound(msgspec.Struct, frozen=True):
    """What a node says about its parts: the answer of ``/api/parts``."""

    folder: str
    #: the number of the database, in hex
    database: str
    token: str


class PartStore(Protocol):
    """The files of parts."""

    async def put(self, key: ObjectKey, data: bytes) -> None:
        """Write a whole file; durable when it returns. The same once more is fine."""

    async def remove(self, key: ObjectKey) -> None:
        """Remove a file of a part that is not published; one that is not there is fine."""

    async def path(self, key: ObjectKey, size_bytes: int) -> Path:
        """The whole file on this machine; a remote one is fetched, checked and kept until ``close``."""

    def source(self, key: ObjectKey, size_bytes: int) -> str | BinaryIO:
        """The file for a reader of Parquet: its path, or something that reads and seeks. It blocks."""

    def locator(self) -> PartsLocator:
        """From where another process opens the same store; can be pickled."""

    async def close(self) -> None:
        """Forget what was fetched: paths that the store gave out are gone."""


class DirectParts:
    """Parts in a folder of this machine; any number of processes may use it at once."""

    def __init__(self, folder: Path, *, token: str = "", base_url: str = "") -> None:
        self._folder = folder.absolute()
        self._objects = LocalObjects(self._folder)
        self._token = token
        #: where a node serves the same files, for those on other machines
        self.base_url = base_url

    async def put(self, key: ObjectKey, data: bytes) -> None:
        check_size(key, len(data))
        try:
            await self._objects.put(key, data, create_only=True)
        except ObjectExists:
            if await self._is_same(key, data):
                return
            raise

    async def remove(self, key: ObjectKey) -> None:
        parse_part_key(key)
        await self._objects.delete(key)

    async def path(self, key: ObjectKey, size_bytes: int) -> Path:
        return await asyncio.to_thread(self._path, key, size_bytes)

    def source(self, key: ObjectKey, size_bytes: int) -> str:
        return str(self._path(key, size_bytes))

    def locator(self) -> PartsLocator:
        return PartsLocator(str(self._folder), self._token, self.base_url)

    async def close(self) -> None:
        """Nothing is kept open."""

    async def _is_same(self, key: ObjectKey, data: bytes) -> bool:
        """A file of that name with the hash in it is the same, or damaged; a manifest is short."""
        if parse_part_key(key).hash is not None:
            await self.path(key, len(data))
            return True
        return await self._objects.get(key, 0, manifest_bytes_max + 1) == data

    def _path(self, key: ObjectKey, size_bytes: int) -> Path:
        parse_part_key(key)
        path = self._objects.file_of(key)
        CHECKED.check(path, key, size_bytes)
        return path


def check_size(key: ObjectKey, size_bytes: int) -> None:
    """``BadInput`` for what is no key, ``TooLarge`` for what is too much for it."""
    most = part_bytes_max if parse_part_key(key).hash is not None else manifest_bytes_max
    if size_bytes > most:
        raise TooLarge(f"{key} with {size_bytes} bytes exceeds the limit of {most}")


def open_parts(locator: PartsLocator) -> PartStore:
    """The store that a locator speaks of, directly if its folder is at hand here."""
    from motet.client.part_http import HttpParts

    if locator.folder and locator.token and token_of(Path(locator.folder)) == locator.token:
        return DirectParts(Path(locator.folder), token=locator.token, base_url=locator.base_url)
    if locator.base_url:
        return HttpParts(locator.base_url)
    raise ObjectError(
        f"the parts in {locator.folder or 'no folder'} cannot be reached from here",
        hint="ask the database for its endpoint first: it serves its parts from then on",
    )


async def find_parts(host: str, http_port: int, database: int) -> PartStore:
    """The parts of the database of this number, served over HTTP there. ``NodeError`` when they are not."""
    base_url = base_url_of(host, http_port)
    found = await asyncio.to_thread(_ask_for_parts, base_url, database)
    return open_parts(PartsLocator(found.folder, found.token, base_url))


def base_url_of(host: str, http_port: int) -> str:
    """The address of a node's HTTP port; an IPv6 host gets its brackets."""
    return f"http://[{host}]:{http_port}" if ":" in host else f"http://{host}:{http_port}"


def _ask_for_parts(base_url: str, database: int) -> PartsFound:
    calls = HttpCalls(base_url)
    try:
        with calls.ask("GET", f"{PARTS_PATH}?database={database:016x}") as answer:
            if answer.status != 200:
                raise NodeError(
                    f"{base_url}{PARTS_PATH} answered {answer.status}: it has no parts",
                    hint="connect to what db.endpoint says",
                )
            return msgspec.json.decode(answer.read_all(_found_bytes_max), type=PartsFound)
    except (Unreachable, ConnectionLost) as error:
        raise NodeError(
            f"nothing answers at {base_url} ({error})",
            hint="a node serves HTTP at its port + 3: check the address, and that it runs",
        ) from None
    except msgspec.MsgspecError:
        raise NodeError(f"{base_url} does not answer as a node does") from None
    finally:
        calls.close()
