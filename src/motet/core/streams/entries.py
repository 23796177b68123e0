"""What the entries of a shard's log say, and what is done with each kind of them.

A ``Records`` is chunks of raw records, as clients sent them. A transaction on one shard is one ``Committed``.
On several, the others log a ``Prepared`` each; the home shard then logs the decision, which is its own branch
of the transaction as well: a ``Committed`` or an ``Aborted`` that names the participants. Each of them logs
the outcome in the same words, naming none. A ``Committed`` always holds the changes of its shard, so whoever
reads a log needs nothing else.

What comes to a leader in one turn is one write, one message to each follower and one entry to commit: a
batch. It says what its entries would have said by themselves, in the same order, each with a clock of its
own.

``KINDS`` has a row for each kind of entry: how its body is decoded, which method of the shard's state applies
it, what a reader on its way through a log learns of it, and how it is rendered for people. A new kind is a
body and a row here, and a method of :class:`motet.core.streams.shard.StreamShard`.

U1  Clocks rise within a batch, and the last one is that of the entry: whoever knows an entry's clock knows
    that nothing below it follows.
U2  A transaction is in a batch once, and no two in it change the same key: whatever touches what is on its
    way waits until that is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from motet.core.clock.hlc import Clock
from motet.core.shardlog.entry import Entry, EntryKind
from motet.core.streams.change import Branch, FeedChange, RowChange, Run, Token
from motet.core.streams.cluster_messages import TurnClock
from motet.core.streams.orders import LoggedOrder, decode_order
from motet.errors import BadRecord
from motet.format.record_block import decode_block
from motet.ids import Offset, ShardId, ShardName, StreamName, TransactionId

# The bodies


class Chunk(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Records that were sent together: all of them are appended, or none."""

    count: int
    #: names the whole chunk, so that a retry is recognised
    token: Token | None
    #: see :mod:`motet.format.record_block`
    block: bytes


