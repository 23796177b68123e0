"""What the entries of a shard's log say: blocks of records, as their clients sent them, and transactions.

A transaction on one shard is one ``Committed``. On several, the others log a ``Prepared`` each; the home
shard then logs the decision, which is its own part of the transaction as well: a ``Committed`` or an
``Aborted`` that names the participants. Each of them logs the outcome in the same words, naming none. A
``Committed`` always holds the changes of its shard, so whoever reads a log needs nothing else.

What comes to a leader in one turn is one write, one message to each follower and one entry to commit: a
batch. It says what its entries would have said by themselves, in the same order, each with a clock of its
own.

U1  Clocks rise within a batch, and the last one is that of the entry: whoever knows an entry's clock knows
    that nothing below it follows.
U2  A transaction is in a batch once, and no two in it change the same key: whatever touches what is on its
    way waits until that is applied.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.shardlog.entry import Entry, EntryKind
from motet.core.streams.change import Branch, Token
from motet.ids import Offset, ShardName, TransactionId


class Prepared(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A participant promises to do its part if the home shard says so; its keys are locked until then."""

    branch: Branch
    #: keys that were read and are as they were read
    read_keys: tuple[bytes, ...]
    #: who decides
    home: ShardName
    #: all that must hear of the decision: those that log a prepare, without the home shard
    participants: tuple[ShardName, ...]
    #: in the home shard: whether somebody may be told the clock that it will have
    has_clock: bool = True


class Committed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The transaction is committed, and this is its part in this shard."""

    branch: Branch
    #: of the whole transaction; not above that of the entry
    clock: Clock
    #: the time of day at the home shard's leader
    at_ms: int
    #: of the first change; changes and records of a shard have offsets without a gap
    first_offset: Offset
    #: in the home shard: who must hear of it; empty in all others
    participants: tuple[ShardName, ...] = ()
    #: for its readers: False if the clock was off when it was decided
    has_clock: bool = True


class Aborted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The transaction will never be committed."""

    transaction: TransactionId
    asked: Clock
    #: in the home shard: who must hear of it; empty in all others
    participants: tuple[ShardName, ...] = ()


class Forgotten(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Every participant has logged the outcome: the home shard need not keep these decisions."""

    transactions: tuple[TransactionId, ...]


class BranchOutline(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A part, its changes not looked into."""

    transaction: TransactionId
    begin: msgspec.Raw
    asked: msgspec.Raw
    count: int
    changes: msgspec.Raw

    @property
    def size(self) -> int:
        """How many changes it has."""
        data = memoryview(self.changes)
        if data[0] >> 4 == 0x9:  # the heads of an array in MessagePack
            return data[0] & 0xF
        return int.from_bytes(data[1:3] if data[0] == 0xDC else data[1:5], "big")


class PreparedOutline(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a reader on its way through a log has to know of a ``Prepared``."""

    branch: BranchOutline


class CommittedOutline(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The same of a ``Committed``."""

    branch: BranchOutline
    clock: Clock
    at_ms: int
    first_offset: Offset


def record_range(kind: int, body: bytes) -> tuple[Offset, int] | None:
    """The first record or change of an entry and how many there are; None if it has none."""
    if kind == EntryKind.RECORDS:
        records = decode_records(body)
        return records.first_offset, records.count
    if kind == EntryKind.BRANCH_COMMITTED:
        committed = outline_committed(body)
        size = committed.branch.size
        return (committed.first_offset, size) if size else None
    return None


encode_body = msgspec.msgpack.Encoder().encode
decode_prepared = msgspec.msgpack.Decoder(Prepared).decode
decode_committed = msgspec.msgpack.Decoder(Committed).decode
outline_prepared = msgspec.msgpack.Decoder(PreparedOutline).decode
outline_committed = msgspec.msgpack.Decoder(CommittedOutline).decode
decode_aborted = msgspec.msgpack.Decoder(Aborted).decode
decode_forgotten = msgspec.msgpack.Decoder(Forgotten).decode


class Compacted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Changes that are the latest of their keys, or were when they were read."""

    #: each has one change
    changes: tuple[Committed, ...]
    #: where the leader's log began: of what was before it nothing is carried any more
    first: Offset


decode_compacted = msgspec.msgpack.Decoder(Compacted).decode


class BatchedEntry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What would have been an entry."""

    kind: int
    clock: Clock
    body: bytes


BATCHED_KINDS = (
    EntryKind.BRANCH_COMMITTED,
    EntryKind.PREPARED,
    EntryKind.ABORTED,
    EntryKind.FORGOTTEN,
)
"""What may be in a batch: what many clients ask for at the same time, and what follows from it."""

decode_batch = msgspec.msgpack.Decoder(tuple[BatchedEntry, ...]).decode


def encode_batch(batched: Sequence[BatchedEntry]) -> tuple[int, bytes]:
    """The kind and the body of the entry that holds these; one alone is an entry by itself."""
    if len(batched) == 1:
        return batched[0].kind, batched[0].body
    return EntryKind.BATCH, encode_body(batched)


def unbatched(entry: Entry) -> Sequence[Entry]:
    """What an entry says, one after the other: all have its place in the log."""
    if entry.kind != EntryKind.BATCH:
        return (entry,)
    return [Entry(entry.id, each.kind, each.clock, each.body) for each in decode_batch(entry.body)]


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


def encode_records(records: Records) -> bytes:
    """What is logged. Records with a clock do not say so, as before there was clock visibility."""
    if records.has_clock:
        return encode_body((records.first_offset, records.at_ms, records.chunks))
    return encode_body(records)


decode_records = msgspec.msgpack.Decoder(Records).decode

look_at_records = msgspec.msgpack.Decoder(RecordsLook).decode
"""The same without a copy of what the records say."""
