"""Where a client finds the files of parts: in folders of its own machine, or behind the HTTP ports of nodes.

A node says which folder it has, and a token that lies in it. Whoever reads the same token there reads the files
by their paths, each compared with its hash once in a process. Everything else is read in ranges over HTTP,
each widened to pieces whose checksums the manifest of the part has. Of several nodes that have a part the next
one is asked when one cannot give it; one that has sent other bytes than were written counts as such.
"""

from __future__ import annotations

import asyncio
import io
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeVar, cast

from motet.client.part_client import PartClient
from motet.client.publication import NodeFiles, PartLocation
from motet.client.table_link import TableLink
from motet.errors import BadBytes, BadRecord, MotetError, NodeError, ObjectError, ObjectMissing
from motet.format.checksum import crc32c
from motet.format.part_manifest import (
    PART_FILE,
    PartManifest,
    PieceTable,
    decode_part_manifest,
)
from motet.ids import Address
from motet.limits import MIB
from motet.real.part_files import PartKey, checked_part, find_part, parts_token

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

    from motet.columnar.encode import EncodedPart

R = TypeVar("R")

fetch_bytes = MIB
"""What is fetched at least, if the file has so much: readers of Parquet take small pieces one after the other."""

kept_bytes = 16 * MIB
"""What is kept of a remote file: columns are read in turns."""


class OwnNode(Protocol):
    """The node that lives in this process."""

    def part_files(self) -> NodeFiles:
        """Where its parts are; its HTTP port too, once it serves."""

    async def put_part(self, manifest: bytes, file: bytes | Path) -> None:
        """Have the bytes of a part arrive, durably."""


class TableFiles:
    """The files of parts of one database."""

    def __init__(self, link: TableLink, own: OwnNode | None = None) -> None:
        self._link = link
        self._own = own
        #: of nodes that have told, by their endpoints
        self._found: dict[str, NodeFiles] = {}
        self._client = PartClient()
        #: where fetched files are; made when the first one is
        self._fetched: Path | None = None
        self._fetching: dict[PartKey, asyncio.Lock] = {}

    async def of_node(self, node: Address) -> NodeFiles:
        """Where a node has its files; one that does not answer now may do so later."""
        endpoint = self._link.endpoint_of(node)
        if not endpoint:
            assert self._own is not None, "a node without an endpoint is in this process"
            return self._own.part_files()
        known = self._found.get(endpoint)
        if known is not None:
            return known
        try:
            place = await asyncio.to_thread(self._client.place, endpoint)
        except MotetError:
            return NodeFiles("", "", endpoint)
        self._found[endpoint] = NodeFiles(place.folder, place.token, endpoint)
        return self._found[endpoint]

    async def put(self, node: Address, part: EncodedPart) -> None:
        """Have the bytes of a part arrive at a node, durably."""
        endpoint = self._link.endpoint_of(node)
        if not endpoint:
            assert self._own is not None, "a node without an endpoint is in this process"
            await self._own.put_part(part.manifest_bytes, part.data or part.path or b"")
            return
        await asyncio.to_thread(_put, self._client, endpoint, part)

    def forget(self, nodes: Iterable[NodeFiles]) -> None:
        """These nodes are asked again where their files are: they may have been started anew."""
        for node in nodes:
            self._found.pop(node.endpoint, None)

    def source(self, location: PartLocation) -> str | BinaryIO:
        """The file for a reader of Parquet: its path, or something that reads and seeks. It blocks."""
        return open_part(location, self._client)

    async def path(self, location: PartLocation) -> Path:
        """The whole file on this machine; a remote one is fetched, checked, and kept until ``close``."""
        path = await asyncio.to_thread(local_path, location)
        if path is not None:
            return path
        key = key_of(location)
        async with self._fetching.setdefault(key, asyncio.Lock()):
            if self._fetched is None:
                # Not in a thread: of many that come at once, one must do it.
                self._fetched = Path(tempfile.mkdtemp(prefix="motet-parts-"))
            target = self._fetched / f"{key.part}.parquet"
            if not target.exists():
                await asyncio.to_thread(_fetch, location, self._client, target)
            return target

    async def close(self) -> None:
        """Forget what was fetched: paths that were given out are gone."""
        self._client.close()
        folder, self._fetched = self._fetched, None
        if folder is not None:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


def key_of(location: PartLocation) -> PartKey:
    return PartKey.checked(location.table, location.shard, location.header.id)


# What blocks


def local_path(location: PartLocation) -> Path | None:
    """The file in a folder at hand, compared with its hash; None if no node has one here."""
    for node in location.nodes:
        if not node.folder or parts_token(Path(node.folder)) != node.token:
            continue
        folder = find_part(Path(node.folder), key_of(location))
        if folder is None:
            continue
        with suppress(BadBytes, ObjectError):  # another node may have it whole
            _check_same(checked_part(folder), location)
            return folder / PART_FILE
    return None


def open_part(location: PartLocation, client: PartClient | None = None) -> str | BinaryIO:
    """The file of a part, from its folder if that is at hand, else in ranges from a node."""
    path = local_path(location)
    if path is not None:
        return str(path)
    return cast("BinaryIO", RemotePart(location, client))


