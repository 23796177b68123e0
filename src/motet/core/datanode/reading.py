"""The requests of readers that are under way: confirmed first, then read, then answered.

What is read of a shard, and where that begins in its log, is :mod:`motet.core.datanode.reads`.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import takewhile

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.datanode import reads
from motet.core.datanode.messages import DescribeShard, ReadRecords, RecordsRead, ShardDescribed
from motet.core.datanode.reads import ClientReading, Question
from motet.core.datanode.refusals import not_leader, refusal
from motet.core.datanode.stream_shard import machine_of
from motet.core.machine import NS_PER_MS, Effect, Note, Now, Send
from motet.core.onelog.messages import Standing
from motet.core.shardlog.replica import ShardReplica
from motet.core.shardlog.state import FinishedRead, Status
from motet.core.transaction.messages import (
    DescribeFeed,
    FeedDescribed,
    GetLatestChange,
    GetTransaction,
    LatestChangeIs,
    ListPrepared,
    PreparedAre,
    PreparedTransaction,
    ReadShardFeed,
    ShardFeed,
    TransactionIs,
)
from motet.errors import DiskReadFailed, MotetError, NodeError, NoSuchShard, error_of
from motet.errors.shards import EntriesGone
from motet.ids import Address, Offset, ShardName
from motet.limits import KIB, page_bytes_max, readings_max

stretch_bytes = 256 * KIB
"""What is read of a log at once for a page of the feed, at most."""

stretch_bytes_min = 64 * KIB
change_bytes = 128
"""A record or change is taken for so long before one was seen: a short page is to cost what it returns."""


class Readings(msgspec.Struct):
    """All readers of a node."""

    #: by a number of our own: wait for a confirmation, or for the disk
    under_way: dict[int, ClientReading] = msgspec.field(default_factory=dict)
    next_number: int = 1
    #: shard -> those of them that wait for a confirmation (the values mean nothing)
    unconfirmed: dict[ShardName, dict[int, None]] = msgspec.field(default_factory=dict)
    #: shard -> the number its replica knows a read by -> the reading it is for
    reads: dict[ShardName, dict[int, int]] = msgspec.field(default_factory=dict)
    #: shard -> what was read for the node itself, until it is taken
    own: dict[ShardName, FinishedRead] = msgspec.field(default_factory=dict)

    def confirmed(self, number: int, reading: ClientReading) -> None:
        """It waits for no confirmation any more."""
        reading.round = None
        of_shard = self.unconfirmed.get(reading.message.shard, {})
        of_shard.pop(number, None)
        if not of_shard:
            self.unconfirmed.pop(reading.message.shard, None)

    def take_own(self, shard: ShardName) -> FinishedRead | None:
        """What ``read_own`` has come to; None while it is under way."""
        return self.own.pop(shard, None)


OWN = 0
"""In the place of a reading's number: nobody else waits for it."""


def take(
    readings: Readings,
    replica: ShardReplica,
    client: Address,
    message: Question,
    now: Now,
) -> list[Effect]:
    """Take a request; an error says why not. What it asks for at once is cut down to a page."""
    if isinstance(message, ReadRecords | ReadShardFeed):
        bytes_max = min(message.bytes_max, page_bytes_max)
        limit = min(message.limit, reads.page_limit_max)
        message = msgspec.structs.replace(message, limit=limit, bytes_max=bytes_max)
    if len(readings.under_way) >= readings_max:
        raise NodeError("too many readers wait", hint="try again in a moment")
    effects: list[Effect] = []
    confirmed: int | None = None
    if _needs_leader(message):
        if not replica.is_serving:
            raise not_leader(message.shard)
        confirmed, effects = replica.confirm(now)
    elif replica.status is Status.RECOVERING:  # its log may be there before its state is
        raise NodeError(f"{message.shard} is starting on this node", hint="try again in a moment")
    elif replica.is_damaged:
        raise DiskReadFailed(
            f"the log of {message.shard} is damaged on this node", hint="read it from its leader"
        )
    number = readings.next_number
    readings.next_number += 1
    committed = replica.commit_index.offset
    epoch, since_ns = replica.elected_epoch, now.monotonic_ns
    reading = ClientReading(client, message, confirmed, epoch, since_ns, committed)
    readings.under_way[number] = reading
    if confirmed is None:
        return _begin(readings, number, reading, replica)
    readings.unconfirmed.setdefault(replica.shard, {})[number] = None
    return effects


