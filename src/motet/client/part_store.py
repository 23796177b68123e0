"""Where the files of parts are kept, as a client sees it: in a folder at hand, or behind a node's HTTP port.

A file is put whole and is durable when ``put`` returns; it is never changed afterwards. Nothing is visible
to readers of a table by being here: that takes a publication that names it. What was put and never
published is garbage, and harmless.

Every call ends in one of three ways: it returns; it raises an ``ObjectError`` (``ObjectMissing`` when there
is no such file, ``BadRecord`` when it is not what was written) or ``DiskFull``, and nothing was changed; or
``OutcomeUnknown``, and putting the same again is fine.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec

from motet.client.http_calls import ConnectionLost, HttpCalls, Unreachable
from motet.client.part_check import CHECKED
from motet.client.part_folder import token_of
from motet.errors import NodeError, ObjectError, ObjectExists, TooLarge
from motet.format.manifest import manifest_bytes_max, manifest_key, parse_part_key, part_key
from motet.ids import ObjectKey
from motet.limits import KIB, part_bytes_max
from motet.real.objects import LocalObjects

__all__ = [
    "DirectParts",
    "PartStore",
    "PartsFound",
    "PartsLocator",
    "base_url_of",
    "check_size",
    "find_parts",
    "manifest_key",
    "open_parts",
    "part_key",
]

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
