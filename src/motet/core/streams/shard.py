"""The state of one shard of a stream, as its log tells it: its records, tokens, and transactions.

T1  Records have offsets from 0, without a gap, in the order of the log.
T2  A token is applied once. The newest ``producer_window`` of each producer are remembered with where their
    records are: a repeat gets the first answer. One that is below all that are remembered, when some have
    been forgotten, may have been applied before: it is refused, never applied again. Producers themselves
    are never forgotten; beyond ``producers_max`` new ones are refused.
T3  The points of the sparse index rise, in records, entries and clocks: a record's entry is at or after
    the point before it, and so is the first entry above a clock. When there are too many, every second
    one goes and the steps double, on all replicas alike.

T4  Of each prepare that was open at an index point it is known what became of it, as long as that point is
    there: a reader of the feed that begins at it need not look for the outcome.

Transactions are in :mod:`motet.core.streams.transactions`; their changes count as records, with offsets.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Self

import msgspec

from motet.core.clock.hlc import ZERO, Clock, plus
from motet.core.fingerprint import clone_plain, fingerprint
from motet.core.shardlog.entry import Entry
from motet.core.shardlog.replica import ShardReplica
from motet.core.streams.change import Token
from motet.core.streams.entries import (
    KINDS,
    SAYS_NOTHING,
    Aborted,
    Committed,
    Compacted,
    Forgotten,
    KindRow,
    Prepared,
    RecordsLook,
    unbatched,
)
from motet.core.streams.latest import LatestChanges
from motet.core.streams.orders import FeedRules, LoggedOrder
from motet.core.streams.transactions import Outcome, TransactionState
from motet.errors import BadRecord, TokenExpired, TooLarge
from motet.format.record_block import decode_keys
from motet.ids import Epoch, Offset, TransactionId
from motet.limits import (
    outcomes_remembered,
    producer_window,
    producers_max,
    sparse_index_step_bytes,
)

index_points_max = 1 << 16
FIRST = Offset(1)
"""The first entry of a log that was never trimmed."""

Opens = tuple[tuple[TransactionId, Clock], ...]


class Place(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where the records of a chunk are."""

    epoch: Epoch
    first_offset: Offset
    clock: Clock


class Producer(msgspec.Struct):
    """What is remembered of a producer."""

    #: number -> where its records are; the highest ``producer_window`` numbers
    places: dict[int, Place]
    #: some have been forgotten: a number below all of ``places`` may have been used
    has_forgotten: bool = False


NAMES_IN_SNAPSHOTS = {
    "index_records": "milestone_records",
    "index_entries": "milestone_entries",
    "index_clocks": "milestone_clocks",
    "index_opens": "milestone_opens",
    "sparse_index_step_bytes": "milestone_step_bytes",
    "bytes_since_index_point": "bytes_since_milestone",
    "created": "born",
}
"""What snapshots call these fields: those that were made before the fields were renamed stay readable."""


class ShardState(msgspec.Struct, rename=NAMES_IN_SNAPSHOTS):
    """All that is replicated, besides the log itself."""

    next_offset: Offset = Offset(0)
    producers: dict[str, Producer] = msgspec.field(default_factory=dict)
    #: index_records[i] is the first record of entry index_entries[i]
    index_records: list[Offset] = msgspec.field(default_factory=list)
    index_entries: list[Offset] = msgspec.field(default_factory=list)
    #: index_clocks[i] is its clock, index_opens[i] the prepares that were open before it
    index_clocks: list[Clock] = msgspec.field(default_factory=list)
    index_opens: list[Opens] = msgspec.field(default_factory=list)
    #: what became of the prepares in ``index_opens``; None: they are open
    long_open: dict[TransactionId, Outcome | None] = msgspec.field(default_factory=dict)
    sparse_index_step_bytes: int = sparse_index_step_bytes
    bytes_since_index_point: int = 0
    #: of the last entry that holds records or changes; None: not known
    changed: Clock | None = None
    transactions: TransactionState = msgspec.field(default_factory=TransactionState)
    latest: LatestChanges = msgspec.field(default_factory=LatestChanges)
    rules: FeedRules = msgspec.field(default_factory=FeedRules)
    #: of the first entry: above every clock that was handed out before the shard was made
    created: Clock = ZERO


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ShardState).decode


