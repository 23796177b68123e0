"""Definitions of databases, streams and tables, the names of the shards of a stream, and the shard of a key.

The shard of a key is the same for every client and for as long as the stream exists: a definition names the
hash it was created with. New streams get :data:`NEWEST`; a stream that exists keeps its own, since its keys
are where that one put them.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Literal

import msgspec

from motet.errors import BadInput, BadRecord
from motet.format.checksum import crc32c
from motet.format.frame import UNDECODABLE
from motet.ids import ShardId, ShardName, StreamId, StreamName, TableId
from motet.limits import name_length_max

_MASK = 0xFFFF_FFFF


class KeyHash(StrEnum):
    """How the number of a key's shard is computed."""

    CRC32C = "crc32c"
    """The checksum alone. It is linear, so keys that count up (k0 … k19) use half of four shards."""
    CRC32C_FMIX32 = "crc32c-fmix32"
    """The checksum, then the finalizer of MurmurHash3: each bit of a key changes all of the result."""


NEWEST = KeyHash.CRC32C_FMIX32


def shard_of(key: bytes, shards: int, key_hash: KeyHash = NEWEST) -> ShardId:
    """The shard that a key belongs to, in a stream of today unless another hash is named."""
    mixed = crc32c(key)
    if key_hash is KeyHash.CRC32C_FMIX32:
        mixed = (mixed ^ mixed >> 16) * 0x85EB_CA6B & _MASK
        mixed = (mixed ^ mixed >> 13) * 0xC2B2_AE35 & _MASK
        mixed ^= mixed >> 16
    return ShardId(mixed % shards)


class StreamDefinition(msgspec.Struct, frozen=True, tag="stream", tag_field="kind"):
    """What a stream is to be. Whoever creates it writes this; operators make it so."""

    #: of this very stream, should another one have its name one day
    id: StreamId
    name: StreamName
    shards: int
    #: None: three, or as many as there are data nodes
    replicas: int | None
    #: an Arrow schema as its IPC bytes; None for rows of JSON
    schema: bytes | None = None
    #: its data is being removed; the definition goes last
    is_deleted: bool = False
    #: definitions without one are older than the choice
    key_hash: KeyHash = KeyHash.CRC32C

    def is_same(self, other: StreamDefinition) -> bool:
        """Whether the other one describes a stream just like this one; its creator chose its hash."""
        return msgspec.structs.replace(other, id=self.id, key_hash=self.key_hash) == self


encode_stream_definition = msgspec.json.Encoder(order="deterministic").encode
decode_stream_definition = msgspec.json.Decoder(StreamDefinition).decode


def shard_name(stream: StreamId, shard: ShardId) -> ShardName:
    """The name of a shard for ever."""
    return ShardName(f"{stream}.{shard}")


def shard_names(definition: StreamDefinition) -> tuple[ShardName, ...]:
    """All shards of a stream."""
    return tuple(shard_name(definition.id, ShardId(n)) for n in range(definition.shards))


class Column(msgspec.Struct, frozen=True, array_like=True):
    """A column of a table. Files know it by its id, so it keeps its values when it is renamed."""

    id: int
    name: str
    #: the version of the table's schema that added it
    since: int = 0


TableEngine = Literal["merge", "replacing"]


class TableDefinition(msgspec.Struct, frozen=True, tag="table", tag_field="kind"):
    """What a table is. Its name is elsewhere: ``/motet/tables/<name>`` points to the id."""

    id: TableId
    #: an Arrow schema as its IPC bytes: names and types of the columns, in the order of ``columns``
    schema: bytes
    columns: tuple[Column, ...]
    order_by: tuple[str, ...]
    #: an expression over one column, as text; None: one partition
    partition_by: str | None = None
    shards: int = 1
    #: by which columns rows go to shards
    shard_by: tuple[str, ...] = ()
    engine: TableEngine = "merge"
    #: ``replacing``: of the rows of a key the one with the highest value of this column stays
    version: str | None = None
    #: ``replacing``: a boolean column; a key whose latest row says true is not there
    tombstone: str | None = None
    #: "content": blocks with equal rows are inserted once
    dedup: Literal["content"] | None = None
    disk: str = "local"
    #: rises with each change of the columns
    schema_version: int = 0
    #: of the layout in the keeper and of the part files
    format: int = 1
    #: its parts are being removed; nothing is inserted any more
    is_dropped: bool = False

    def is_same(self, other: TableDefinition) -> bool:
        """Whether the other one describes a table just like this one."""
        return msgspec.structs.replace(other, id=self.id) == self


encode_table_definition = msgspec.json.Encoder(order="deterministic").encode
_table_decoder = msgspec.json.Decoder(TableDefinition)


def decode_table_definition(data: bytes) -> TableDefinition:
    """Read a definition back; ``BadRecord`` for what is none."""
    try:
        return _table_decoder.decode(data)
    except UNDECODABLE as error:
        raise BadRecord(f"this is no definition of a table: {error}") from None


def read_table_definition(name: str, data: bytes) -> TableDefinition:
    """The same, and the error names the table as its users do."""
    try:
        return decode_table_definition(data)
    except BadRecord as error:
        what = f"the keeper's definition of the table {name!r} cannot be read: {error.what}"
        raise BadRecord(what) from None


class DatabaseIdentity(msgspec.Struct, frozen=True):
    """Which database a keeper is of, and which of its lives this is: the data of ``/motet/database``.

    The first node that finds none writes it. Another incarnation is drawn when the keeper is restored (T1).
    """

    incarnation: str
    #: of the log of a folder, 16 hex digits; empty: it has not been there yet, or this is a cluster
    number: str = ""


_INCARNATION = re.compile(r"[0-9a-f]{4,16}")
_NUMBER = re.compile(r"[0-9a-f]{16}|")

encode_database_identity = msgspec.json.Encoder(order="deterministic").encode
_database_decoder = msgspec.json.Decoder(DatabaseIdentity)


def drawn_incarnation(nonce: int) -> str:
    """An incarnation as it is printed in versions, from fresh randomness."""
    return f"{nonce % (1 << 32):08x}"


def decode_database_identity(data: bytes) -> DatabaseIdentity:
    """Read it back; ``BadRecord`` for what is none."""
    try:
        found = _database_decoder.decode(data)
    except UNDECODABLE:
        found = None
    if found and _INCARNATION.fullmatch(found.incarnation) and _NUMBER.fullmatch(found.number):
        return found
    raise BadRecord(
        "the keeper's /motet/database does not say which database this is",
        hint="it is damaged, or of an older development format, which cannot be opened",
    )


NAME = re.compile(rf"[A-Za-z][A-Za-z0-9_.-]{{0,{name_length_max - 1}}}")


def check_name(name: str, what: str) -> None:
    """``BadInput`` for what is no name."""
    if not NAME.fullmatch(name):
        raise BadInput(
            f"{name[:60]!r} is not a name for {what}",
            hint=f"a letter, then up to {name_length_max - 1} letters, digits, `_`, `.` or `-`",
        )