def _needs_leader(message: Question) -> bool:
    if isinstance(message, ReadRecords):
        return message.source == "leader"
    return not isinstance(message, ReadShardFeed)


def go_on(readings: Readings, shard: ShardName, replica: ShardReplica | None) -> list[Effect]:
    """What a step of a replica means for its readers."""
    effects: list[Effect] = []
    for number in list(readings.unconfirmed.get(shard, ())):
        reading = readings.under_way[number]
        assert reading.round is not None, "it waits for a confirmation"
        if replica is None or not _still_leads(replica, reading):
            effects += _fail(readings, number, not_leader(shard))
        elif replica.confirmed_round >= reading.round and reads.may_begin(reading, replica):
            readings.confirmed(number, reading)
            effects += _begin(readings, number, reading, replica)
    if shard in readings.reads:
        effects += _take_finished(readings, shard, replica)
    return effects


def expire(readings: Readings, now: Now, wait_ms: int) -> list[Effect]:
    """Refuse those who have waited too long for a majority, or for a key to be free: they have given up."""
    since_ns = now.monotonic_ns - wait_ms * NS_PER_MS
    oldest = takewhile(lambda each: each[1].since_ns <= since_ns, readings.under_way.items())
    late = [number for number, reading in oldest if reading.round is not None]
    error = NodeError("no majority of the shard's nodes answered in time", hint="try again")
    return [effect for number in late for effect in _fail(readings, number, error)]


def forget_clients(readings: Readings, gone: Container[Address]) -> None:
    """Nobody is there any more to be answered."""
    for number in [n for n, reading in readings.under_way.items() if reading.client in gone]:
        reading = readings.under_way.pop(number)
        readings.confirmed(number, reading)


def _still_leads(replica: ShardReplica, reading: ClientReading) -> bool:
    return replica.is_serving and replica.elected_epoch == reading.elected_epoch


def _begin(
    readings: Readings, number: int, reading: ClientReading, replica: ShardReplica
) -> list[Effect]:
    try:
        if not reads.begin_at(reading, replica):
            return [_finish(readings, number, reading, replica)]
        return _read_on(readings, number, reading, replica)
    except MotetError as error:
        return _fail(readings, number, error)


def _read_on(
    readings: Readings, number: int, reading: ClientReading, replica: ShardReplica
) -> list[Effect]:
    if reading.after_entry >= replica.applied_index.offset:
        if reads.has_missed(reading, replica):
            return _begin(readings, number, reading, replica)
        return [_finish(readings, number, reading, replica)]
    wanted = stretch_bytes
    if isinstance(reading.message, GetLatestChange):
        wanted = 1
    elif isinstance(reading.message, ReadRecords):
        most = min(reading.message.bytes_max, page_bytes_max)
        wanted = max(1, min(most, _likely_bytes(reading, reading.message.limit)))
    elif isinstance(reading.message, ReadShardFeed):
        wanted = min(_likely_bytes(reading, reading.message.limit), stretch_bytes)
    asked, effects = replica.read(reading.after_entry, wanted)
    readings.reads.setdefault(replica.shard, {})[asked] = number
    return effects


def read_own(readings: Readings, replica: ShardReplica, after: Offset) -> list[Effect]:
    """Read a stretch of a log for the node itself."""
    asked, effects = replica.read(after, stretch_bytes)
    readings.own.pop(replica.shard, None)
    readings.reads.setdefault(replica.shard, {})[asked] = OWN
    return effects + _take_finished_of(readings, replica)  # it may have been in memory


def _likely_bytes(reading: ClientReading, limit: int) -> int:
    """What so many records or changes will take, by the size of those that were found."""
    each = reading.size_bytes // reading.records if reading.records else change_bytes
    return stretch_bytes_min + each * max(limit - reading.records, 0)


def _take_finished(
    readings: Readings, shard: ShardName, replica: ShardReplica | None
) -> list[Effect]:
    """What a replica has read; that may lead to reading on, which may be done at once."""
    if replica is not None:
        return _take_finished_of(readings, replica)
    readings.own.pop(shard, None)
    effects: list[Effect] = []
    for number in readings.reads.pop(shard).values():
        error = NoSuchShard(f"shard {shard} has left this node")
        effects += [] if number == OWN else _fail(readings, number, error)
    return effects


