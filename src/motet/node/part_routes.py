"""The files of parts over HTTP: read by range, put whole.

R1  Nothing but a part's file can be named: every key is checked before it becomes a path.
R2  A file that is put is seen whole or not at all, and it is what its name says: its hash is checked before
    it gets its name, and a manifest is that of the part it lies beside.
R3  A put is answered when it is durable: 201, or 200 when the same was there already. Asking for the head
    of a file makes durable what it tells of.
R4  A file is checked against the hash in its name before a byte of it is given out: once in the life of the
    process, and again when it was changed. Of one that is damaged nothing is given, and the answer says so.
R5  A file can be removed as long as its part is not published: whoever put it has no use for it any more.
R6  No file is ever in memory as a whole, and the loop never waits for the disk.
"""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Protocol

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from motet.client.parts import CHECKED, PARTS_PATH, PartsFound, check_size
from motet.errors import BadInput, BadRecord, ObjectError, ObjectExists, ObjectMissing, TooLarge
from motet.format.manifest import (
    HASH_BYTES,
    PartFileKey,
    content_hash,
    decode_manifest,
    manifest_bytes_max,
    parse_part_key,
)
from motet.ids import ObjectKey, PartId, TableId
from motet.limits import MIB, part_bytes_max, put_bytes_max
from motet.node.file_answer import OpenFile, answer_file
from motet.node.http import JsonAnswer, error_answer
from motet.real.objects import LocalObjects, UnfinishedFile, put_failed

uploads_max = 32
"""Files that are being received at once; more wait until there is room."""

_piece_bytes = MIB
_PREFIX = "/parts/"


class ServedDatabase(Protocol):
    """What has to be known of the database that the parts belong to."""

    def database(self) -> int:
        """Its number."""

    def has_table(self, table: TableId) -> bool: ...

    def has_part(self, table: TableId, part: PartId) -> bool:
        """Whether it was published."""


