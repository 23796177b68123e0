"""What a request makes of the log: the record to be written, or an answer that needs none.

Called when a request's turn has come and it has its clock. It sees the streams as they will be when
everything before it is durable, so the order of the log is the order in which requests take effect.
"""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import ZERO, Clock, plus
from motet.core.metadata.definitions import shard_of
from motet.core.onelog.index import Index
from motet.core.onelog.messages import (
    Append,
    Appended,
    ClockEnabled,
    ClockFixed,
    Commit,
    CommitDone,
    CreateStream,
    EnableClock,
    FeedObeyed,
    FixClock,
    OrderFeed,
    StreamInfo,
    StreamReady,
)
from motet.core.onelog.overlay import Overlay
from motet.core.onelog.record import (
    Answered,
    ClockTurned,
    CommittedRecord,
    CompactedChange,
    CompactedRecord,
    FeedOrdered,
    LoggedChange,
    Planned,
    StreamRecord,
)
from motet.core.streams.change import Op
from motet.errors import BadInput, Conflict, NoSuchStream, StreamExists, TokenExpired
from motet.ids import Epoch, Offset, RequestId, ShardId, StreamName, TransactionId
from motet.limits import streams_max

LogRequest = CreateStream | EnableClock | Append | Commit | FixClock | OrderFeed
"""The requests that want to write to the log."""


class Compact(msgspec.Struct, frozen=True):
    """The machine's own wish: these changes are to be written once more (``clearing``)."""

    request: RequestId
    changes: tuple[CompactedChange, ...]


LogWrite = LogRequest | Compact


def plan(
    index: Index,
    overlay: Overlay,
    message: LogWrite,
    clock: Clock,
    epoch: Epoch,
    wall_ms: int,
) -> Planned | Answered:
    """Decide; a ``MotetError`` refuses the request and changes nothing."""
    if isinstance(message, CreateStream):
        return _create(index, overlay, message, clock)
    if isinstance(message, EnableClock):
        done = ClockEnabled(message.request, message.is_enabled)
        if overlay.has_clock(index) == message.is_enabled:
            return Answered(done, overlay.turns[-1].clock if overlay.turns else clock)
        return Planned(ClockTurned(clock, message.is_enabled), done)
    if isinstance(message, Append):
        return _append(index, overlay, message, clock, epoch, wall_ms)
    if isinstance(message, Commit | FixClock):
        return _commit(index, overlay, message, clock, wall_ms)
    if isinstance(message, OrderFeed):
        return _plan_order(index, overlay, message, clock)
    return Planned(CompactedRecord(clock, message.changes), FeedObeyed(message.request))


def _create(
    index: Index, overlay: Overlay, message: CreateStream, clock: Clock
) -> Planned | Answered:
    known = index.streams.get(message.name)
    pending = overlay.streams.get(message.name)
    if known is None and pending is None:
        if len(index.streams) + len(overlay.streams) >= streams_max:
            raise BadInput(f"another stream exceeds the limit of {streams_max}")
        record = StreamRecord(clock, message.name, message.shards, message.schema, message.key_hash)
        info = StreamInfo(
            message.name, message.shards, message.schema, clock, (0,) * message.shards
        )
        return Planned(record, StreamReady(message.request, True, info))
    shards = known.shards if known is not None else pending.shards if pending is not None else 0
    schema = known.schema if known is not None else pending.schema if pending is not None else None
    if (shards, schema) != (message.shards, message.schema):
        differs = "another schema" if schema != message.schema else f"{shards} shards"
        raise StreamExists(f"the stream {message.name!r} exists already, with {differs}")
    if known is not None:
        return Answered(StreamReady(message.request, False, known.info()), known.created)
    assert pending is not None
    info = StreamInfo(message.name, shards, schema, pending.clock, (0,) * shards)
    return Answered(StreamReady(message.request, False, info), pending.clock)


def _append(
    index: Index, overlay: Overlay, message: Append, clock: Clock, epoch: Epoch, wall_ms: int
) -> Planned | Answered:
    shard = _shard(index, overlay, message.stream, message.key)
    token = message.token
    if token is not None:
        used = overlay.token(index, message.stream, token.producer)
        if used is not None and token.number < used.number:
            raise TokenExpired(
                f"{token.producer} is at {used.number} already, {token.number} is not remembered"
            )
        if used is not None and token.number == used.number:
            answer = Appended(
                message.request, used.shard, used.epoch, used.offset, used.clock, True
            )
            return Answered(answer, used.clock)
    offset = overlay.next_offset(index, message.stream, shard)
    change = LoggedChange(message.stream, shard, offset, message.key, "append", message.value, None)
    record = CommittedRecord(clock, _own_id(clock), wall_ms, (change,), token)
    return Planned(record, Appended(message.request, shard, epoch, offset, clock, False))


def _commit(
    index: Index, overlay: Overlay, message: Commit | FixClock, clock: Clock, wall_ms: int
) -> Planned | Answered:
    for read in message.reads:
        _shard(index, overlay, read.stream, read.key)
        seen = overlay.seen(index, read.stream, read.key)
        if seen != read.seen:
            raise Conflict(f"{_key(read.key)} of {read.stream} has changed since it was read")
    told = CommitDone if isinstance(message, Commit) else ClockFixed
    done = told(message.request, message.transaction, clock, overlay.has_clock(index))
    if not message.changes:
        return Answered(done, clock)
    ahead: dict[tuple[StreamName, ShardId], int] = {}
    changes = []
    for wanted in message.changes:
        shard = _shard(index, overlay, wanted.stream, wanted.key)
        place = (wanted.stream, shard)
        offset = Offset(overlay.next_offset(index, *place) + ahead.get(place, 0))
        ahead[place] = ahead.get(place, 0) + 1
        op: Op = wanted.op
        changes.append(
            LoggedChange(wanted.stream, shard, offset, wanted.key, op, wanted.row, wanted.before)
        )
    return Planned(CommittedRecord(clock, message.transaction, wall_ms, tuple(changes)), done)


def _plan_order(
    index: Index, overlay: Overlay, message: OrderFeed, clock: Clock
) -> Planned | Answered:
    """The record of an order that changes something; an error if one of the streams cannot obey it.

    An order for several streams is one record of the log: all of them obey it, or none.
    """
    for name in message.streams:
        if overlay.sharding(index, name) is None:
            raise NoSuchStream(f"there is no stream {name!r}")
    # What was put into the log before has a lower clock, and nothing follows there.
    closed = plus(clock, -1)
    changed = [overlay.rules(index, name).check(message.order, closed) for name in message.streams]
    done = FeedObeyed(message.request)
    if any(changed):
        return Planned(FeedOrdered(clock, message.streams, message.order), done)
    return Answered(done, overlay.orders[-1].clock if overlay.orders else ZERO)


def _shard(index: Index, overlay: Overlay, stream: StreamName, key: bytes) -> ShardId:
    sharding = overlay.sharding(index, stream)
    if sharding is None:
        raise NoSuchStream(f"there is no stream {stream!r}")
    return shard_of(key, *sharding)


def _own_id(clock: Clock) -> TransactionId:
    """An entry that is no transaction of anybody's gets an id of its own, unique as its clock is."""
    return TransactionId(f"e-{clock.to_int():016x}")


def _key(key: bytes) -> str:
    return repr(key.decode(errors="replace"))
