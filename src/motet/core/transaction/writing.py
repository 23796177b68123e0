"""What errands become in the log of their shard: entries, those of one turn in a bundle.

An errand that may go is judged by what is applied and by what flies, so it counts as flying from the moment
it is gathered, before it is written; nothing else is put into the log meanwhile.
"""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.datanode.appends import ShardAppends
from motet.core.datanode.stream_shard import ShardState
from motet.core.machine import Effect, Note, Now
from motet.core.shardlog.entry import EntryId, EntryKind
from motet.core.shardlog.replica import ShardReplica
from motet.core.transaction.bundles import BUNDLED_KINDS, Bundled, encode_bundle
from motet.core.transaction.carried import Carried
from motet.core.transaction.entries import (
    Aborted,
    Committed,
    Forgotten,
    Part,
    Prepared,
    encode_part,
)
from motet.core.transaction.messages import (
    AbortTransaction,
    AskOutcome,
    CloseShard,
    CommitTransaction,
    OrderShard,
    PrepareTransaction,
    ResolveTransaction,
)
from motet.core.transaction.orders import TurnClock, encode_order
from motet.core.transaction.work import Flight, ShardTransactions, Work
from motet.ids import Offset, ShardName
from motet.limits import bundle_bytes_max


class Pen(msgspec.Struct):
    """Gathers what goes into the log of one shard in one step."""

    ours: ShardTransactions
    appends: ShardAppends
    replica: ShardReplica
    shard: ShardState
    now: Now
    bundled: list[Bundled] = msgspec.field(default_factory=list)
    size_bytes: int = 0
    #: the log has been asked whether it takes more, and does
    is_free: bool = False
    #: the place of what is gathered
    entry: EntryId | None = None
    effects: list[Effect] = msgspec.field(default_factory=list)

    def check(self, body_bytes: int = 0) -> None:
        """Raises what the log has against an entry, or one of this size."""
        if not self.is_free or body_bytes > bundle_bytes_max:
            error = self.replica.refusal(body_bytes)
            if error is not None:
                raise error
            self.is_free = True

    def put(self, work: Work, clock: Clock) -> None:
        """Put an errand into the log; raises what the log has against it."""
        kind, body, flight = self._entry(work, clock)
        body_bytes = len(body)
        if body_bytes > bundle_bytes_max or not self.is_free:
            self.check(body_bytes)
        is_alone = kind not in BUNDLED_KINDS
        if self.bundled and (is_alone or self.size_bytes + body_bytes > bundle_bytes_max):
            self.write()
            self.check(body_bytes)
        self.bundled.append(Bundled(kind, clock, body))
        self.size_bytes += body_bytes
        if self.entry is None:
            self.entry = EntryId(self.replica.epoch, Offset(self.replica.head.offset + 1))
        work.entry = self.entry
        if flight is not None:
            self.ours.take_off(work.entry, flight)
            if kind == EntryKind.PART_COMMITTED:
                self.appends.next_offset = Offset(self.appends.next_offset + flight.changes)
        self.ours.pending.append(work)
        if isinstance(work.errand, TurnClock):
            self.ours.turning = work.errand
        if is_alone:
            self.write()

    def write(self) -> None:
        """Append what is gathered, as one entry."""
        if not self.bundled:
            return
        kind, body = encode_bundle(self.bundled)
        appended, effects = self.replica.append(kind, self.bundled[-1].clock, body, self.now)
        assert appended == self.entry, "nothing else was appended"
        if kind == EntryKind.BUNDLE:
            self.effects.append(Note("transaction_bundle", str(len(self.bundled))))
        self.effects += effects
        self.bundled, self.size_bytes, self.is_free, self.entry = [], 0, False, None

    def _entry(self, work: Work, clock: Clock) -> tuple[EntryKind, bytes, Flight | None]:
        """The entry of an errand, and what is known of it until it is applied."""
        errand, state = work.errand, self.shard
        match errand:
            case CommitTransaction():
                opened = state.transactions.prepared.get(errand.part.transaction)
                part = errand.part if opened is None else opened.prepared.part
                # Somebody may have been told its clock when it was fixed, or that there is none.
                has_clock = (
                    self.ours.has_clock(state.rules)
                    if opened is None
                    else opened.prepared.has_clock
                )
                return self._committed(
                    part, errand.fixed or clock, self.now.wall_ms, errand.participants, has_clock
                )
            case PrepareTransaction():
                reads = tuple(read.key for read in errand.reads)
                has_clock = self.ours.has_clock(state.rules)
                body = Prepared(errand.part, reads, errand.home, errand.participants, has_clock)
                flight = _flight(errand.part, is_prepare=True, reads=reads)
                return EntryKind.PREPARED, encode_part(body), flight
            case ResolveTransaction() if errand.clock is not None:
                opened = state.transactions.prepared[errand.transaction]
                decided = errand.clock
                if decided < opened.clock:  # readers may be past it (X7)
                    what = f"{errand.transaction} {decided} is below its prepare at {opened.clock}"
                    self.effects.append(Note("transaction_clock_too_low", what))
                    decided = clock
                part = opened.prepared.part
                return self._committed(part, decided, errand.at_ms, (), errand.has_clock)
            case ResolveTransaction():
                return _aborted(Aborted(errand.transaction, errand.asked))
            case AbortTransaction() | AskOutcome():
                return _aborted(Aborted(errand.transaction, errand.asked, errand.participants))
            case Forgotten():
                return EntryKind.FORGOTTEN, encode_part(errand), None
            case CloseShard():
                return EntryKind.CLOSED, b"", None
            case OrderShard():
                return EntryKind.ORDERED, encode_order(errand.order), None
            case TurnClock():
                return EntryKind.ORDERED, encode_order(errand), None
            case Carried():
                return EntryKind.CARRIED_ON, encode_part(errand), None

    def _committed(
        self,
        part: Part,
        clock: Clock,
        at_ms: int,
        participants: tuple[ShardName, ...],
        has_clock: bool,
    ) -> tuple[EntryKind, bytes, Flight | None]:
        offset = self.appends.next_offset
        body = Committed(part, clock, at_ms, offset, participants, has_clock)
        return EntryKind.PART_COMMITTED, encode_part(body), _flight(part)


def floor_of(work: Work) -> Clock:
    """The clock of an errand's entry is above this one."""
    errand = work.errand
    if isinstance(errand, CommitTransaction):
        floor = max(errand.clock, errand.floor)  # X3
        return floor if errand.fixed is None else max(floor, errand.fixed)
    if isinstance(errand, ResolveTransaction):
        return errand.clock or ZERO  # X3
    if isinstance(errand, CloseShard) and errand.at_least is not None:
        return max(errand.clock, errand.at_least)
    if isinstance(errand, PrepareTransaction | AbortTransaction | CloseShard | OrderShard):
        return errand.clock
    return ZERO


def _flight(part: Part, *, is_prepare: bool = False, reads: tuple[bytes, ...] = ()) -> Flight:
    keys = dict.fromkeys([change.key for change in part.changes])
    if reads:
        keys = dict.fromkeys([*reads, *keys])
    return Flight(keys, part.transaction, is_prepare, len(part.changes))


def _aborted(body: Aborted) -> tuple[EntryKind, bytes, Flight]:
    flight = Flight({}, body.transaction, is_prepare=False, changes=0)
    return EntryKind.ABORTED, encode_part(body), flight