class ServedParts:
    """The parts of one database, as its node serves them."""

    def __init__(self, folder: Path, token: str, database: ServedDatabase) -> None:
        self._folder = folder.absolute()
        self._token = token
        self._database = database
        #: parts that were put here and not published, as far as is known; how many bytes of each
        self._put_bytes: dict[tuple[TableId, PartId], int] = {}
        self._objects = LocalObjects(self._folder)
        self._room = asyncio.Semaphore(uploads_max)

    def routes(self) -> list[Route]:
        return [
            Route(PARTS_PATH, self.found),
            Route(_PREFIX + "{key:path}", self.read, methods=["GET", "HEAD"]),
            Route(_PREFIX + "{key:path}", self.put, methods=["PUT"]),
            Route(_PREFIX + "{key:path}", self.remove, methods=["DELETE"]),
        ]

    async def found(self, request: Request) -> Response:
        """Where the files are, for those who may have them at hand (R4)."""
        number = f"{self._database.database():016x}"
        if request.query_params.get("database") != number:
            raise ObjectMissing("there is no such database", hint="ask with ?database=<its number>")
        return JsonAnswer(PartsFound(str(self._folder), number, self._token))

    async def read(self, request: Request) -> Response:
        """A file or a range of it."""
        key, named = _key_of(request)
        if request.method == "HEAD":
            await self._objects.confirm(key)
        tag = named.hash
        if tag is None:
            tag = content_hash(await self._objects.get(key, 0, manifest_bytes_max))
        file = await asyncio.to_thread(self._open, key)
        return answer_file(request, file, tag, key)

    async def put(self, request: Request) -> Response:
        """Take a whole file in."""
        key, named = _key_of(request)
        announced = request.headers.get("content-length", "")
        size_bytes = int(announced) if announced.isdecimal() else part_bytes_max
        check_size(key, size_bytes if announced.isdecimal() else 0)
        self._check_room(named, size_bytes)
        async with self._room:
            unfinished = await asyncio.to_thread(self._objects.begin)
            try:
                found = await self._receive(request, key, unfinished)
                await asyncio.to_thread(_check_content, key, named, unfinished, found)
                answer = await self._finish(key, unfinished, found)
                self._count(named, unfinished.size_bytes)
                return answer
            except ClientDisconnect:
                return error_answer(BadInput(f"{key} did not come to its end"))  # nobody hears it
            except OSError as error:
                raise put_failed(f"put {key}", error) from error
            finally:
                await asyncio.shield(asyncio.to_thread(unfinished.close))

    async def remove(self, request: Request) -> Response:
        """Give the room of a file back that nobody sees (R5)."""
        key, named = _key_of(request)
        part = named.table_id, named.part_id
        if self._database.has_part(*part):
            raise ObjectExists(f"{key} is of a part that is published, and stays")
        await self._objects.delete(key)
        self._put_bytes.pop(part, None)
        return Response(status_code=204)

    def _check_room(self, named: PartFileKey, size_bytes: int) -> None:
        """R4."""
        if not self._database.has_table(named.table_id):
            raise ObjectMissing(
                f"there is no table with the id {named.table_id}", hint="create the table first"
            )
        if sum(self._put_bytes.values()) + size_bytes <= put_bytes_max:
            return
        unpublished = self._put_bytes.items()
        self._put_bytes = {
            part: size for part, size in unpublished if not self._database.has_part(*part)
        }
        waiting_bytes = sum(self._put_bytes.values())
        if waiting_bytes + size_bytes > put_bytes_max:
            raise TooLarge(
                f"{waiting_bytes} bytes of parts were put here and not published; the limit is "
                f"{put_bytes_max}",
                hint="publish what was put, or open the database again",
            )

    def _count(self, named: PartFileKey, size_bytes: int) -> None:
        part = named.table_id, named.part_id
        self._put_bytes[part] = self._put_bytes.get(part, 0) + size_bytes

    async def _receive(self, request: Request, key: ObjectKey, unfinished: UnfinishedFile) -> str:
        """Write down what comes; the hash of it."""
        hash_ = hashlib.blake2b(digest_size=HASH_BYTES)

        def keep(piece: bytes) -> None:
            hash_.update(piece)
            unfinished.write(piece)

        waiting = bytearray()
        async for chunk in request.stream():
            waiting += chunk
            check_size(key, unfinished.size_bytes + len(waiting))
            if len(waiting) >= _piece_bytes:
                await asyncio.to_thread(keep, bytes(waiting))
                waiting.clear()
        await asyncio.to_thread(keep, bytes(waiting))
        return hash_.hexdigest()

    async def _finish(self, key: ObjectKey, unfinished: UnfinishedFile, found: str) -> Response:
        """Give it its name, or see that the same has it already."""
        answer = {"key": key, "size_bytes": unfinished.size_bytes, "hash": found}
        try:
            await asyncio.to_thread(self._objects.finish, key, unfinished, create_only=True)
        except ObjectExists:
            if not await asyncio.to_thread(self._is_same, key, unfinished.size_bytes, found):
                raise
            return JsonAnswer(answer, 200)
        return JsonAnswer(answer, 201)

    def _is_same(self, key: ObjectKey, size_bytes: int, found: str) -> bool:
        file = self._open(key)
        try:
            if parse_part_key(key).hash is not None:
                return True  # it was checked when it was opened
            is_as_long = file.size_bytes == size_bytes
            return is_as_long and content_hash(file.read(0, manifest_bytes_max)) == found
        finally:
            file.close()

    def _open(self, key: ObjectKey) -> OpenFile:
        path = self._objects.file_of(key)
        try:
            file = OpenFile(path)
        except FileNotFoundError:
            raise ObjectMissing(f"there is no {key}") from None
        except OSError as error:
            raise ObjectError(f"get {key}: {error.strerror}") from error
        try:
            file.check(lambda fd: CHECKED.check_open(fd, path, key))
        except BaseException:
            file.close()
            raise
        return file


def _key_of(request: Request) -> tuple[ObjectKey, PartFileKey]:
    # Not the key that the route has found: it leaves out the end of a line at the end.
    key = ObjectKey(request.scope["path"].removeprefix(_PREFIX))
    return key, parse_part_key(key)


def _check_content(
    key: ObjectKey, named: PartFileKey, unfinished: UnfinishedFile, found: str
) -> None:
    """``BadInput`` when a file is not what its key says (R2)."""
    if named.hash is not None:
        if found != named.hash:
            raise BadInput(
                f"the content of {key} has the hash {found}",
                hint="send it again: it was changed on the way, or goes by another name",
            )
        return
    try:
        manifest = decode_manifest(unfinished.path.read_bytes())
    except BadRecord as error:
        raise BadInput(f"{key}: {error.what}", hint="send the whole record") from None
    if (manifest.table_id, manifest.part_id) != (named.table_id, named.part_id):
        raise BadInput(f"{key}: this is the manifest of part {manifest.part_id}")
