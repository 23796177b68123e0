"""Reading records back: who may answer, where to begin in the log, and what to send.

R1  A leader answers when a majority has confirmed, after the request came, that it still leads, and when it
    has applied what it knew to be committed by then; and what it answers is committed. A replica that is
    asked as such answers with what it knows to be committed.
R2  Records come in the order of the shard, without a gap; what is no longer kept is an error that says where
    one can begin.
R3  The latest change of a key is told when nobody has locked it: what is decided and not yet logged here is
    waited for. What a replica says of the feed is closed, so nobody need confirm it.
"""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import ZERO
from motet.core.datanode.messages import DescribeShard, FoundRecords, ReadRecords
from motet.core.datanode.stream_shard import machine_of
from motet.core.shardlog.entry import Entry, EntryKind
from motet.core.shardlog.replica import ShardReplica
from motet.core.transaction.bundles import unbundled
from motet.core.transaction.carried import carried_change
from motet.core.transaction.entries import decode_committed, record_range
from motet.core.transaction.judging import key_forgotten
from motet.core.transaction.messages import (
    DescribeFeed,
    FoundEntry,
    GetLatestChange,
    GetTransaction,
    ListPrepared,
    ReadShardFeed,
)
from motet.core.transaction.scan import FeedScan
from motet.errors import NodeError
from motet.errors.shards import CursorExpired, OffsetExpired
from motet.ids import Address, Epoch, Offset

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
    #: entries behind this one are wanted next
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
    #: it was carried on
    is_carried: bool = False


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
        is_pruned = begins == machine.state.rules.horizon
        what = f"pruned up to {begins}" if is_pruned else f"kept only behind {begins}"
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


def take(reading: ClientReading, replica: ShardReplica, entries: tuple[Entry, ...]) -> bool:
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
    if entry.kind == EntryKind.CARRIED_ON:
        reading.latest = carried_change(entry, reading.latest_place)
        reading.latest_place, reading.is_carried = 0, True
        return
    holder = _holder(entry, key)
    reading.latest = FoundEntry(holder.id.epoch, holder.clock, holder.kind, holder.body)


def _holder(entry: Entry, key: bytes) -> Entry:
    """What of an entry holds the change of a key: in a bundle there is one (U2)."""
    if entry.kind != EntryKind.BUNDLE:
        return entry
    return next(
        each
        for each in unbundled(entry)
        if each.kind == EntryKind.PART_COMMITTED
        and key in each.body  # only then it is worth a closer look
        and any(change.key == key for change in decode_committed(each.body).part.changes)
    )


def _take_records(
    reading: ClientReading, replica: ShardReplica, entries: tuple[Entry, ...]
) -> bool:
    message = reading.message
    for entry in entries:
        reading.after_entry = entry.id.offset
        for each in unbundled(entry):  # all of it: whoever reads on begins with the next entry
            place = record_range(each.kind, each.body)
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
