"""What the entries of a shard's log say about transactions.

A transaction on one shard is one ``Committed``. On several, the others log a ``Prepared`` each; the home
shard then logs the decision, which is its own part of the transaction as well: a ``Committed`` or an
``Aborted`` that names the participants. Each of them logs the outcome in the same words, naming none. A
``Committed`` always holds the changes of its shard, so whoever reads a log needs nothing else.
"""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.datanode.records import decode_records
from motet.core.onelog.change import Op
from motet.core.shardlog.entry import EntryKind
from motet.ids import Offset, ShardName, TransactionId


class PartChange(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One change of a transaction, in its shard."""

    #: among all changes of the transaction, over all its shards
    index: int
    key: bytes
    op: Op
    row: bytes | None
    before: bytes | None


class Part(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What requests and entries say about a transaction: its name, its age, and its part in a shard."""

    transaction: TransactionId
    #: the clock it began at: together with its name this is its age, by which rivals wait or die
    begin: Clock
    #: the clock its client had seen when it asked for the commit: whoever has forgotten transactions
    #: asked at this clock takes it for one of them
    asked: Clock
    #: changes in all shards
    count: int = 0
    changes: tuple[PartChange, ...] = ()

    @property
    def age(self) -> tuple[Clock, TransactionId]:
        """The lower is the older."""
        return self.begin, self.transaction


class Prepared(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A participant promises to do its part if the home shard says so; its keys are locked until then."""

    part: Part
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

    part: Part
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


class PartOutline(msgspec.Struct, frozen=True, array_like=True, gc=False):
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

    part: PartOutline


class CommittedOutline(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The same of a ``Committed``."""

    part: PartOutline
    clock: Clock
    at_ms: int
    first_offset: Offset


def record_range(kind: int, body: bytes) -> tuple[Offset, int] | None:
    """The first record or change of an entry and how many there are; None if it has none."""
    if kind == EntryKind.RECORDS:
        records = decode_records(body)
        return records.first_offset, records.count
    if kind == EntryKind.PART_COMMITTED:
        committed = outline_committed(body)
        size = committed.part.size
        return (committed.first_offset, size) if size else None
    return None


encode_part = msgspec.msgpack.Encoder().encode
decode_prepared = msgspec.msgpack.Decoder(Prepared).decode
decode_committed = msgspec.msgpack.Decoder(Committed).decode
outline_prepared = msgspec.msgpack.Decoder(PreparedOutline).decode
outline_committed = msgspec.msgpack.Decoder(CommittedOutline).decode
decode_aborted = msgspec.msgpack.Decoder(Aborted).decode
decode_forgotten = msgspec.msgpack.Decoder(Forgotten).decode
