"""A record of the log: what it can say, and the entry of the shard log that it is.

One record of the log is one transaction, whole: that is what makes it atomic. A raw entry is a transaction
of one change whose operation is ``append``.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.machine import Message
from motet.core.metadata.definitions import KeyHash
from motet.core.shardlog.entry import Entry, EntryKind
from motet.core.streams.change import FeedChange, Op, Token
from motet.core.streams.orders import Order
from motet.errors import BadRecord
from motet.ids import Offset, ShardId, StreamName, TransactionId


class StreamRecord(msgspec.Struct, frozen=True, array_like=True):
    """A stream begins, above every clock handed out before."""

    clock: Clock
    name: StreamName
    shards: int
    #: an Arrow schema as its IPC bytes; None for rows of JSON
    schema: bytes | None
    key_hash: KeyHash = KeyHash.CRC32C


class ClockTurned(msgspec.Struct, frozen=True, array_like=True):
    """From here on users get to see clocks, or none: the setting ``clock.enabled``."""

    clock: Clock
    is_on: bool


class LoggedChange(msgspec.Struct, frozen=True, array_like=True):
    """One change of one key, and where it is in its shard."""

    stream: StreamName
    shard: ShardId
    offset: Offset
    key: bytes
    op: Op
    #: the row as JSON; the value itself for ``append``; None for a delete
    row: bytes | None
    before: bytes | None


class CommittedRecord(msgspec.Struct, frozen=True, array_like=True):
    """A transaction: all of its changes, at one clock."""

    clock: Clock
    transaction: TransactionId
    #: the node's wall clock when it was taken, in milliseconds
    at_ms: int
    changes: tuple[LoggedChange, ...]
    token: Token | None = None


class FeedOrdered(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of the feed of some streams, and for whom, is otherwise from here on."""

    clock: Clock
    streams: tuple[StreamName, ...]
    order: Order


class CompactedChange(msgspec.Struct, frozen=True, array_like=True):
    """The latest change of a key, as it was committed before."""

    clock: Clock
    transaction: TransactionId
    at_ms: int
    #: in its transaction, and how many that has
    index: int
    count: int
    change: LoggedChange


class CompactedRecord(msgspec.Struct, frozen=True, array_like=True):
    """Changes that no feed shows any more, for who asks for their keys: where they were is given back."""

    clock: Clock
    changes: tuple[CompactedChange, ...]


encode_body = msgspec.msgpack.Encoder().encode
decode_stream_created = msgspec.msgpack.Decoder(StreamRecord).decode
decode_clock_turned = msgspec.msgpack.Decoder(ClockTurned).decode
decode_committed = msgspec.msgpack.Decoder(CommittedRecord).decode
decode_feed_ordered = msgspec.msgpack.Decoder(FeedOrdered).decode
decode_compacted = msgspec.msgpack.Decoder(CompactedRecord).decode


def feed_change(committed: CommittedRecord, index: int, *, has_clock: bool = True) -> FeedChange:
    """The change with this index as the feed shows it."""
    return shown_change(carry(committed, index), has_clock=has_clock)


def carry(committed: CommittedRecord, index: int) -> CompactedChange:
    """The change with this index, to be compacted."""
    return CompactedChange(
        committed.clock,
        committed.transaction,
        committed.at_ms,
        index,
        len(committed.changes),
        committed.changes[index],
    )


def shown_change(compacted: CompactedChange, *, has_clock: bool = True) -> FeedChange:
    """A change as the feed shows it."""
    logged = compacted.change
    return FeedChange(
        clock=compacted.clock,
        transaction=compacted.transaction,
        index=compacted.index,
        count=compacted.count,
        stream=logged.stream,
        shard=logged.shard,
        offset=logged.offset,
        key=logged.key,
        op=logged.op,
        row=logged.row,
        before=logged.before,
        at_ms=compacted.at_ms,
        has_clock=has_clock,
    )


class Planned(msgspec.Struct, frozen=True):
    """A record to write, and the answer when it is durable."""

    record: LogRecord
    answer: Message


class Answered(msgspec.Struct, frozen=True):
    """Nothing to write: the answer is about the record with this clock, which may still be under way."""

    answer: Message
    clock: Clock


LogRecord = StreamRecord | CommittedRecord | FeedOrdered | ClockTurned | CompactedRecord

KINDS: dict[type[LogRecord], EntryKind] = {
    StreamRecord: EntryKind.STREAM_CREATED,
    CommittedRecord: EntryKind.COMMITTED,
    ClockTurned: EntryKind.CLOCK_TURNED,
    FeedOrdered: EntryKind.FEED_ORDERED,
    CompactedRecord: EntryKind.CHANGES_COMPACTED,
}
_DECODERS: dict[int, Callable[[bytes], LogRecord]] = {
    EntryKind.STREAM_CREATED: decode_stream_created,
    EntryKind.COMMITTED: decode_committed,
    EntryKind.CLOCK_TURNED: decode_clock_turned,
    EntryKind.FEED_ORDERED: decode_feed_ordered,
    EntryKind.CHANGES_COMPACTED: decode_compacted,
}

_OF_TABLES = (EntryKind.TABLE_CREATED, EntryKind.PUBLISHED, EntryKind.WRITER_NOTED)


def tables_in_the_log(what: str) -> BadRecord:
    """Tables are in the keeper; development versions had them in this log, which nobody reads any more."""
    return BadRecord(
        f"{what} is about tables: an earlier development version kept tables in the log",
        hint="open the folder with the version that wrote it, or begin anew in another folder",
    )


def decode_record(entry: Entry) -> LogRecord:
    """What an entry says; ``BadRecord`` for a kind of another version or a body that is not one."""
    if entry.kind in _OF_TABLES:
        raise tables_in_the_log(f"entry {entry.id.offset} of the log")
    decode = _DECODERS.get(entry.kind)
    if decode is None:
        raise BadRecord(
            f"entry {entry.id.offset} of the log has kind {entry.kind}",
            hint="it was written by a newer version: use that one",
        )
    try:
        return decode(entry.body)
    except msgspec.MsgspecError as error:
        raise BadRecord(f"entry {entry.id.offset} of the log cannot be read: {error}") from None
