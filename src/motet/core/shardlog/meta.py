"""The meta file of a replica, and the file of a node that lists its shards.

A meta file says the epoch, whether the replica is a member, and which files make up its log and its state.
It is small, and replaced as a whole: whatever is on disk, exactly one log is meant by it. A fence, a cut, a
new segment and an installed snapshot are each one replacement. Files that are on disk and not part of the
log, or not yet, are listed as garbage: they are removed when the meta file that says so is durable.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.shardlog.entry import NO_ENTRY, EntryId, EpochRuns
from motet.core.shardlog.log import Log, Segment
from motet.errors import BadRecord
from motet.format.checksum import crc32c
from motet.format.journal import scan
from motet.format.record import encode_record
from motet.ids import Epoch, FileName, LogName, Offset

META_KIND = 1
STATE_KIND = 2
NODE_SALT = 0x6D6F7465_74736864


class SegmentMeta(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of a segment."""

    number: int
    salt: int
    first: Offset
    end: Offset | None
    size_bytes: int
    clock: Clock


class Meta(msgspec.Struct, frozen=True):
    """What the file says."""

    version: int
    epoch: Epoch
    is_member: bool
    #: its log was found damaged: it counts for nothing until it has been replaced
    is_damaged: bool
    base: EntryId
    #: the runs of epochs of the log when this was written
    epochs: tuple[Epoch, ...]
    firsts: tuple[Offset, ...]
    head: EntryId
    clock: Clock
    #: everything up to here was on disk
    durable: Offset
    segments: tuple[SegmentMeta, ...]
    next_number: int
    #: the file that has the state, and the entry up to which it is applied; 0 is none
    state_number: int
    state_head: EntryId
    #: numbers of segments and of states that are to be removed
    garbage: tuple[int, ...]
    state_garbage: tuple[int, ...]
    #: segments of a log that was found damaged
    damaged: tuple[int, ...] = ()


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Meta).decode


def meta_file(shard: LogName) -> FileName:
    return FileName(f"{shard}-meta")


def segment_file(shard: LogName, number: int) -> FileName:
    return FileName(f"{shard}-log-{number}")


def state_file(shard: LogName, number: int) -> FileName:
    return FileName(f"{shard}-state-{number}")


def salt_of(shard: LogName) -> int:
    """Of the files that are about one shard: one that was moved here from elsewhere is none of ours."""
    return crc32c(shard.encode())


def encode_meta(shard: LogName, meta: Meta) -> bytes:
    return encode_record(salt_of(shard), 0, META_KIND, _encode(meta))


def decode_meta(shard: LogName, data: bytes) -> Meta:
    """``BadRecord`` when the file is damaged."""
    found = scan(data, salt_of(shard))
    if len(found.records) != 1 or found.records[0].kind != META_KIND:
        raise BadRecord(f"{meta_file(shard)} is damaged")
    try:
        return _decode(found.records[0].body)
    except msgspec.MsgspecError as error:
        raise BadRecord(f"{meta_file(shard)} is damaged: {error}") from None


def meta_of_segment(segment: Segment) -> SegmentMeta:
    return SegmentMeta(
        segment.number,
        segment.salt,
        segment.first,
        segment.end,
        segment.size_bytes,
        segment.clock,
    )


def log_of(meta: Meta) -> Log:
    """The log as it was when the file was written; what was not durable then has yet to be found."""
    runs = EpochRuns(meta.base, meta.head, list(meta.epochs), list(meta.firsts))
    segments = [
        Segment(each.number, each.salt, each.first, each.end, each.size_bytes, each.clock)
        for each in meta.segments
    ]
    return Log(runs, segments, meta.durable, meta.clock)


# The state of a shard's state machine


class _StateHeader(msgspec.Struct, frozen=True, array_like=True):
    head: EntryId
    clock: Clock
    state_bytes: int


_piece_bytes = 4 << 20
_decode_header = msgspec.msgpack.Decoder(_StateHeader).decode


def encode_state(shard: LogName, head: EntryId, clock: Clock, state: bytes) -> bytes:
    """The file of a state that is applied exactly up to an entry."""
    salt = salt_of(shard)
    records = [encode_record(salt, 0, STATE_KIND, _encode(_StateHeader(head, clock, len(state))))]
    for at in range(0, len(state), _piece_bytes):
        piece = state[at : at + _piece_bytes]
        records.append(encode_record(salt, len(records), STATE_KIND, piece))
    return b"".join(records)


def decode_state(shard: LogName, data: bytes) -> tuple[EntryId, Clock, bytes]:
    """The entry it is applied to, that entry's clock, and the state; ``BadRecord`` when it is damaged."""
    found = scan(data, salt_of(shard))
    try:
        header = _decode_header(found.records[0].body) if found.records else None
    except msgspec.MsgspecError:
        header = None
    state = b"".join([record.body for record in found.records[1:]])
    if header is None or len(state) != header.state_bytes:
        raise BadRecord(f"a state of {shard} is damaged")
    return header.head, header.clock, state


NO_META = Meta(
    version=0,
    epoch=Epoch(0),
    is_member=False,
    is_damaged=False,
    base=NO_ENTRY,
    epochs=(Epoch(0),),
    firsts=(Offset(0),),
    head=NO_ENTRY,
    clock=Clock(0, 0),
    durable=Offset(0),
    segments=(),
    next_number=1,
    state_number=0,
    state_head=NO_ENTRY,
    garbage=(),
    state_garbage=(),
)
"""Of a replica that was never written down."""


LIST_FILE = FileName("shards")
LIST_KIND = 3


_decode_list = msgspec.msgpack.Decoder(list[LogName]).decode


def encode_list(names: Sequence[LogName]) -> bytes:
    """The bytes of the file."""
    return encode_record(NODE_SALT, 0, LIST_KIND, _encode(names))


def decode_list(data: bytes) -> list[LogName]:
    """What the file says; ``BadRecord`` when it is damaged."""
    found = scan(data, NODE_SALT)
    if len(found.records) != 1:
        raise BadRecord(f"{LIST_FILE} is damaged")
    try:
        return _decode_list(found.records[0].body)
    except msgspec.MsgspecError as error:
        raise BadRecord(f"{LIST_FILE} is damaged: {error}") from None
