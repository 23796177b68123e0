"""Publications of many parts: their entries name manifests, which lie below a staging job (T4, T26).

M1  An entry is small. When the headers of its parts are not, they are written into manifests first: nodes
    below the job that the parts are staged for, or below one that the publication opens for itself.
M2  A manifest's name tells its content, so whoever writes it once more writes the same.
M3  The job stays, published, while entries name its manifests. A replica that reads such an entry reads its
    manifests before it executes it, and remembers the entry whole.
"""

from __future__ import annotations

import msgspec

from motet.core.mergetree.entries import PartHeader, PublishEntry, encode_header
from motet.core.mergetree.messages import PublishParts
from motet.core.mergetree.paths import ShardPaths
from motet.errors import BadRecord
from motet.format.checksum import crc32c

headers_bytes_max = 3 * 1024
"""Headers within an entry: with its holders and partitions it stays below 4 KiB."""

manifest_bytes_max = 48 * 1024

_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(tuple[PartHeader, ...])


class Manifest(msgspec.Struct, frozen=True):
    """Some of the parts that a shard gets."""

    name: str
    data: bytes


Manifests = dict[tuple[int, int], tuple[Manifest, ...]]
"""Those of a publication: the number of a table in the request, and a shard."""


def manifests_of(message: PublishParts) -> Manifests:
    """M1, for each shard that gets so many parts."""
    made: Manifests = {}
    for table, publication in enumerate(message.tables):
        for shard in sorted({part.shard for part in publication.parts}):
            headers = [part.header for part in publication.parts if part.shard == shard]
            if sum(len(encode_header(header)) + 1 for header in headers) > headers_bytes_max:
                made[table, shard] = tuple(_split(shard, headers))
    return made


def _split(shard: int, headers: list[PartHeader]) -> list[Manifest]:
    manifests: list[Manifest] = []
    some: list[PartHeader] = []
    size = 0
    for header in headers:
        header_bytes = len(encode_header(header)) + 1
        if some and size + header_bytes > manifest_bytes_max:
            manifests.append(_manifest(shard, some))
            some, size = [], 0
        some.append(header)
        size += header_bytes
    return [*manifests, _manifest(shard, some)]


def _manifest(shard: int, headers: list[PartHeader]) -> Manifest:
    data = _encode(headers)
    return Manifest(f"{shard}-{headers[0].id}-{crc32c(data):08x}", data)


def own_job(message: PublishParts) -> str:
    """The job that a publication opens for its manifests: its retries find it."""
    first = next(part for each in message.tables for part in each.parts)
    return f"publish-{first.header.id}"


def paths_of(paths: ShardPaths, entry: PublishEntry) -> list[str]:
    """The nodes of an entry's manifests."""
    return [f"{paths.job(entry.job)}/{name}" for name in entry.manifests]


def whole(entry: PublishEntry, found: list[bytes]) -> PublishEntry:
    """M3: the entry with its parts in the place of its manifests; ``BadRecord`` if they are none."""
    parts: list[PartHeader] = []
    for data in found:
        try:
            parts += _decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadRecord(f"this is no manifest of staged parts: {error}") from None
    return msgspec.structs.replace(entry, parts=tuple(parts))
