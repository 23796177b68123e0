"""What an entry of a stream's shard says: blocks of records, as their clients sent them."""

from __future__ import annotations

import msgspec

from motet.core.onelog.change import Token
from motet.ids import Offset


class Chunk(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Records that were sent together: all of them are appended, or none."""

    count: int
    #: names the whole chunk, so that a retry is recognised
    token: Token | None
    #: see :mod:`motet.format.record_block`
    block: bytes


class Records(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The body of an entry: chunks, one behind the other."""

    #: of the first record; records of a shard have offsets from 0, without a gap
    first_offset: Offset
    #: the leader's time of day, in milliseconds
    at_ms: int
    chunks: tuple[Chunk, ...]
    #: for their readers: False if the clock was off when they were appended
    has_clock: bool = True

    @property
    def count(self) -> int:
        return sum(chunk.count for chunk in self.chunks)


class ChunkLook(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A chunk of an entry that is only looked at: its block stays where it is."""

    count: int
    token: Token | None
    block: memoryview


class RecordsLook(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The same of ``Records``: valid as long as the body that it was made of."""

    first_offset: Offset
    at_ms: int
    chunks: tuple[ChunkLook, ...]
    has_clock: bool = True


_encode = msgspec.msgpack.Encoder().encode


def encode_records(records: Records) -> bytes:
    """What is logged. Those that have a clock do not say so, which is how it was before there was a valve."""
    if records.has_clock:
        return _encode((records.first_offset, records.at_ms, records.chunks))
    return _encode(records)


decode_records = msgspec.msgpack.Decoder(Records).decode

look_at_records = msgspec.msgpack.Decoder(RecordsLook).decode
"""The same without a copy of what the records say."""
