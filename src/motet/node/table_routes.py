"""The parts of a node's table replicas over HTTP: read by range, and put ahead of an insert.

R1  Only checked words become paths: every key is parsed before anything is looked at.
R2  A file is put whole: it is answered for when it is durable, 201, or 200 when the same was there already.
    What becomes of it says :mod:`motet.node.part_uploads`.
R3  A part is read from where it is: stored, staged or arrived. It is compared with its manifest before a byte
    of it is given, once in the life of the process. Of one that is damaged nothing is given; the answer is
    ``BAD_RECORD``, and the machine is told.
R4  No file is ever in memory as a whole, and the loop never waits for the disk.
R5  What a client puts goes on to the other replicas of the shard (:mod:`motet.node.part_forwarding`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

from blake3 import blake3
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from motet.client.part_client import FORWARDED_HEADER, PLACE_PATH, PartsPlace
from motet.core.mergetree.entries import PartHeader
from motet.errors import BadInput, BadRecord, ObjectError, ObjectMissing, TooLarge
from motet.format.part_manifest import MANIFEST_FILE, PART_FILE
from motet.ids import TableId
from motet.limits import KIB, MIB, part_file_bytes_max, part_manifest_bytes_max
from motet.node.file_answer import OpenFile, answer_file
from motet.node.http import JsonAnswer, error_answer
from motet.node.part_draft import PartDraft
from motet.node.part_folders import PartFolders
from motet.node.part_forwarding import ForwardedFile, PartForwarding
from motet.node.part_uploads import PartUploads
from motet.real.objects import put_failed
from motet.real.part_files import CHECKED_PARTS, PartKey, find_part, read_manifest

uploads_max = 32
"""Files that are being received at once; more wait until there is room."""

_PREFIX = "/tables/"
_attempts_max = 3
_bytes_max = {PART_FILE: part_file_bytes_max, MANIFEST_FILE: part_manifest_bytes_max + KIB}


class ServedTables:
    """The parts of one node, as it serves them.

    ``has_replica`` says whether this node keeps a shard; ``arrived`` and ``damaged`` are told of parts.
    """

    def __init__(
        self,
        folders: PartFolders,
        token: str,
        *,
        has_replica: Callable[[TableId, int], bool],
        arrived: Callable[[PartKey, PartHeader], None],
        damaged: Callable[[PartKey, str], None],
        forwarding: PartForwarding | None = None,
    ) -> None:
        self._folders = folders
        self._place = PartsPlace(str(folders.root), token)
        self._has_replica = has_replica
        self._damaged = damaged
        self._forwarding = forwarding
        self._uploads = PartUploads(folders, arrived)
        self._room = asyncio.Semaphore(uploads_max)

    def routes(self) -> list[Route]:
        path = _PREFIX + "{key:path}"
        return [
            Route(PLACE_PATH, self.place),
            Route(path, self.read, methods=["GET", "HEAD"]),
            Route(path, self.put, methods=["PUT"]),
        ]

    async def place(self, _: Request) -> Response:
        """Where the files are, for those who may have them at hand."""
        return JsonAnswer(self._place)

    async def read(self, request: Request) -> Response:
        """A file or a range of it."""
        key, name = _named(request)
        try:
            file, tag = await asyncio.to_thread(self._open, key, name)
        except BadRecord as error:
            self._damaged(key, error.what)
            raise
        return answer_file(request, file, tag, f"{key}/{name}")

    async def put(self, request: Request) -> Response:
        """Take one file in."""
        key, name = _named(request)
        announced = request.headers.get("content-length", "")
        if not announced.isdecimal():
            raise BadInput(f"put {key}/{name}: how long it is has to be said in advance")
        size_bytes = int(announced)
        if size_bytes > _bytes_max[name]:
            limit = f"the limit of {_bytes_max[name]}"
            raise TooLarge(f"{key}/{name} with {size_bytes} bytes exceeds {limit}")
        if not self._has_replica(key.table, key.shard):
            what = f"this node has no replica of shard {key.shard} of table {key.table}"
            raise ObjectMissing(what, hint="ask which nodes have one, and put it there")
        async with self._room:
            others = self._forwarded(request, key, name, size_bytes)
            receive = _receive_file if name == PART_FILE else _receive_manifest
            fill = partial(receive, request, others)
            try:
                is_new = await self._uploads.receive(key, name, size_bytes, fill)
            except ClientDisconnect:
                return error_answer(
                    BadInput(f"{key}/{name} did not come to its end")
                )  # nobody hears it
            except OSError as error:
                raise put_failed(f"put {key}/{name}", error) from error
            finally:
                for each in others:
                    each.end()
        answer = {"part": str(key), "file": name, "size_bytes": size_bytes}
        return JsonAnswer(answer, 201 if is_new else 200)

    def _forwarded(
        self, request: Request, key: PartKey, name: str, size_bytes: int
    ) -> list[ForwardedFile]:
        """R5."""
        if self._forwarding is None or FORWARDED_HEADER in request.headers:
            return []
        return self._forwarding.begin(key, name, size_bytes)

    # In threads -------------------------------------------------------------------------------------

    def _open(self, key: PartKey, name: str) -> tuple[OpenFile, str]:
        """A file that has been checked, and its tag; it may be moved while it is looked for."""
        for _ in range(_attempts_max):
            folder = find_part(self._folders.root, key)
            if folder is None:
                break
            try:
                return _open_in(folder, name)
            except (FileNotFoundError, ObjectMissing):
                if folder.is_dir():
                    what = f"part {key} is damaged: a file is missing"
                    raise BadRecord(what, hint="another replica has it") from None
            except OSError as error:
                raise ObjectError(f"get {key}/{name}: {error.strerror}") from error
        raise ObjectMissing(f"there is no part {key} here", hint="ask another replica")


def _open_in(folder: Path, name: str) -> tuple[OpenFile, str]:
    if name == MANIFEST_FILE:
        read_manifest(folder)  # an error for one that is damaged
    file = OpenFile(folder / name)
    try:
        if name == MANIFEST_FILE:
            return file, str(blake3(file.read(0, file.size_bytes)).hexdigest())
        tag = CHECKED_PARTS.whole_hash_of(file.status())
        if tag is None:
            manifest = read_manifest(folder)
            file.check(lambda fd: CHECKED_PARTS.check(fd, folder / name, manifest))
            tag = manifest.hash
        return file, tag
    except BaseException:
        file.close()
        raise


def _named(request: Request) -> tuple[PartKey, str]:
    # Not the path that the route has found: it leaves out the end of a line at the end.
    words = str(request.scope["path"]).removeprefix(_PREFIX).split("/")
    if len(words) != 4 or words[3] not in _bytes_max:
        hint = "ask for /tables/<table id>/<shard>/<part id>/part.parquet or manifest"
        raise BadInput("this is not the path of a file of a part", hint=hint)
    return PartKey.parse(*words[:3]), words[3]


async def _receive_file(request: Request, others: list[ForwardedFile], draft: PartDraft) -> None:
    waiting = bytearray()
    async for chunk in request.stream():
        waiting += chunk
        if len(waiting) >= MIB:
            await asyncio.to_thread(draft.write, _given(others, bytes(waiting)))
            waiting.clear()
    await asyncio.to_thread(_write_end, draft, _given(others, bytes(waiting)))


async def _receive_manifest(
    request: Request, others: list[ForwardedFile], draft: PartDraft
) -> None:
    await asyncio.to_thread(draft.write_manifest, _given(others, await request.body()))


def _given(others: list[ForwardedFile], piece: bytes) -> bytes:
    """A piece, which goes on before it is written here."""
    for each in others:
        if piece:
            each.give(piece)
    return piece


def _write_end(draft: PartDraft, piece: bytes) -> None:
    draft.write(piece)
    draft.end_file()