class StreamShard:
    """The state machine of a shard."""

    def __init__(
        self, outcomes: int = outcomes_remembered, index_step_bytes: int = sparse_index_step_bytes
    ) -> None:
        self.state = ShardState(
            transactions=TransactionState(remembered=outcomes),
            sparse_index_step_bytes=index_step_bytes,
        )

    def apply(self, entry: Entry) -> None:
        row = KINDS.get(entry.kind, SAYS_NOTHING)
        if row.indexed == "point":
            self._add_index_point(entry)
        elif row.indexed == "size":
            self.state.bytes_since_index_point += len(entry.body)
        self._apply(entry, row)

    def _apply(self, entry: Entry, row: KindRow) -> None:
        row.apply(self, entry, row.decode(entry.body))
        transactions = self.state.transactions
        if transactions.clock == ZERO:
            self.state.created = entry.clock
        transactions.clock = entry.clock

    def apply_batch(self, entry: Entry) -> None:
        transactions = self.state.transactions
        for each in unbatched(entry):
            assert each.clock > transactions.clock, "U1"
            self._apply(each, KINDS.get(each.kind, SAYS_NOTHING))
        assert transactions.clock == entry.clock, "U1"

    def apply_records(self, entry: Entry, records: RecordsLook) -> None:
        state = self.state
        self._check_offset(entry, records.first_offset)
        if records.has_clock != state.rules.has_clock:
            raise BadRecord(
                f"entry {entry.id} and its shard differ on whether clocks are shown (P3)"
            )
        state.changed = entry.clock
        offset = records.first_offset
        for chunk in records.chunks:
            if chunk.token is not None:
                self._remember(chunk.token, Place(entry.id.epoch, offset, entry.clock))
            offset = Offset(offset + chunk.count)
        state.next_offset = offset
        if state.latest.wants_raw(entry.clock):
            keys = [key for chunk in records.chunks for key in decode_keys(chunk.block)]
            state.latest.add_raw(entry.clock, entry.id.offset, keys)

    def _check_offset(self, entry: Entry, first: Offset) -> None:
        """An entry comes from a peer: one that does not fit here is damage, and stops nobody (T1)."""
        if first != self.state.next_offset:
            what = f"begins at record {first}, and the shard goes on at {self.state.next_offset}"
            raise BadRecord(f"entry {entry.id} {what}")

    def apply_committed(self, entry: Entry, body: Committed) -> None:
        state, branch, clock = self.state, body.branch, entry.clock
        latest = state.latest
        self._check_offset(entry, body.first_offset)
        state.changed = clock
        latest.is_wanted = True
        latest.add_changes(body.clock, entry.id.offset, [change.key for change in branch.changes])
        state.next_offset = Offset(body.first_offset + len(branch.changes))
        state.transactions.commit(clock, body)
        if state.long_open:
            self._note_end(branch.transaction)

    def apply_prepared(self, entry: Entry, body: Prepared) -> None:
        self.state.latest.is_wanted = True
        self.state.transactions.prepare(entry.clock, body)

    def apply_aborted(self, _entry: Entry, body: Aborted) -> None:
        self.state.transactions.abort(body)
        self._note_end(body.transaction)

    def apply_forgotten(self, _entry: Entry, body: Forgotten) -> None:
        self.state.transactions.forget(body)

    def apply_order(self, _entry: Entry, order: LoggedOrder) -> None:
        self.state.rules.apply(order)

    def apply_compacted(self, entry: Entry, body: Compacted) -> None:
        """Nothing is changed by it: only where the latest changes of keys are found is otherwise (Y3)."""
        changes = [(each.branch.changes[0].key, each.clock) for each in body.changes]
        self.state.latest.compact(entry.id.offset, changes, body.first)

    def _add_index_point(self, entry: Entry) -> None:
        """Before anything of the entry is applied: what it says itself is not before it (T3)."""
        state = self.state
        if (
            not state.index_records
            or state.bytes_since_index_point >= state.sparse_index_step_bytes
        ):
            state.index_records.append(state.next_offset)
            state.index_entries.append(entry.id.offset)
            state.index_clocks.append(entry.clock)
            state.index_opens.append(state.transactions.opens)
            for name in state.transactions.prepared:
                state.long_open.setdefault(name, None)
            state.bytes_since_index_point = 0
            if len(state.index_records) > index_points_max:
                self._thin_out()
        state.bytes_since_index_point += len(entry.body)

    def _thin_out(self) -> None:
        """Every second index point goes (T3), and what is known for its sake (T4)."""
        state = self.state
        del state.index_records[1::2], state.index_entries[1::2]
        del state.index_clocks[1::2], state.index_opens[1::2]
        state.sparse_index_step_bytes *= 2
        needed = {name: None for opens in state.index_opens for name, _ in opens}
        for name in [name for name in state.long_open if name not in needed]:
            del state.long_open[name]

    def _note_end(self, name: TransactionId) -> None:
        if name in self.state.long_open:
            self.state.long_open[name] = self.state.transactions.outcomes[name]

    def _remember(self, token: Token, place: Place) -> None:
        producer = self.state.producers.setdefault(token.producer, Producer({}))
        assert token.number not in producer.places, "T2"
        producer.places[token.number] = place
        if len(producer.places) > producer_window:
            del producer.places[min(producer.places)]
            producer.has_forgotten = True

    # What a leader and a reader ask

    def place_of(self, token: Token) -> Place | None:
        """Where this token's records are, None if it was never used; ``TokenExpired`` if nobody knows."""
        producer = self.state.producers.get(token.producer)
        if producer is None:
            if len(self.state.producers) >= producers_max:
                raise TooLarge(
                    f"the shard remembers {producers_max} producers and takes no new one",
                    hint="use fewer producers, each with a rising count",
                )
            return None
        place = producer.places.get(token.number)
        if place is None and producer.has_forgotten and token.number < min(producer.places):
            raise _expired(token)
        return place

    def entry_before(self, record: Offset) -> Offset:
        """An entry at or before the one with this record, and not far from it; 1 if nothing is known."""
        state = self.state
        at = bisect_right(state.index_records, record) - 1
        return state.index_entries[at] if at >= 0 else Offset(1)

    def records_before(self, entry: Offset) -> Offset:
        """How many records there are before an entry, give or take those since the index point before it."""
        at = bisect_right(self.state.index_entries, entry) - 1
        return self.state.index_records[at] if at >= 0 else Offset(0)

    def entry_above(self, clock: Clock | None, first: Offset = FIRST) -> tuple[Offset, Opens]:
        """An entry: all that is above a clock is not before it; and the prepares that were open there.

        It is not before ``first``, where the log begins, if the feed can be read after that clock.
        """
        state = self.state
        at = -1 if clock is None else bisect_right(state.index_clocks, clock) - 1
        if first > 1:
            at = max(at, bisect_left(state.index_entries, first))
            at = min(at, len(state.index_entries) - 1)
        if at < 0:
            return first, ()
        return state.index_entries[at], state.index_opens[at]

    def feed_begins(self, first: Offset) -> Clock:
        """The feed can be read after this clock, and after no lower one; zero: all of it.

        What is pruned is not shown. And where the log begins with a later entry than its first, a reader
        has to begin at an index point: there it is known what was prepared before.
        """
        state, low_watermark = self.state, self.state.rules.low_watermark
        if first <= 1 or not state.index_entries:
            return low_watermark
        at = bisect_left(state.index_entries, first)
        if at == len(state.index_entries):  # nothing to begin at, until there is the next one
            return max(low_watermark, state.changed or state.transactions.clock)
        return max(low_watermark, plus(state.index_clocks[at], -1))

    # What the log needs

    def snapshot(self) -> bytes:
        return _encode(self.state)

    def restore(self, data: bytes) -> None:
        try:
            self.state = _decode(data)
        except msgspec.MsgspecError as error:
            raise BadRecord(f"the state of a shard cannot be read: {error}") from None
        state = self.state
        if len(state.index_clocks) != len(state.index_records):
            # Written before there were transactions: without index points one begins at the first entry.
            state.index_records, state.index_entries = [], []
            state.index_clocks, state.index_opens = [], []

    def clone(self) -> Self:
        twin = type(self)()
        twin.state = clone_plain(self.state)
        return twin

    def fingerprint(self) -> bytes:
        return fingerprint(self.state)


def machine_of(replica: ShardReplica) -> StreamShard:
    """The state machine of a replica of a stream's shard."""
    machine = replica.core.machine
    assert isinstance(machine, StreamShard)
    return machine


def state_of(replica: ShardReplica) -> TransactionState:
    """What a replica has applied about transactions."""
    return machine_of(replica).state.transactions


def _expired(token: Token) -> TokenExpired:
    return TokenExpired(
        f"the token ({token.producer!r}, {token.number}) is older than what is remembered",
        hint="read the stream to see whether it was appended; go on with a higher number",
    )
