"""The leader of a shard with its errands: judged, put into the log, answered when they are applied.

Errands that wait are looked at, the oldest transaction first, whenever something was applied. Those of one
turn become one entry, a bundle. An errand that may go is judged by what is applied and by what flies, so it
counts as flying from the moment it is gathered, before it is written; nothing else is put into the log
meanwhile.

A leader that is one no longer answers ``NOT_LEADER`` to what it has not put into its log, else
``OUTCOME_UNKNOWN``: whoever asks the next leader again gets what became of it. What leaders tell each other
is simply dropped then: it is said again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import NS_PER_MS, Effect, Note, Now
from motet.core.shardlog.entry import EntryId, EntryKind
from motet.core.shardlog.replica import ShardReplica
from motet.core.streams.appends import ShardAppends, is_touched, lead_on
from motet.core.streams.change import Part
from motet.core.streams.decisions import answer_applied, answer_known
from motet.core.streams.entries import (
    BUNDLED_KINDS,
    Aborted,
    Bundled,
    Carried,
    Committed,
    Forgotten,
    Prepared,
    encode_bundle,
    encode_part,
)
from motet.core.streams.judging import (
    Verdict,
    judge_abort,
    judge_commit,
    judge_outcome,
    judge_prepare,
)
from motet.core.streams.messages import (
    AbortTransaction,
    AskOutcome,
    CloseShard,
    CommitTransaction,
    Forward,
    OrderShard,
    PrepareTransaction,
    ResolveTransaction,
)
from motet.core.streams.orders import TurnClock, encode_order
from motet.core.streams.pending import Flight, ShardTransactions, TransactionConfig, Work
from motet.core.streams.refusals import not_leader, refusal, unknown_outcome
from motet.core.streams.shard import ShardState, machine_of
from motet.errors import Conflict, MotetError, NodeError, NoSuchShard
from motet.errors.shards import NotLeader
from motet.ids import Epoch, Offset, ShardName
from motet.limits import bundle_bytes_max, transactions_waiting_max

Tick = Callable[[Clock], Clock | None]
"""A clock above this one; None: there is none before something is durable."""

Said = list[Effect | Forward]


def take(ours: ShardTransactions, replica: ShardReplica, work: Work) -> None:
    """Take an errand; an error says why not."""
    if not replica.is_serving:
        raise not_leader(replica.shard)
    lead(ours, replica)
    if len(ours.waiting) + len(ours.pending) >= transactions_waiting_max:
        raise NodeError("too many transactions wait for this shard", hint="try again in a moment")
    ours.waiting.append(work)
    ours.looked_at = Offset(-1)


def lead(ours: ShardTransactions, replica: ShardReplica) -> None:
    """A new leadership begins with what the log says."""
    if ours.elected_epoch != replica.elected_epoch:
        assert ours.is_idle, "what another leadership left behind was answered"
        ours.elected_epoch = replica.elected_epoch
        ours.acknowledged, ours.told_ns, ours.doubts_ns = {}, {}, {}
        ours.is_sealed = False
        ours.looked_for = None


def unsettled(ours: ShardTransactions, replica: ShardReplica) -> int:
    """Transactions that are prepared here and not decided, or decided and not logged everywhere."""
    state = machine_of(replica).state.transactions
    return len(state.prepared) + len(state.decisions) + len(ours.flights)


def settle(
    ours: ShardTransactions, replica: ShardReplica, now: Now, config: TransactionConfig
) -> Said:
    """Answer what is applied; and when this node leads no longer, everybody."""
    if not replica.is_serving or ours.elected_epoch != replica.elected_epoch:
        return abandon(ours, replica.shard)
    applied = replica.applied_index
    if ours.flights:
        ours.land(applied)
    said: Said = []
    done = 0
    landed: EntryId | None = None  # those of a bundle share it
    for work in ours.pending:
        if work.entry is not landed:
            if (work.entry or applied) > applied:
                break
            landed = work.entry
        done += 1
        said += answer_applied(ours, replica, work, now, config)
    del ours.pending[:done]
    return said


def abandon(ours: ShardTransactions, shard: ShardName) -> Said:
    """This node does not lead the shard any more."""
    said: Said = []
    for work in ours.waiting:
        if (asked := _request(work)) is not None:
            said.append(refusal(work.client, asked.request, not_leader(shard)))
    for work in ours.pending:
        if (asked := _request(work)) is not None:
            error = not_leader(shard) if isinstance(asked, CloseShard) else unknown_outcome(shard)
            said.append(refusal(work.client, asked.request, error))
    for work in [each for works in ours.adjusting.values() for each in works]:
        if (asked := _request(work)) is not None:
            said.append(refusal(work.client, asked.request, unknown_outcome(shard)))
    ours.waiting, ours.pending, ours.adjusting = [], [], {}
    ours.turning = ours.carrying = None
    ours.ground()
    ours.elected_epoch = Epoch(0)
    return said


def refuse_waiting(ours: ShardTransactions, error: MotetError) -> Said:
    """Nothing can be put into the log now: those that wait are told; leaders say again what they want."""
    waiting, ours.waiting = ours.waiting, []
    return [each for work in waiting for each in _refused(work, error)]


PARTS = (CommitTransaction, PrepareTransaction)
Asked = PrepareTransaction | CommitTransaction | AbortTransaction | CloseShard | OrderShard


def _request(work: Work) -> Asked | None:
    return work.errand if isinstance(work.errand, Asked) else None


# What waits


def advance(
    ours: ShardTransactions,
    appends: ShardAppends,
    replica: ShardReplica,
    tick: Tick,
    now: Now,
    config: TransactionConfig,
) -> Said:
    """Put into the log what may go, if anything has changed; all of it as one entry, if it fits."""
    if not ours.waiting or ours.looked_at == replica.applied:
        return []
    ours.looked_at = replica.applied
    lead_on(appends, replica)
    said: Said = []
    shard = machine_of(replica).state
    pen = Pen(ours, appends, replica, shard, now)
    touched = partial(is_touched, appends)
    waiting, ours.waiting = ours.waiting, []
    if len(waiting) > 1:
        waiting.sort(key=_age)
    for number, work in enumerate(waiting):
        try:
            verdict = _judge(ours, touched, replica, shard, work, now, config)
        except MotetError as error:
            verdict = _died(work, error)
            if verdict is not Verdict.GO:
                said += _refused(work, error)
                continue
        if verdict is Verdict.WAIT:
            ours.waiting.append(work)
        elif verdict is Verdict.KNOWN:
            said += answer_known(ours, replica, work, now, config)
        else:
            try:
                if not pen.is_free:
                    pen.check()  # no clock is taken for what cannot be put into the log
                clock = tick(floor_of(work))
                if clock is None:  # goes on when a bound is durable
                    ours.waiting += waiting[number:]
                    ours.looked_at = Offset(-1)
                    break
                pen.put(work, clock)
            except MotetError as error:  # the end of the clock's range, or the log takes no more
                said += _refused(work, error)
    pen.write()
    return said + pen.effects


def _age(work: Work) -> tuple[int, int, str]:
    """Outcomes first, which end waits; then transactions, the oldest first."""
    errand = work.errand
    if isinstance(errand, PARTS):
        part = errand.part
        return 1, part.begin.to_int(), part.transaction
    return 0, 0, ""


def _judge(
    ours: ShardTransactions,
    touched: Callable[[list[bytes]], bool],
    replica: ShardReplica,
    shard: ShardState,
    work: Work,
    now: Now,
    config: TransactionConfig,
) -> Verdict:
    errand = work.errand
    state, latest = shard.transactions, shard.latest
    is_late = now.monotonic_ns - work.since_ns >= config.wait_ms * NS_PER_MS
    if isinstance(errand, PARTS):
        if ours.is_sealed and not state.knows(errand.part.transaction):
            raise NoSuchShard(f"the stream of shard {replica.shard} is being deleted")
        verdict = (
            judge_prepare(state, latest, ours, touched, errand)
            if isinstance(errand, PrepareTransaction)
            else judge_commit(state, latest, ours, touched, errand, config.vote_key)
        )
        if verdict is Verdict.WAIT and is_late and not ours.is_flying(errand.part.transaction):
            raise Conflict(f"transaction {errand.part.transaction} has waited too long for a lock")
        return verdict
    if isinstance(errand, AbortTransaction | AskOutcome):
        return judge_abort(state, ours, errand)
    if isinstance(errand, ResolveTransaction):
        return judge_outcome(state, ours, errand)
    if isinstance(errand, CloseShard):
        return _judge_closing(replica, work, errand, now, config, is_late=is_late)
    if isinstance(errand, OrderShard | TurnClock):
        if ours.is_ordered:
            return Verdict.WAIT
        order = errand if isinstance(errand, TurnClock) else errand.order
        return Verdict.GO if shard.rules.check(order, state.closed) else Verdict.KNOWN
    return Verdict.GO


def _judge_closing(
    replica: ShardReplica,
    work: Work,
    errand: CloseShard,
    now: Now,
    config: TransactionConfig,
    *,
    is_late: bool,
) -> Verdict:
    """One entry closes the shard for all who ask at about the same time, or while it is on its way."""
    head, last = replica.head, replica.last_clock
    closed = machine_of(replica).state.transactions.closed
    if errand.at_least is not None:
        if closed >= errand.at_least or is_late:
            return Verdict.KNOWN
        return Verdict.GO if last < errand.at_least else Verdict.WAIT
    if work.entry is None:
        is_idle = now.wall_ms - last.logical >= config.close_ms
        if is_idle and head.offset == replica.applied:
            return Verdict.GO
        work.entry = head
    if work.entry <= replica.applied_index:
        return Verdict.KNOWN
    if (
        is_late
    ):  # a majority may have another leader by now, and what that one has closed is not known here
        raise NotLeader(f"no majority has confirmed that this node leads shard {replica.shard}")
    return Verdict.WAIT


def _died(work: Work, error: MotetError) -> Verdict:
    """Who dies in its home shard is aborted there, for ever.

    Participants hear of it soon; and the network may deliver the same request once more, when nothing is
    in its way any longer.
    """
    errand = work.errand
    if isinstance(error, Conflict) and isinstance(errand, CommitTransaction):
        work.died = error.what
        part = errand.part
        work.errand = AbortTransaction(
            errand.request,
            errand.clock,
            errand.shard,
            part.transaction,
            part.asked,
            errand.participants,
        )
        return Verdict.GO
    return Verdict.KNOWN


def _refused(work: Work, error: MotetError) -> Said:
    asked = _request(work)
    if asked is None:
        return [Note("transaction_errand_failed", f"{type(work.errand).__name__} {error.what}")]
    return [refusal(work.client, asked.request, error)]


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
