"""Reading a shard back: a request is confirmed first, then read, then answered.

R1  A leader answers when a majority has confirmed, after the request came, that it still leads, and when it
    has applied what it knew to be committed by then; and what it answers is committed. A replica that is
    asked as such answers with what it knows to be committed.
R2  Records come in the order of the shard, without a gap; what is no longer kept is an error that says where
    one can begin.
R3  The latest change of a key is told when nobody has locked it: what is decided and not yet logged here is
    waited for. What a replica says of the feed is closed, so nobody need confirm it.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import takewhile

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import NS_PER_MS, Effect, Message, Note, Now, Send
from motet.core.shardlog.entry import Entry, EntryKind
from motet.core.shardlog.replica import ShardReplica
from motet.core.shardlog.state import FinishedRead, Status
from motet.core.streams.change import Standing
from motet.core.streams.entries import (
    decode_committed,
    decode_compacted,
    encode_body,
    record_range,
    unbatched,
)
from motet.core.streams.feed_scan import FeedScan
from motet.core.streams.judging import key_forgotten
from motet.core.streams.messages import (
    DescribeFeed,
    DescribeShard,
    FeedDescribed,
    FoundEntry,
    FoundRecords,
    GetLatestChange,
    GetTransaction,
    LatestChangeIs,
    ListPrepared,
    PreparedAre,
    PreparedTransaction,
    ReadRecords,
    ReadShardFeed,
    RecordsRead,
    ShardDescribed,
    ShardFeed,
    TransactionIs,
    not_leader,
    refusal,
)
from motet.core.streams.shard import machine_of
from motet.errors import DiskReadFailed, MotetError, NodeError, NoSuchShard, error_of
from motet.errors.shards import CursorExpired, EntriesGone, OffsetExpired
from motet.ids import Address, Epoch, Offset, ShardName
from motet.limits import KIB, page_bytes_max, readings_max

page_limit_max = 1 << 20

Question = (
    ReadRecords
    | DescribeShard
    | GetLatestChange
    | GetTransaction
    | ListPrepared
    | DescribeFeed
    | ReadShardFeed
)


class ClientReading(msgspec.Struct):
    """A request that is being served."""

    client: Address
    message: Question
    #: None: nobody has to confirm anything
    round: int | None
    #: the epoch the leader was elected in; another one, and somebody else may have led in between
    elected_epoch: Epoch
    #: when the request came
    since_ns: int
    #: known to be committed when the request came: a leader has to have applied it
    committed: Offset
    #: entries after this one are wanted next
    after_entry: Offset = Offset(0)
    found: list[FoundRecords] = msgspec.field(default_factory=list)
    records: int = 0
    size_bytes: int = 0
    #: the first record of the first entry that was read
    first_offset: Offset | None = None
    #: it began where the client said, who may be wrong
    trusts_client: bool = True
    #: of a reader of the feed
    scan: FeedScan | None = None
    #: the latest change of a key: in which entry, and where there
    latest: FoundEntry | None = None
    latest_place: int = 0
    #: it was compacted
    is_compacted: bool = False


def may_begin(reading: ClientReading, replica: ShardReplica) -> bool:
    """Whether a leader that is confirmed may answer now."""
    if replica.applied_index.offset < reading.committed:
        return False  # R1: its disk is slower than a majority, and others may have shown it already
    return not is_locked(reading, replica)


def is_locked(reading: ClientReading, replica: ShardReplica) -> bool:
    """Whether it asks for a key that a transaction has locked (R3)."""
    message = reading.message
    locks = machine_of(replica).state.transactions.locks
    return isinstance(message, GetLatestChange) and message.key in locks


def begin_at(reading: ClientReading, replica: ShardReplica) -> bool:
    """Find where to begin; False when there is nothing to read."""
    message = reading.message
    if isinstance(message, GetTransaction | ListPrepared | DescribeFeed):
        return False
    if isinstance(message, GetLatestChange):
        return _begin_at_latest(reading, replica, message)
    if isinstance(message, ReadShardFeed):
        return _begin_scan(reading, replica, message)
    return _begin_records(reading, replica)


def _begin_at_latest(
    reading: ClientReading, replica: ShardReplica, message: GetLatestChange
) -> bool:
    known = machine_of(replica).state.latest
    if not known.knows(message.key):
        raise key_forgotten(message.key)
    latest = known.keys.get(message.key)
    if latest is None:
        return False
    if latest.entry < replica.first_offset:
        raise key_forgotten(message.key)
    reading.after_entry, reading.latest_place = Offset(latest.entry - 1), latest.place
    return True


def _begin_scan(reading: ClientReading, replica: ShardReplica, message: ReadShardFeed) -> bool:
    machine = machine_of(replica)
    begins = machine.feed_begins(replica.first_offset)
    # Who reads from the beginning begins with what is kept.
    after = begins if message.after is None or message.after == ZERO else message.after
    if after < begins:
        is_pruned = begins == machine.state.rules.low_watermark
        what = f"pruned up to {begins}" if is_pruned else f"kept only after {begins}"
        raise CursorExpired(
            f"the feed of {replica.shard} is {what}", hint=f"read on after {begins}"
        )
    entry, opens = machine.entry_above(after if after > ZERO else None, replica.first_offset)
    changed = machine.state.changed
    is_quiet = changed is not None and changed <= after
    closed, known = machine.state.transactions.closed, machine.state.long_open
    reading.scan = FeedScan.of(message, closed, opens, after, known)
    # Whoever follows a shard in which nothing happens reads nothing.
    reading.after_entry = replica.applied_index.offset if is_quiet else Offset(entry - 1)
    is_over = reading.scan.up_to <= after
    return not is_over and reading.after_entry < replica.applied_index.offset


def _begin_records(reading: ClientReading, replica: ShardReplica) -> bool:
    assert isinstance(reading.message, ReadRecords | DescribeShard)
    machine = machine_of(replica)
    first_kept = Offset(replica.first_offset - 1)
    if isinstance(reading.message, DescribeShard):
        reading.after_entry = first_kept
        return first_kept < replica.applied_index.offset
    wanted = Offset(reading.message.after + 1)
    if wanted >= machine.state.next_offset:
        return False
    begin = Offset(machine.entry_before(wanted) - 1)
    resume = reading.message.resume
    if (
        reading.trusts_client
        and resume is not None
        and begin < resume < replica.applied_index.offset
    ):
        begin = resume
    else:
        reading.trusts_client = False
    reading.after_entry = max(begin, first_kept)
    return True


def take_entries(reading: ClientReading, replica: ShardReplica, entries: tuple[Entry, ...]) -> bool:
    """Take in what was read; True when that is enough. ``OffsetExpired`` when the beginning is gone."""
    if reading.scan is not None and entries:
        is_enough = reading.scan.take(entries, machine_of(replica).state.long_open)
        reading.after_entry = reading.scan.reached
        return is_enough
    if isinstance(reading.message, GetLatestChange) and entries:
        _take_latest(reading, entries[0], reading.message.key)
        return True
    return _take_records(reading, replica, entries)


def _take_latest(reading: ClientReading, entry: Entry, key: bytes) -> None:
    if entry.kind == EntryKind.COMPACTED:
        reading.latest = compacted_change(entry, reading.latest_place)
        reading.latest_place, reading.is_compacted = 0, True
        return
    holder = _holder(entry, key)
    reading.latest = FoundEntry(holder.id.epoch, holder.clock, holder.kind, holder.body)


def _holder(entry: Entry, key: bytes) -> Entry:
    """What of an entry holds the change of a key: in a batch there is one (U2)."""
    if entry.kind != EntryKind.BATCH:
        return entry
    return next(
        each
        for each in unbatched(entry)
        if each.kind == EntryKind.BRANCH_COMMITTED
        and key in each.body  # only then it is worth a closer look
        and any(change.key == key for change in decode_committed(each.body).branch.changes)
    )


def _take_records(
    reading: ClientReading, replica: ShardReplica, entries: tuple[Entry, ...]
) -> bool:
    message = reading.message
    for entry in entries:
        reading.after_entry = entry.id.offset
        for each in unbatched(entry):  # all of it: whoever reads on begins with the next entry
            place = record_range(each)
            if place is None:
                continue
            first_offset, count = place
            if reading.first_offset is None:
                reading.first_offset = first_offset
            if isinstance(message, DescribeShard):
                return True
            assert isinstance(message, ReadRecords)
            if first_offset + count <= message.after + 1:
                continue
            if not reading.found and first_offset > message.after + 1:
                if reading.trusts_client:
                    reading.trusts_client = False
                    return not begin_at(reading, replica)
                raise _expired(message, first_offset)
            found = FoundRecords(each.id.epoch, each.clock, each.body, each.kind)
            reading.found.append(found)
            reading.records += count
            reading.size_bytes += len(each.body)
        if isinstance(message, ReadRecords) and (
            reading.records >= message.limit or reading.size_bytes >= message.bytes_max
        ):
            return True
    return bool(reading.found)


def has_missed(reading: ClientReading, replica: ShardReplica) -> bool:
    """At the end of the log: True when the client has sent it past what it wants, and it must begin again.

    ``OffsetExpired`` when the record has been written, and nothing from it on is kept.
    """
    message, next_offset = reading.message, machine_of(replica).state.next_offset
    if isinstance(message, GetLatestChange):
        raise NodeError(
            "the latest change of a key cannot be read back", hint="read the node's log"
        )
    if not isinstance(message, ReadRecords) or reading.found or message.after + 1 >= next_offset:
        return False
    if not reading.trusts_client:
        raise _expired(message, next_offset)
    reading.trusts_client = False
    return True


def _expired(message: ReadRecords, first: Offset) -> OffsetExpired:
    return OffsetExpired(
        f"record {message.after + 1} is no longer kept",
        hint=f"the first one that is there is {first}",
    )


range_bytes = 256 * KIB
"""What is read of a log at once for a page of the feed, at most."""

range_bytes_min = 64 * KIB
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
        limit = min(message.limit, page_limit_max)
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
        elif replica.confirmed_round >= reading.round and may_begin(reading, replica):
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
        if not begin_at(reading, replica):
            return [_finish(readings, number, reading, replica)]
        return _read_on(readings, number, reading, replica)
    except MotetError as error:
        return _fail(readings, number, error)


def _read_on(
    readings: Readings, number: int, reading: ClientReading, replica: ShardReplica
) -> list[Effect]:
    if reading.after_entry >= replica.applied_index.offset:
        if has_missed(reading, replica):
            return _begin(readings, number, reading, replica)
        return [_finish(readings, number, reading, replica)]
    wanted = range_bytes
    if isinstance(reading.message, GetLatestChange):
        wanted = 1
    elif isinstance(reading.message, ReadRecords):
        most = min(reading.message.bytes_max, page_bytes_max)
        wanted = max(1, min(most, _likely_bytes(reading, reading.message.limit)))
    elif isinstance(reading.message, ReadShardFeed):
        wanted = min(_likely_bytes(reading, reading.message.limit), range_bytes)
    asked, effects = replica.read(reading.after_entry, wanted)
    readings.reads.setdefault(replica.shard, {})[asked] = number
    return effects


def read_own(readings: Readings, replica: ShardReplica, after: Offset) -> list[Effect]:
    """Read a range of a log for the node itself."""
    asked, effects = replica.read(after, range_bytes)
    readings.own.pop(replica.shard, None)
    readings.reads.setdefault(replica.shard, {})[asked] = OWN
    return effects + _take_finished_of(readings, replica)  # it may have been in memory


def _likely_bytes(reading: ClientReading, limit: int) -> int:
    """What so many records or changes will take, by the size of those that were found."""
    each = reading.size_bytes // reading.records if reading.records else change_bytes
    return range_bytes_min + each * max(limit - reading.records, 0)


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
        if take_entries(reading, replica, done.entries):
            notes = [Note("compacted_change_read", replica.shard)] if reading.is_compacted else []
            return [*notes, _finish(readings, number, reading, replica)]
        return _read_on(readings, number, reading, replica)
    except MotetError as error:
        return _fail(readings, number, error)


def _fail(readings: Readings, number: int, error: MotetError) -> list[Effect]:
    reading = readings.under_way.pop(number)
    readings.confirmed(number, reading)
    return [refusal(reading.client, reading.message.request, error)]


def _finish(readings: Readings, number: int, reading: ClientReading, replica: ShardReplica) -> Send:
    del readings.under_way[number]
    return Send(reading.client, _answer(reading, replica))


def _answer(reading: ClientReading, replica: ShardReplica) -> Message:
    message, clock, state = reading.message, replica.last_clock, machine_of(replica).state
    request, closed = message.request, state.transactions.closed
    match message:
        case GetLatestChange():
            return LatestChangeIs(request, reading.latest, reading.latest_place, clock)
        case GetTransaction():
            return _standing(message, replica)
        case DescribeFeed():
            cursors, low_watermark = tuple(state.rules.cursors.items()), state.rules.low_watermark
            return FeedDescribed(request, cursors, low_watermark, _begins(replica))
        case ListPrepared():
            prepared = state.transactions.prepared.items()
            found = [PreparedTransaction(n, each.prepared.home, each.clock) for n, each in prepared]
            return PreparedAre(request, tuple(found))
        case ReadShardFeed():
            return _feed(message, reading, replica)
        case DescribeShard(shard=shard):
            last, epoch = state.next_offset, replica.epoch
            first = last if reading.first_offset is None else reading.first_offset
            return ShardDescribed(request, shard, epoch, last, first, clock, state.created)
        case ReadRecords():
            entries, resume = tuple(reading.found), reading.after_entry
            return RecordsRead(request, entries, resume, state.next_offset, clock, closed)


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


def compacted_change(entry: Entry, place: int) -> FoundEntry:
    """One change of an entry that compacts some, as if it had been logged by itself."""
    change = decode_compacted(entry.body).changes[place]
    return FoundEntry(entry.id.epoch, change.clock, EntryKind.BRANCH_COMMITTED, encode_body(change))
