"""Reading records back: who may answer, where to begin in the log, and what to send.

R1  A leader answers when a majority has confirmed, after the request came, that it still leads; and what it
    answers is committed. A replica that is asked as such answers with what it knows to be committed.
R2  Records come in the order of the shard, without a gap; what is no longer kept is an error that says where
    one can begin.
"""

from __future__ import annotations

import msgspec

from motet.core.datanode.messages import DescribeShard, FoundRecords, ReadRecords
from motet.core.datanode.records import decode_records
from motet.core.datanode.stream_shard import machine_of
from motet.core.shardlog.entry import Entry, EntryKind
from motet.core.shardlog.replica import ShardReplica
from motet.errors.shards import OffsetExpired
from motet.ids import Address, Epoch, Offset

page_limit_max = 1 << 20


class ClientReading(msgspec.Struct):
    """A request that is being served."""

    client: Address
    message: ReadRecords | DescribeShard
    #: None: nobody has to confirm anything
    round: int | None
    #: the epoch the leader was elected in; another one, and somebody else may have led in between
    elected_epoch: Epoch
    #: entries behind this one are wanted next
    after_entry: Offset = Offset(0)
    found: list[FoundRecords] = msgspec.field(default_factory=list)
    records: int = 0
    size_bytes: int = 0
    #: the first record of the first entry that was read
    first_offset: Offset | None = None
    #: it began where the client said, who may be wrong
    trusts_client: bool = True


def begin_at(reading: ClientReading, replica: ShardReplica) -> bool:
    """Find where to begin; False when there is nothing to read."""
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
    for entry in entries:
        reading.after_entry = entry.id.offset
        if entry.kind != EntryKind.RECORDS:
            continue
        records = decode_records(entry.body)
        if reading.first_offset is None:
            reading.first_offset = records.first_offset
        if isinstance(reading.message, DescribeShard):
            return True
        message, count = reading.message, records.count
        if records.first_offset + count <= message.after + 1:
            continue
        if not reading.found and records.first_offset > message.after + 1:
            if reading.trusts_client:
                reading.trusts_client = False
                return not begin_at(reading, replica)
            raise _expired(message, records.first_offset)
        reading.found.append(FoundRecords(entry.id.epoch, entry.clock, entry.body))
        reading.records += count
        reading.size_bytes += len(entry.body)
        if reading.records >= message.limit or reading.size_bytes >= message.bytes_max:
            return True
    return bool(reading.found)


def has_missed(reading: ClientReading, replica: ShardReplica) -> bool:
    """At the end of the log: True when the client has sent it past what it wants, and it must begin again.

    ``OffsetExpired`` when the record has been written, and nothing from it on is kept.
    """
    message, next_offset = reading.message, machine_of(replica).state.next_offset
    if isinstance(message, DescribeShard) or reading.found or message.after + 1 >= next_offset:
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
