"""The definition of a stream, the names of its shards, and which of them a key belongs to.

The shard of a key is the same for every client and for as long as the stream exists: a definition names the
hash it was created with. New streams get :data:`NEWEST`; a stream that exists keeps its own, since its keys
are where that one put them.
"""

from __future__ import annotations

import re
from enum import StrEnum

import msgspec

from motet.errors import BadInput
from motet.format.checksum import crc32c
from motet.ids import ShardId, ShardName, StreamId, StreamName
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


NAME = re.compile(rf"[A-Za-z][A-Za-z0-9_.-]{{0,{name_length_max - 1}}}")


def check_name(name: str, what: str) -> None:
    """``BadInput`` for what is no name."""
    if not NAME.fullmatch(name):
        raise BadInput(
            f"{name[:60]!r} is not a name for {what}",
            hint=f"a letter, then up to {name_length_max - 1} letters, digits, `_`, `.` or `-`",
        )
