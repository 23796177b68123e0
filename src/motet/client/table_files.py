"""Where a client finds the files of parts: in folders of its own machine, or behind the HTTP ports of nodes.

A node says which folder it has, and a token that lies in it. Whoever reads the same token there reads the
files by their paths. Everything else is read in ranges over HTTP. Either way the bytes are compared with the
manifest of the part, and that with what the log says of it. Of several nodes that have a part the next one is
asked when one cannot give it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from motet.client.part_client import PartClient
from motet.client.publication import NodeFiles, PartLocation
from motet.client.table_link import TableLink, all_of
from motet.errors import BadBytes, BadRecord, MotetError, NodeError, ObjectError, ObjectMissing
from motet.format.part_manifest import MANIFEST_FILE, PART_FILE, PartManifest, decode_part_manifest
from motet.ids import Address, PartId
from motet.real.part_files import PartKey, find_part, parts_token, read_manifest

if TYPE_CHECKING:
    from motet.columnar.encode import EncodedPart
    from motet.columnar.part_sources import PartSource

R = TypeVar("R")

fetch_bytes = 8 << 20

place_seconds_max = 2.0
"""How long a node may take to say where its files are; without that they are read over HTTP."""


Damaged = dict[tuple[PartId, str], None]
"""Parts, each at the node of an endpoint."""

damaged_max = 1_000


class OwnNode(Protocol):
    """The node that lives in this process."""

    def part_files(self) -> NodeFiles:
        """Where its parts are; behind its endpoint too, once it serves."""

    async def put_part(self, part: EncodedPart) -> None:
        """Have the bytes of a part arrive, durably."""


class TableFiles:
    """The files of parts of one database."""

    def __init__(self, link: TableLink, own: OwnNode | None = None) -> None:
        self._link = link
        self._own = own
        #: of nodes that have told, by their endpoints
        self._found: dict[str, NodeFiles] = {}
        #: parts that are damaged at a node, the newest last
        self._damaged: Damaged = {}
        #: those of them whose folder is on this machine
        self._at_hand: set[str] = set()
        self._client = PartClient()

    async def close(self) -> None:
        """Break off what is read over HTTP."""
        self._client.close()  # at once: also when the interpreter ends, which takes no new threads

    async def of_nodes(self, nodes: Sequence[Address]) -> tuple[NodeFiles, ...]:
        """Where they have their files; of all but the first one it is enough to know how to reach them."""
        first, *others = nodes
        found = [await self.of_node(first)]
        for node in others:
            endpoint = self._link.endpoint_of(node)
            found.append(self._found.get(endpoint) or NodeFiles("", "", endpoint))
        return tuple(found)

    async def of_node(self, node: Address) -> NodeFiles:
        """Where a node has its files; one that does not answer now may do so later."""
        endpoint = self._link.endpoint_of(node)
        if not endpoint:
            assert self._own is not None, "a node without an endpoint is in this process"
            return self._own.part_files()
        if not self._is_current(endpoint):
            try:
                async with asyncio.timeout(place_seconds_max):
                    place = await asyncio.to_thread(self._client.place, endpoint)
            except (MotetError, TimeoutError):
                return NodeFiles("", "", endpoint)
            self._found[endpoint] = NodeFiles(place.folder, place.token, endpoint)
            if parts_token(Path(place.folder)) == place.token:
                self._at_hand.add(endpoint)
        return self._found[endpoint]

    def _is_current(self, endpoint: str) -> bool:
        """Whether it is known where the node has its files. One that was started anew has another token."""
        known = self._found.get(endpoint)
        if known is None or endpoint not in self._at_hand:
            return known is not None
        return parts_token(Path(known.folder)) == known.token

    def forget(self, nodes: Iterable[NodeFiles]) -> None:
        """Ask these nodes again where their files are: they may have been started anew."""
        for node in nodes:
            self._found.pop(node.endpoint, None)
            self._at_hand.discard(node.endpoint)

    async def put(self, node: Address, part: EncodedPart) -> None:
        """Have the bytes of a part arrive at a node, durably."""
        endpoint = self._link.endpoint_of(node)
        if endpoint:
            await all_of(
                asyncio.to_thread(put, self._client, endpoint, part)
                for put in (_put_file, _put_manifest)
            )
            return
        assert self._own is not None, "a node without an endpoint is in this process"
        await self._own.put_part(part)

    def sources(self, locations: Iterable[PartLocation]) -> list[PartSource]:
        """The parts for whoever reads their rows. It blocks."""
        return part_sources(list(locations), self._client, self._damaged)

    def look_for_damage(self, locations: Iterable[PartLocation]) -> None:
        """After a read that failed: compare files at hand with their hashes; of parts that are damaged other
        nodes are read from then on, and their own nodes are told. It blocks."""
        for location in locations:
            for node in location.nodes if len(location.nodes) > 1 else ():
                if self._is_damaged(location, node):
                    self._damaged[location.header.id, node.endpoint] = None
                    while len(self._damaged) > damaged_max:
                        del self._damaged[next(iter(self._damaged))]
                    with suppress(MotetError):  # the node looks at a file before it gives any of it
                        size_bytes = location.header.size_bytes
                        self._client.read(
                            node.endpoint, key_of(location), 0, 1, size_bytes=size_bytes
                        )

    def _is_damaged(self, location: PartLocation, node: NodeFiles) -> bool:
        from motet.columnar.part_sources import CHECKED

        if not node.folder or parts_token(Path(node.folder)) != node.token:
            return False
        folder = find_part(Path(node.folder), key_of(location))
        try:
            if folder is not None:
                CHECKED.check(folder / PART_FILE, read_manifest(folder))
        except BadBytes:
            return True
        except MotetError:
            pass  # it may have been moved just now
        return False

    def path(self, location: PartLocation, folder: Path) -> Path:
        """A file on this machine; one that is elsewhere is fetched into this folder. It blocks."""
        here = local_path(location)
        if here is not None:
            return here
        target = folder / f"{location.header.id}.parquet"
        if not target.exists():
            _fetch(location, self._client, target)
        return target


# What blocks


@contextmanager
def open_parts(locations: Iterable[PartLocation]) -> Iterator[list[PartSource]]:
    """Parts for whoever reads their rows in any process: all they need is where they are."""
    client = PartClient()
    try:
        yield part_sources(list(locations), client)
    finally:
        client.close()


def part_sources(
    locations: Sequence[PartLocation], client: PartClient, damaged: Container[object] = ()
) -> list[PartSource]:
    """Parts as they are read: those whose folder is at hand from there, the others by ranges; from a node
    where one is damaged only when no other has it."""
    known: dict[tuple[str, str], bool] = {}
    return [_source(_reordered(each, damaged), client, known) for each in locations]


def _reordered(location: PartLocation, damaged: Container[object]) -> PartLocation:
    """Nodes where it is damaged come last."""
    part, nodes = location.header.id, location.nodes
    if not any((part, node.endpoint) in damaged for node in nodes):
        return location
    whole = sorted(nodes, key=lambda node: (part, node.endpoint) in damaged)
    return msgspec.structs.replace(location, nodes=tuple(whole))


def _source(
    location: PartLocation, client: PartClient, known: dict[tuple[str, str], bool]
) -> PartSource:
    from motet.columnar.part_sources import LocalPart, RemotePart

    found = _at_hand(location, known)
    if found is not None:
        manifest, folder = found
        return LocalPart(manifest, folder / PART_FILE)
    endpoints = [node.endpoint for node in location.nodes if node.endpoint]
    manifest = _from_any(location, endpoints, lambda at: _remote_manifest(location, client, at))
    return RemotePart(manifest, _Ranges(location, client, endpoints))


def _at_hand(
    location: PartLocation, known: dict[tuple[str, str], bool]
) -> tuple[PartManifest, Path] | None:
    """The manifest and the folder of a part on this machine; ``known``: which folders are at hand."""
    for node in location.nodes:
        at = node.folder, node.token
        if at not in known:
            known[at] = bool(node.folder) and parts_token(Path(node.folder)) == node.token
        folder = find_part(Path(node.folder), key_of(location)) if known[at] else None
        if folder is None:
            continue
        with suppress(BadBytes, ObjectError):  # another node may have it whole
            manifest = read_manifest(folder)
            _check_same(manifest, location)
            return manifest, folder
    return None


def local_path(location: PartLocation) -> Path | None:
    """The file in a folder at hand, compared with its hash; None if no node has one here."""
    from motet.columnar.part_sources import CHECKED

    found = _at_hand(location, {})
    if found is None:
        return None
    manifest, folder = found
    CHECKED.check(folder / PART_FILE, manifest)
    return folder / PART_FILE


def key_of(location: PartLocation) -> PartKey:
    """The part as files are named by it."""
    return PartKey.checked(location.table, location.shard, location.header.id)


class _Ranges:
    """Ranges of one file, from the first node that gives them."""

    def __init__(self, location: PartLocation, client: PartClient, endpoints: list[str]) -> None:
        self._location, self._client, self._endpoints = location, client, endpoints

    def __call__(self, start: int, length: int) -> bytes:
        location = self._location
        key, size_bytes = key_of(location), location.header.size_bytes
        return _from_any(
            location,
            self._endpoints,
            lambda at: self._client.read(at, key, start, length, size_bytes=size_bytes),
        )


def _from_any(location: PartLocation, endpoints: list[str], ask: Callable[[str], R]) -> R:
    """What the first node gives that can; it is asked first from then on."""
    last: MotetError = ObjectMissing(
        f"part {location.header.id} cannot be reached from here",
        hint="ask the database for its endpoint first: it serves its parts from then on",
    )
    for endpoint in list(endpoints):
        try:
            found = ask(endpoint)
        except (BadBytes, NodeError, ObjectError) as error:
            last = error
            continue
        endpoints.remove(endpoint)
        endpoints.insert(0, endpoint)
        return found
    raise last


def _remote_manifest(location: PartLocation, client: PartClient, endpoint: str) -> PartManifest:
    manifest = decode_part_manifest(client.manifest(endpoint, key_of(location)))
    _check_same(manifest, location)
    return manifest


def _check_same(manifest: PartManifest, location: PartLocation) -> None:
    header = location.header
    if (manifest.part_id, manifest.hash) != (header.id, header.hash):
        raise BadRecord(
            f"part {header.id} is not what was committed: its manifest says {manifest.hash}, and the"
            f" log {header.hash}"
        )


def _fetch(location: PartLocation, client: PartClient, target: Path) -> None:
    """The whole file of a part, checked piece by piece."""
    from motet.columnar.part_sources import CheckedRanges

    endpoints = [node.endpoint for node in location.nodes if node.endpoint]
    manifest = _from_any(location, endpoints, lambda at: _remote_manifest(location, client, at))
    source = CheckedRanges(manifest, _Ranges(location, client, endpoints))
    unfinished = target.with_name(f"{target.name}~{os.getpid()}")
    try:
        with unfinished.open("wb") as file:
            shutil.copyfileobj(source, file, fetch_bytes)
        unfinished.replace(target)
    except OSError as error:
        raise ObjectError(f"cannot keep {target}: {error.strerror}") from None
    finally:
        unfinished.unlink(missing_ok=True)


def _key_of_encoded(part: EncodedPart) -> PartKey:
    manifest = part.manifest
    return PartKey.checked(manifest.table_id, manifest.shard, manifest.part_id)


def _put_file(client: PartClient, endpoint: str, part: EncodedPart) -> None:
    key = _key_of_encoded(part)
    if part.path is None:
        client.put_file(endpoint, key, PART_FILE, part.data or b"")
        return
    with part.path.open("rb") as file:
        client.put_file(endpoint, key, PART_FILE, file)


def _put_manifest(client: PartClient, endpoint: str, part: EncodedPart) -> None:
    client.put_file(endpoint, _key_of_encoded(part), MANIFEST_FILE, part.manifest_bytes)
