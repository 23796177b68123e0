"""The definition of a stream, and the names of its shards."""

from __future__ import annotations

import msgspec

from motet.core.placement.key_hash import KeyHash
from motet.ids import ShardId, ShardName, StreamId, StreamName


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
