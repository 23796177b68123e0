"""The entries of a shard's log in the keeper, as JSON that people can read in ``motet keeper tree``.

An entry is the data of ``log/log-<number>``; its zxid is that of the multi that made it. What a reader sees
at a version is a function of these entries alone (:mod:`motet.core.mergetree.history`).
"""

from __future__ import annotations

import msgspec

from motet.errors import BadRecord
from motet.format.part_manifest import PartManifest
from motet.ids import NodeId, PartId


class PartHeader(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is said of a part wherever it is named."""

    id: PartId
    partition: str
    rows: int
    size_bytes: int
    #: of the file: a part is its id and its hash, never its name
    hash: str
    #: the version of the table's schema that it was written by
    schema: int = 0
    #: the format of its writer
    format: int = 1


encode_header = msgspec.json.Encoder().encode
"""The data of ``parts/<part id>``."""
_header_decoder = msgspec.json.Decoder(PartHeader)


def decode_header(data: bytes) -> PartHeader:
    """Read a header back; ``BadRecord`` for what is none."""
    try:
        return _header_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRecord(f"this is no header of a part: {error}") from None


def header_of(manifest: PartManifest) -> PartHeader:
    """What is said of a part, from its manifest."""
    return PartHeader(
        id=manifest.part_id,
        partition=manifest.partition,
        rows=manifest.rows,
        size_bytes=manifest.size_bytes,
        hash=manifest.hash,
        schema=manifest.schema_version,
        format=manifest.format,
    )


class InsertEntry(msgspec.Struct, frozen=True, tag="insert", tag_field="type", omit_defaults=True):
    """A block was inserted; without a quorum it is visible from here on."""

    part: PartHeader
    #: through which replica
    replica: NodeId
    #: on how many replicas it has to be before it is visible; 1: it is
    quorum: int = 1
    #: the node of its token, relative to the table; it goes if the quorum fails
    token: str | None = None
    #: or its producer and number
    producer: str | None = None
    number: int | None = None
    #: the hash of its rows, in a table with ``dedup="content"``
    dedup: str | None = None


class PublishEntry(
    msgspec.Struct, frozen=True, tag="publish", tag_field="type", omit_defaults=True
):
    """Staged parts of this shard become visible together; each is one block, by its index."""

    parts: tuple[PartHeader, ...]
    #: who has synced them: a hint for whoever fetches
    holders: tuple[NodeId, ...]
    #: what these partitions held before is dropped
    replace: tuple[str, ...] = ()
    #: nodes below a staging job that list its parts: who has executed it has these in it, too
    job: str = ""
    manifests: tuple[str, ...] = ()


class DoneEntry(msgspec.Struct, frozen=True, tag="done", tag_field="type"):
    """The block of this entry has its quorum: it is visible from here on."""

    number: int


class FailedEntry(msgspec.Struct, frozen=True, tag="failed", tag_field="type"):
    """The block of this entry can have no quorum: it is as if it had never been."""

    number: int


class DropEntry(msgspec.Struct, frozen=True, tag="drop", tag_field="type", omit_defaults=True):
    """All blocks with lower numbers are dropped, open ones too."""

    #: of these partitions; None: of all
    partitions: tuple[str, ...] | None = None


Entry = InsertEntry | PublishEntry | DoneEntry | FailedEntry | DropEntry

encode_entry = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Entry)


def decode_entry(data: bytes) -> Entry:
    """Read an entry back; ``BadRecord`` for what is none, or only a newer program's."""
    try:
        entry: Entry = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRecord(f"this is no entry of a table's log: {error}") from None
    return entry


def as_logged(entry: Entry) -> Entry:
    """An entry as the log has it: what manifests list is not in it."""
    if isinstance(entry, PublishEntry) and entry.manifests:
        return msgspec.structs.replace(entry, parts=())
    return entry


def parts_of(entry: Entry) -> tuple[PartHeader, ...]:
    """The parts that the entry brings, in the order of their indexes."""
    if isinstance(entry, InsertEntry):
        return (entry.part,)
    return entry.parts if isinstance(entry, PublishEntry) else ()


class QuorumStatus(msgspec.Struct, frozen=True):
    """The data of ``quorum/status/<part id>``: it is there while the quorum is open."""

    wanted: int
    members: tuple[NodeId, ...]


encode_status = msgspec.json.Encoder().encode
_status_decoder = msgspec.json.Decoder(QuorumStatus)


def decode_status(data: bytes) -> QuorumStatus:
    """Read a status back; ``BadRecord`` for what is none."""
    try:
        return _status_decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRecord(f"this is no status of a quorum: {error}") from None