def _take_finished_of(readings: Readings, replica: ShardReplica) -> list[Effect]:
    effects: list[Effect] = []
    while finished := replica.take_finished():
        for done in finished:
            effects += _take_one(readings, done, replica)
    if not readings.reads[replica.shard]:
        del readings.reads[replica.shard]
    return effects


def _take_one(readings: Readings, done: FinishedRead, replica: ShardReplica) -> list[Effect]:
    number = readings.reads[replica.shard].pop(done.number)
    if number == OWN:
        readings.own[replica.shard] = done
        return []
    reading = readings.under_way.get(number)
    if reading is None:
        return []  # whoever asked has left
    if done.error is not None and done.error[0] == EntriesGone.code:
        return _begin(readings, number, reading, replica)  # trimmed while it was being read
    try:
        if done.error is not None:
            raise error_of(*done.error, DiskReadFailed.hint)
        if reads.take(reading, replica, done.entries):
            told = [Note("carried_change_read", replica.shard)] if reading.is_carried else []
            return [*told, _finish(readings, number, reading, replica)]
        return _read_on(readings, number, reading, replica)
    except MotetError as error:
        return _fail(readings, number, error)


def _fail(readings: Readings, number: int, error: MotetError) -> list[Effect]:
    reading = readings.under_way.pop(number)
    readings.confirmed(number, reading)
    return [refusal(reading.client, reading.message.request, error)]


def _finish(readings: Readings, number: int, reading: ClientReading, replica: ShardReplica) -> Send:
    del readings.under_way[number]
    next_offset = machine_of(replica).state.next_offset
    message, clock = reading.message, replica.last_clock
    if isinstance(message, GetLatestChange):
        place = reading.latest_place
        return Send(reading.client, LatestChangeIs(message.request, reading.latest, place, clock))
    if isinstance(message, GetTransaction):
        return Send(reading.client, _standing(message, replica))
    if isinstance(message, DescribeFeed):
        rules = machine_of(replica).state.rules
        cursors, begins = tuple(rules.cursors.items()), _begins(replica)
        return Send(reading.client, FeedDescribed(message.request, cursors, rules.horizon, begins))
    if isinstance(message, ListPrepared):
        return Send(reading.client, _prepared(message, replica))
    if isinstance(message, ReadShardFeed):
        return Send(reading.client, _feed(message, reading, replica))
    if isinstance(message, DescribeShard):
        first = next_offset if reading.first_offset is None else reading.first_offset
        shard, born = message.shard, machine_of(replica).state.born
        return Send(
            reading.client,
            ShardDescribed(message.request, shard, replica.epoch, next_offset, first, clock, born),
        )
    found = tuple(reading.found)
    closed = machine_of(replica).state.transactions.closed
    answer = RecordsRead(message.request, found, reading.after_entry, next_offset, clock, closed)
    return Send(reading.client, answer)


def _feed(message: ReadShardFeed, reading: ClientReading, replica: ShardReplica) -> ShardFeed:
    assert reading.scan is not None
    if reading.after_entry >= replica.applied_index.offset:
        reading.scan.closed = max(reading.scan.closed, reading.scan.up_to)
    entries, through = reading.scan.page()
    closed = machine_of(replica).state.transactions.closed
    return ShardFeed(message.request, entries, through, closed, _begins(replica))


def _begins(replica: ShardReplica) -> Clock:
    return machine_of(replica).feed_begins(replica.first_offset)


def _standing(message: GetTransaction, replica: ShardReplica) -> TransactionIs:
    state = machine_of(replica).state.transactions
    outcome = state.outcomes.get(message.transaction)
    if outcome is not None:
        what: Standing = "aborted" if outcome.clock is None else "committed"
        return TransactionIs(message.request, what, outcome.clock, None, outcome.has_clock)
    opened = state.prepared.get(message.transaction)
    if opened is not None:
        return TransactionIs(message.request, "prepared", None, opened.prepared.home)
    return TransactionIs(message.request, "unknown", None, None)


def _prepared(message: ListPrepared, replica: ShardReplica) -> PreparedAre:
    prepared = machine_of(replica).state.transactions.prepared
    found = [
        PreparedTransaction(name, opened.prepared.home, opened.clock)
        for name, opened in prepared.items()
    ]
    return PreparedAre(message.request, tuple(found))