class Records(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Chunks, one after the other."""

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


class Prepared(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A participant promises to do its branch if the home shard says so; its keys are locked until then."""

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
    """The transaction is committed, and this is its branch in this shard."""

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


class Compacted(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Changes that are the latest of their keys, or were when they were read."""

    #: each has one change
    changes: tuple[Committed, ...]
    #: where the leader's log began: entries before it that compacted something are gone
    first: Offset


# What of them is looked at, if no more is needed


class ChunkLook(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A chunk whose block stays where it is."""

    count: int
    token: Token | None
    block: memoryview


class RecordsLook(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """``Records`` without a copy of what they say: valid as long as the body that it was made of."""

    first_offset: Offset
    at_ms: int
    chunks: tuple[ChunkLook, ...]
    has_clock: bool = True

    @property
    def count(self) -> int:
        return sum([chunk.count for chunk in self.chunks])


class BranchLook(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A branch, its changes not looked into."""

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


class PreparedLook(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The beginning of a ``Prepared``."""

    branch: BranchLook


class CommittedLook(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The beginning of a ``Committed``."""

    branch: BranchLook
    clock: Clock
    at_ms: int
    first_offset: Offset


encode_body = msgspec.msgpack.Encoder().encode
decode_records = msgspec.msgpack.Decoder(Records).decode
decode_prepared = msgspec.msgpack.Decoder(Prepared).decode
decode_committed = msgspec.msgpack.Decoder(Committed).decode
decode_aborted = msgspec.msgpack.Decoder(Aborted).decode
decode_forgotten = msgspec.msgpack.Decoder(Forgotten).decode
decode_compacted = msgspec.msgpack.Decoder(Compacted).decode
_decode_batch = msgspec.msgpack.Decoder(tuple[tuple[int, Clock, bytes], ...]).decode
_look_at_records = msgspec.msgpack.Decoder(RecordsLook).decode
_look_at_prepared = msgspec.msgpack.Decoder(PreparedLook).decode
_look_at_committed = msgspec.msgpack.Decoder(CommittedLook).decode


def encode_records(records: Records) -> bytes:
    """What is logged. Records with a clock do not say so, as before there was clock visibility."""
    if records.has_clock:
        return encode_body((records.first_offset, records.at_ms, records.chunks))
    return encode_body(records)


def encode_batch(entries: Sequence[Entry]) -> tuple[int, bytes]:
    """The kind and the body of the entry that holds these; one alone is an entry by itself."""
    if len(entries) == 1:
        return entries[0].kind, entries[0].body
    return EntryKind.BATCH, encode_body([(each.kind, each.clock, each.body) for each in entries])


def unbatched(entry: Entry) -> Sequence[Entry]:
    """What an entry says, one after the other: all have its place in the log."""
    if entry.kind != EntryKind.BATCH:
        return (entry,)
    return [Entry(entry.id, *each) for each in _decode_batch(entry.body)]


# What is done with each kind


class StateOfShard(Protocol):
    """What entries change: a method for each kind that changes something."""

    def apply_records(self, entry: Entry, records: RecordsLook) -> None: ...
    def apply_committed(self, entry: Entry, body: Committed) -> None: ...
    def apply_prepared(self, entry: Entry, body: Prepared) -> None: ...
    def apply_aborted(self, entry: Entry, body: Aborted) -> None: ...
    def apply_forgotten(self, entry: Entry, body: Forgotten) -> None: ...
    def apply_order(self, entry: Entry, order: LoggedOrder) -> None: ...
    def apply_compacted(self, entry: Entry, body: Compacted) -> None: ...
    def apply_batch(self, entry: Entry) -> None: ...


class Logged(Protocol):
    """An entry, in its log or in an answer."""

    @property
    def kind(self) -> int: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def body(self) -> bytes: ...


class Seen(NamedTuple):
    """What a reader on its way through a log learns of an entry."""

    #: of its transaction
    clock: Clock
    #: the first of its records or changes, None for none; and how many there are
    first_offset: Offset | None = None
    changes: int = 0
    #: the transaction that is open from here on, or that is no longer
    opened: TransactionId | None = None
    ended: TransactionId | None = None


class KindRow(NamedTuple):
    """What is done with the entries of one kind."""

    #: the body, or as much of it as applying and rendering need
    decode: Callable[[bytes], Any] = bytes
    apply: Callable[[StateOfShard, Entry, Any], None] = lambda _state, _entry, _body: None
    #: None: a reader learns nothing
    read: Callable[[Logged], Seen] | None = None
    #: the decoded body, for people
    render: Callable[[Any], str] = lambda _body: "closed"
    #: its records or changes; None: it has none for readers of the feed
    run: Callable[[StreamName, ShardId, ShardName, Logged], Run] | None = None
    #: it may be in a batch: what many clients ask for at the same time, and what follows from it
    in_batch: bool = False
    #: for the sparse index: a point may lie before it; or only its size counts, or nothing
    indexed: Literal["point", "size", "nothing"] = "nothing"


def _see_records(entry: Logged) -> Seen:
    records = _look_at_records(entry.body)
    return Seen(entry.clock, records.first_offset, records.count)


def _see_committed(entry: Logged) -> Seen:
    body = _look_at_committed(entry.body)
    name, size = body.branch.transaction, body.branch.size
    return Seen(body.clock, body.first_offset if size else None, size, ended=name)


def _render_committed(body: Committed) -> str:
    heard = _for(body.participants) + hidden(has_clock=body.has_clock)
    return f"committed({body.branch.transaction} {body.clock}{heard})"


def _render_order(order: LoggedOrder) -> str:
    turned = f" {'on' if order.is_on else 'off'}" if isinstance(order, TurnClock) else ""
    return f"ordered({type(order).__name__}{turned})"


def _render_compacted(body: Compacted) -> str:
    keys = ",".join(each.branch.changes[0].key.decode() for each in body.changes)
    return f"compacted({keys})"


def _for(participants: Sequence[ShardName]) -> str:
    return f" for {','.join(participants)}" if participants else ""


def hidden(*, has_clock: bool) -> str:
    """Whether users get to see the clock before it."""
    return "" if has_clock else " hidden"


def _run_of_records(stream: StreamName, number: ShardId, shard: ShardName, entry: Logged) -> Run:
    """An entry of raw records is one transaction: they have its clock and count through it."""
    records, clock = decode_records(entry.body), entry.clock
    blocks = [zip(*decode_block(chunk.block), strict=True) for chunk in records.chunks]
    rows = enumerate(chain.from_iterable(blocks))
    changes = tuple([RowChange(at, key, "append", value, None) for at, (key, value) in rows])
    name = TransactionId(f"e-{clock.to_int():016x}-{shard}")
    count, at_ms, first = records.count, records.at_ms, records.first_offset
    return Run(clock, name, count, stream, number, at_ms, first, changes, records.has_clock)


def _run_of_committed(stream: StreamName, number: ShardId, _shard: ShardName, entry: Logged) -> Run:
    body = decode_committed(entry.body)
    branch, at_ms, first = body.branch, body.at_ms, body.first_offset
    name, count, changes = branch.transaction, branch.count, branch.changes
    return Run(body.clock, name, count, stream, number, at_ms, first, changes, body.has_clock)


SAYS_NOTHING = KindRow()
"""Its clock is all that there is to know, and it closes an idle shard."""

KINDS: dict[int, KindRow] = {
    EntryKind.RECORDS.value: KindRow(
        _look_at_records,
        lambda state, entry, body: state.apply_records(entry, body),
        _see_records,
        lambda body: f"records({body.count}{hidden(has_clock=body.has_clock)})",
        _run_of_records,
        indexed="point",
    ),
    EntryKind.BRANCH_COMMITTED.value: KindRow(
        decode_committed,
        lambda state, entry, body: state.apply_committed(entry, body),
        _see_committed,
        _render_committed,
        _run_of_committed,
        in_batch=True,
        indexed="point",
    ),
    EntryKind.PREPARED.value: KindRow(
        decode_prepared,
        lambda state, entry, body: state.apply_prepared(entry, body),
        lambda e: Seen(e.clock, opened=_look_at_prepared(e.body).branch.transaction),
        lambda body: f"prepared({body.branch.transaction})",
        in_batch=True,
        indexed="size",
    ),
    EntryKind.ABORTED.value: KindRow(
        decode_aborted,
        lambda state, entry, body: state.apply_aborted(entry, body),
        lambda e: Seen(e.clock, ended=decode_aborted(e.body).transaction),
        lambda body: f"aborted({body.transaction}{_for(body.participants)})",
        in_batch=True,
    ),
    EntryKind.FORGOTTEN.value: KindRow(
        decode_forgotten,
        lambda state, entry, body: state.apply_forgotten(entry, body),
        render=lambda body: f"forgotten({','.join(body.transactions)})",
        in_batch=True,
    ),
    EntryKind.ORDERED.value: KindRow(
        decode_order,
        lambda state, entry, order: state.apply_order(entry, order),
        render=_render_order,
    ),
    EntryKind.COMPACTED.value: KindRow(
        decode_compacted,
        lambda state, entry, body: state.apply_compacted(entry, body),
        render=_render_compacted,
        indexed="point",
    ),
    # Its entries are applied, read and rendered one by one.
    EntryKind.BATCH.value: KindRow(
        apply=lambda state, entry, _: state.apply_batch(entry), indexed="point"
    ),
    EntryKind.CLOSED.value: SAYS_NOTHING,
    EntryKind.BARRIER.value: SAYS_NOTHING,
}


def read(entry: Logged) -> Seen | None:
    """What a reader on its way through a log learns of an entry that is no batch; None: nothing."""
    see = KINDS.get(entry.kind, SAYS_NOTHING).read
    return None if see is None else see(entry)


def record_range(entry: Logged) -> tuple[Offset, int] | None:
    """The first record or change of an entry and how many there are; None if it has none."""
    seen = read(entry)
    if seen is None or seen.first_offset is None:
        return None
    return seen.first_offset, seen.changes


def run_of(stream: StreamName, number: ShardId, shard: ShardName, entry: Logged) -> Run:
    """The records or changes of an entry, as readers of the feed see them."""
    run = KINDS.get(entry.kind, SAYS_NOTHING).run
    if run is None:
        raise BadRecord(f"an entry of kind {entry.kind} has no changes")
    return run(stream, number, shard, entry)


def changes_of(
    stream: StreamName, number: ShardId, shard: ShardName, entry: Logged
) -> list[FeedChange]:
    """The same one by one."""
    return run_of(stream, number, shard, entry).expanded()


def render(entry: Entry) -> str:
    """An entry in few words."""
    return " + ".join(f"{_render(each)}@{each.clock}" for each in unbatched(entry))


def _render(entry: Entry) -> str:
    row = KINDS.get(entry.kind, SAYS_NOTHING)
    return row.render(row.decode(entry.body))