def _fetch(location: PartLocation, client: PartClient, target: Path) -> None:
    """The whole file of a part, checked piece by piece."""
    unfinished = target.with_name(f"{target.name}~")
    try:
        with RemotePart(location, client) as source, unfinished.open("wb") as file:
            shutil.copyfileobj(source, file, 4 * MIB)
        unfinished.replace(target)
    except OSError as error:
        raise ObjectError(f"cannot keep {target}: {error.strerror}") from None
    finally:
        unfinished.unlink(missing_ok=True)


def _put(client: PartClient, endpoint: str, part: EncodedPart) -> None:
    manifest = part.manifest
    key = PartKey.checked(manifest.table_id, manifest.shard, manifest.part_id)
    if part.path is None:
        client.put(endpoint, key, part.manifest_bytes, part.data or b"")
        return
    with part.path.open("rb") as file:
        client.put(endpoint, key, part.manifest_bytes, file)


def _check_same(manifest: PartManifest, location: PartLocation) -> None:
    header = location.header
    if (manifest.part_id, manifest.hash) != (header.id, header.hash):
        raise BadRecord(
            f"part {header.id} is not what was committed: its manifest says {manifest.hash}, and the"
            f" log {header.hash}"
        )


class RemotePart(io.RawIOBase):
    """The file of a part behind the HTTP ports of some nodes: it reads and seeks, and can be pickled.

    Any thread may read; they take turns.
    """

    def __init__(self, location: PartLocation, client: PartClient | None = None) -> None:
        super().__init__()
        self._location = location
        self._is_own_client = client is None
        self._client = client or PartClient()
        self._key = key_of(location)
        self._endpoints = [node.endpoint for node in location.nodes if node.endpoint]
        self._lock = threading.RLock()
        self._position = 0
        #: pieces by their numbers, the last used at the end
        self._pieces: dict[int, bytes] = {}
        self._pieces_bytes = 0
        manifest = self._from_any(self._manifest_at)
        self._table = PieceTable(manifest)
        self._size_bytes = manifest.size_bytes

    def __reduce__(self) -> tuple[object, ...]:
        return RemotePart, (self._location,)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        self._check_open()
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with self._lock:
            self._check_open()
            bases = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}
            if whence not in bases or bases[whence] + offset < 0:
                raise ValueError(f"cannot seek to {offset} from {whence}")
            self._position = bases[whence] + offset
            return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        with self._lock:
            self._check_open()
            left = max(0, self._size_bytes - self._position)
            wanted = left if size is None or size < 0 else min(size, left)
            data = self._bytes_at(self._position, wanted)
            self._position += wanted
            return data

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._pieces = {}
        if self._is_own_client:
            self._client.close()
        super().close()

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("the file is closed")

    def _bytes_at(self, start: int, wanted: int) -> bytes:
        if not wanted:
            return b""
        numbers = self._table.covering(start, wanted)
        missing = [number for number in numbers if number not in self._pieces]
        if missing:
            self._fetch(range(missing[0], missing[-1] + 1))
        data = b"".join(self._pieces[number] for number in numbers)
        begin = start - self._table.offsets[numbers[0]]
        self._make_room(numbers)
        return data[begin : begin + wanted]

    def _fetch(self, numbers: range) -> None:
        """Fetch these pieces, and their neighbours as long as that is little."""
        first, last = numbers[0], numbers[-1]
        offsets = self._table.offsets
        while last + 1 < len(self._table) and offsets[last + 2] - offsets[first] <= fetch_bytes:
            last += 1
        while first > 0 and offsets[last + 1] - offsets[first - 1] <= fetch_bytes:
            first -= 1
        start, end = offsets[first], offsets[last + 1]

        def checked(endpoint: str) -> list[bytes]:
            data = self._client.read(
                endpoint, self._key, start, end - start, size_bytes=self._size_bytes
            )
            pieces = [data[offsets[n] - start : offsets[n + 1] - start] for n in range(first, last + 1)]
            for number, piece in enumerate(pieces, first):
                if crc32c(piece) != self._table.checksums[number]:
                    raise BadRecord(
                        f"part {self._key} does not arrive from {endpoint} as it was written, at byte"
                        f" {offsets[number]}",
                        hint="read it again; if it stays so, check the network and that node's disk",
                    )
            return pieces

        for number, piece in enumerate(self._from_any(checked), first):
            if number not in self._pieces:
                self._pieces_bytes += len(piece)
            self._pieces[number] = piece

    def _make_room(self, used: range) -> None:
        for number in used:
            self._pieces[number] = self._pieces.pop(number)  # it was used last
        for number in list(self._pieces):
            if self._pieces_bytes <= kept_bytes:
                return
            self._pieces_bytes -= len(self._pieces.pop(number))

    def _manifest_at(self, endpoint: str) -> PartManifest:
        manifest = decode_part_manifest(self._client.manifest(endpoint, self._key))
        _check_same(manifest, self._location)
        return manifest

    def _from_any(self, ask: Callable[[str], R]) -> R:
        """What the first node gives that can; it is asked first from then on."""
        last: MotetError = ObjectMissing(
            f"part {self._key} cannot be reached from here",
            hint="ask the database for its endpoint first: it serves its parts from then on",
        )
        for endpoint in list(self._endpoints):
            try:
                found = ask(endpoint)
            except (BadBytes, NodeError, ObjectError) as error:
                last = error
                continue
            self._endpoints.remove(endpoint)
            self._endpoints.insert(0, endpoint)
            return found
        raise last
