"""The file of a node that lists its shards."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from motet.core.shardlog.meta import NODE_SALT
from motet.errors import BadRecord
from motet.format.journal import scan
from motet.format.record import encode_record
from motet.ids import FileName, ShardName

LIST_FILE = FileName("shards")
LIST_KIND = 3

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[ShardName]).decode


def encode_list(names: Sequence[ShardName]) -> bytes:
    """The bytes of the file."""
    return encode_record(NODE_SALT, 0, LIST_KIND, _encode(names))


def decode_list(data: bytes) -> list[ShardName]:
    """What the file says; ``BadRecord`` when it is damaged."""
    found = scan(data, NODE_SALT)
    if len(found.records) != 1:
        raise BadRecord(f"{LIST_FILE} is damaged")
    try:
        return _decode(found.records[0].body)
    except msgspec.MsgspecError as error:
        raise BadRecord(f"{LIST_FILE} is damaged: {error}") from None
