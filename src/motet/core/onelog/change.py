"""A change, as it is logged and as it is read back, and the records about streams.

One record of the log is one transaction, whole: that is what makes it atomic. A raw entry is a transaction
of one change whose operation is ``append``.
"""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.placement.key_hash import KeyHash
from motet.core.streams.change import FeedChange, Op, Token
from motet.core.streams.orders import Order
from motet.ids import Offset, ShardId, StreamName, TransactionId


class StreamCreated(msgspec.Struct, frozen=True, array_like=True):
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


class Committed(msgspec.Struct, frozen=True, array_like=True):
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


class Compacted(msgspec.Struct, frozen=True, array_like=True):
    """Changes that no feed shows any more, for who asks for their keys: where they were is given back."""

    clock: Clock
    changes: tuple[CompactedChange, ...]


encode_body = msgspec.msgpack.Encoder().encode
decode_stream_created = msgspec.msgpack.Decoder(StreamCreated).decode
decode_clock_turned = msgspec.msgpack.Decoder(ClockTurned).decode
decode_committed = msgspec.msgpack.Decoder(Committed).decode
decode_feed_ordered = msgspec.msgpack.Decoder(FeedOrdered).decode
decode_compacted = msgspec.msgpack.Decoder(Compacted).decode


def feed_change(committed: Committed, index: int, *, has_clock: bool = True) -> FeedChange:
    """The change with this index as the feed shows it."""
    return shown_change(carry(committed, index), has_clock=has_clock)


def carry(committed: Committed, index: int) -> CompactedChange:
    """The change with this index, to be carried on."""
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
