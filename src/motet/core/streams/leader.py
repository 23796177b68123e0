"""The leader of a shard with its requests: judged, put into the log, answered when they are applied.

Requests that wait are looked at, the oldest transaction first, whenever something was applied. Those of one
turn become one entry, a batch. A request that may go is judged by what is applied and what is in flight. It
counts as in flight from the moment it is gathered, before it is written; nothing else is put into the log
meanwhile.

A leader that is one no longer answers ``NOT_LEADER`` to what it has not put into its log, else
``OUTCOME_UNKNOWN``: whoever asks the next leader again gets what became of it. What leaders tell each other
is simply dropped then: it is outgoing again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import Effect, Note, Now
from motet.core.shardlog.entry import Entry, EntryId, EntryKind
from motet.core.shardlog.replica import ShardReplica
from motet.core.streams.appends import ShardAppends, is_touched, lead_on
from motet.core.streams.change import Branch
from motet.core.streams.cluster_messages import TurnClock
from motet.core.streams.decisions import answer_applied, answer_known
from motet.core.streams.entries import (
    KINDS,
    Aborted,
    Committed,
    Compacted,
    Forgotten,
    Prepared,
    encode_batch,
    encode_body,
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
    OrderShard,
    Outgoing,
    PrepareTransaction,
    ResolveTransaction,
    not_leader,
    refusal,
    unknown_outcome,
)
from motet.core.streams.orders import encode_order
from motet.core.streams.pending import (
    InFlight,
    PendingRequest,
    ShardTransactions,
    Turn,
)
from motet.core.streams.shard import ShardState, machine_of
from motet.errors import Conflict, MotetError, NodeError, NoSuchShard
from motet.errors.shards import NotLeader
from motet.ids import Epoch, Offset, ShardName
from motet.limits import entry_batch_bytes_max, transactions_waiting_max

Tick = Callable[[Clock], Clock | None]
"""A clock above this one; None: there is none before something is durable."""


def take(ours: ShardTransactions, replica: ShardReplica, pending: PendingRequest) -> None:
    """Take a request; an error says why not."""
    if not replica.is_serving:
        raise not_leader(replica.shard)
    lead(ours, replica)
    if len(ours.waiting) + len(ours.pending) >= transactions_waiting_max:
        raise NodeError("too many transactions wait for this shard", hint="try again in a moment")
    ours.waiting.append(pending)
    ours.looked_at = Offset(-1)


def lead(ours: ShardTransactions, replica: ShardReplica) -> None:
    """A new leadership begins with what the log says."""
    if ours.elected_epoch != replica.elected_epoch:
        assert ours.is_idle, "what another leadership left was answered"
        ours.elected_epoch = replica.elected_epoch
        ours.acknowledged, ours.told_ns, ours.doubts_ns = {}, {}, {}
        ours.is_sealed = False
        ours.looked_for = None


def unsettled(ours: ShardTransactions, replica: ShardReplica) -> int:
    """Transactions that are prepared here and not decided, or decided and not logged everywhere."""
    state = machine_of(replica).state.transactions
    return len(state.prepared) + len(state.decisions) + len(ours.in_flight)


def settle(turn: Turn) -> Outgoing:
    """Answer what is applied; and when this node leads no longer, everybody."""
    ours, replica = turn.ours, turn.replica
    if not replica.is_serving or ours.elected_epoch != replica.elected_epoch:
        return abandon(ours, replica.shard)
    applied = replica.applied_index
    if ours.in_flight:
        ours.end_in_flight(applied)
    outgoing: Outgoing = []
    done = 0
    landed: EntryId | None = None  # those of a batch share it
    for pending in ours.pending:
        if pending.entry is not landed:
            if (pending.entry or applied) > applied:
                break
            landed = pending.entry
        done += 1
        outgoing += answer_applied(turn, pending)
    del ours.pending[:done]
    return outgoing


def abandon(ours: ShardTransactions, shard: ShardName) -> Outgoing:
    """This node does not lead the shard any more."""
    outgoing: Outgoing = []
    for pending in ours.waiting:
        if (asked := _request(pending)) is not None:
            outgoing.append(refusal(pending.client, asked.request, not_leader(shard)))
    for pending in ours.pending:
        if (asked := _request(pending)) is not None:
            error = not_leader(shard) if isinstance(asked, CloseShard) else unknown_outcome(shard)
            outgoing.append(refusal(pending.client, asked.request, error))
    for pending in [each for requests in ours.adjusting.values() for each in requests]:
        if (asked := _request(pending)) is not None:
            outgoing.append(refusal(pending.client, asked.request, unknown_outcome(shard)))
    ours.waiting, ours.pending, ours.adjusting = [], [], {}
    ours.turning = ours.compaction = None
    ours.forget_in_flight()
    ours.elected_epoch = Epoch(0)
    return outgoing


def refuse_waiting(ours: ShardTransactions, error: MotetError) -> Outgoing:
    """Nothing can be put into the log now: those that wait are told; leaders say again what they want."""
    waiting, ours.waiting = ours.waiting, []
    return [each for pending in waiting for each in _refused(pending, error)]


BRANCHES = (CommitTransaction, PrepareTransaction)
Asked = PrepareTransaction | CommitTransaction | AbortTransaction | CloseShard | OrderShard


def _request(pending: PendingRequest) -> Asked | None:
    return pending.message if isinstance(pending.message, Asked) else None


# What waits


def advance(turn: Turn, appends: ShardAppends, tick: Tick) -> Outgoing:
    """Put into the log what may go, if anything has changed; all of it as one entry, if it fits."""
    ours, replica = turn.ours, turn.replica
    if not ours.waiting or ours.looked_at == replica.applied:
        return []
    ours.looked_at = replica.applied
    lead_on(appends, replica)
    outgoing: Outgoing = []
    shard = machine_of(replica).state
    buffer = EntryBuffer(ours, appends, replica, shard, turn.now)
    touched = partial(is_touched, appends)
    waiting, ours.waiting = ours.waiting, []
    if len(waiting) > 1:
        waiting.sort(key=_age)
    for number, pending in enumerate(waiting):
        try:
            verdict = _judge(turn, touched, shard, pending)
        except MotetError as error:
            verdict = _died(pending, error)
            if verdict is not Verdict.GO:
                outgoing += _refused(pending, error)
                continue
        if verdict is Verdict.WAIT:
            ours.waiting.append(pending)
        elif verdict is Verdict.KNOWN:
            outgoing += answer_known(turn, pending)
        else:
            try:
                if not buffer.is_free:
                    buffer.check()  # no clock is taken for what cannot be put into the log
                clock = tick(floor_of(pending))
                if clock is None:  # goes on when a bound is durable
                    ours.waiting += waiting[number:]
                    ours.looked_at = Offset(-1)
                    break
                buffer.put(pending, clock)
            except MotetError as error:  # the end of the clock's range, or the log takes no more
                outgoing += _refused(pending, error)
    buffer.write()
    return outgoing + buffer.effects


def _age(pending: PendingRequest) -> tuple[int, int, str]:
    """Outcomes first, which end waits; then transactions, the oldest first."""
    message = pending.message
    if isinstance(message, BRANCHES):
        branch = message.branch
        return 1, branch.begin.to_int(), branch.transaction
    return 0, 0, ""


def _judge(
    turn: Turn,
    touched: Callable[[list[bytes]], bool],
    shard: ShardState,
    pending: PendingRequest,
) -> Verdict:
    ours, replica, config, message = turn.ours, turn.replica, turn.config, pending.message
    state, latest = shard.transactions, shard.latest
    is_late = turn.is_late(pending.since_ns, config.wait_ms)
    if isinstance(message, BRANCHES):
        if ours.is_sealed and not state.knows(message.branch.transaction):
            raise NoSuchShard(f"the stream of shard {replica.shard} is being deleted")
        verdict = (
            judge_prepare(state, latest, ours, touched, message)
            if isinstance(message, PrepareTransaction)
            else judge_commit(state, latest, ours, touched, message, config.vote_key)
        )
        if (
            verdict is Verdict.WAIT
            and is_late
            and not ours.is_in_flight(message.branch.transaction)
        ):
            name = message.branch.transaction
            raise Conflict(f"transaction {name} has waited too long for a lock")
        return verdict
    if isinstance(message, AbortTransaction | AskOutcome):
        return judge_abort(state, ours, message)
    if isinstance(message, ResolveTransaction):
        return judge_outcome(state, ours, message)
    if isinstance(message, CloseShard):
        return _judge_closing(turn, pending, message, is_late=is_late)
    if isinstance(message, OrderShard | TurnClock):
        if ours.is_ordered:
            return Verdict.WAIT
        order = message if isinstance(message, TurnClock) else message.order
        return Verdict.GO if shard.rules.check(order, state.closed) else Verdict.KNOWN
    return Verdict.GO


def _judge_closing(
    turn: Turn, pending: PendingRequest, message: CloseShard, *, is_late: bool
) -> Verdict:
    """One entry closes the shard for all who ask at about the same time, or while it is on its way."""
    replica, closed = turn.replica, turn.state.closed
    head, last = replica.head, replica.last_clock
    if message.at_least is not None:
        if closed >= message.at_least or is_late:
            return Verdict.KNOWN
        return Verdict.GO if last < message.at_least else Verdict.WAIT
    if pending.entry is None:
        is_idle = turn.now.wall_ms - last.logical >= turn.config.close_ms
        if is_idle and head.offset == replica.applied:
            return Verdict.GO
        pending.entry = head
    if pending.entry <= replica.applied_index:
        return Verdict.KNOWN
    if (
        is_late
    ):  # a majority may have another leader, and what that one has closed is not known here
        raise NotLeader(f"no majority has confirmed that this node leads shard {replica.shard}")
    return Verdict.WAIT


def _died(pending: PendingRequest, error: MotetError) -> Verdict:
    """Who dies in its home shard is aborted there, for ever.

    Participants hear of it soon; and the network may deliver the same request once more, when nothing is
    in its way any longer.
    """
    message = pending.message
    if isinstance(error, Conflict) and isinstance(message, CommitTransaction):
        pending.died = error.what
        branch = message.branch
        pending.message = AbortTransaction(
            message.request,
            message.clock,
            message.shard,
            branch.transaction,
            branch.asked,
            message.participants,
        )
        return Verdict.GO
    return Verdict.KNOWN


def _refused(pending: PendingRequest, error: MotetError) -> Outgoing:
    asked = _request(pending)
    if asked is None:
        return [
            Note("transaction_request_failed", f"{type(pending.message).__name__} {error.what}")
        ]
    return [refusal(pending.client, asked.request, error)]


class EntryBuffer(msgspec.Struct):
    """Gathers what goes into the log of one shard in one step."""

    ours: ShardTransactions
    appends: ShardAppends
    replica: ShardReplica
    shard: ShardState
    now: Now
    batched: list[Entry] = msgspec.field(default_factory=list)
    size_bytes: int = 0
    #: the log has been asked whether it takes more, and does
    is_free: bool = False
    #: the place of what is gathered
    entry: EntryId | None = None
    effects: list[Effect] = msgspec.field(default_factory=list)

    def check(self, body_bytes: int = 0) -> None:
        """Raises what the log has against an entry, or one of this size."""
        if not self.is_free or body_bytes > entry_batch_bytes_max:
            error = self.replica.refusal(body_bytes)
            if error is not None:
                raise error
            self.is_free = True

    def put(self, pending: PendingRequest, clock: Clock) -> None:
        """Put a request into the log; raises what the log has against it."""
        kind, body, each_in_flight = self._entry(pending, clock)
        body_bytes = len(body)
        if body_bytes > entry_batch_bytes_max or not self.is_free:
            self.check(body_bytes)
        is_alone = not KINDS[kind].in_batch
        if self.batched and (is_alone or self.size_bytes + body_bytes > entry_batch_bytes_max):
            self.write()
            self.check(body_bytes)
        if self.entry is None:
            self.entry = EntryId(self.replica.epoch, Offset(self.replica.head.offset + 1))
        self.batched.append(Entry(self.entry, kind, clock, body))
        self.size_bytes += body_bytes
        pending.entry = self.entry
        if each_in_flight is not None:
            self.ours.add_in_flight(pending.entry, each_in_flight)
            if kind == EntryKind.BRANCH_COMMITTED:
                self.appends.next_offset = Offset(self.appends.next_offset + each_in_flight.changes)
        self.ours.pending.append(pending)
        if isinstance(pending.message, TurnClock):
            self.ours.turning = pending.message
        if is_alone:
            self.write()

    def write(self) -> None:
        """Append what is gathered, as one entry."""
        if not self.batched:
            return
        kind, body = encode_batch(self.batched)
        appended, effects = self.replica.append(kind, self.batched[-1].clock, body, self.now)
        assert appended == self.entry, "nothing else was appended"
        if kind == EntryKind.BATCH:
            self.effects.append(Note("transaction_batch", str(len(self.batched))))
        self.effects += effects
        self.batched, self.size_bytes, self.is_free, self.entry = [], 0, False, None

    def _entry(
        self, pending: PendingRequest, clock: Clock
    ) -> tuple[EntryKind, bytes, InFlight | None]:
        """The entry of a request, and what is known of it until it is applied."""
        message, state = pending.message, self.shard
        match message:
            case CommitTransaction():
                opened = state.transactions.prepared.get(message.branch.transaction)
                branch = message.branch if opened is None else opened.prepared.branch
                # Somebody may have been told its clock when it was fixed, or that there is none.
                has_clock = (
                    self.ours.has_clock(state.rules)
                    if opened is None
                    else opened.prepared.has_clock
                )
                return self._committed(
                    branch,
                    message.fixed or clock,
                    self.now.wall_ms,
                    message.participants,
                    has_clock,
                )
            case PrepareTransaction():
                reads = tuple(read.key for read in message.reads)
                has_clock = self.ours.has_clock(state.rules)
                body = Prepared(
                    message.branch, reads, message.home, message.participants, has_clock
                )
                each_in_flight = _flight(message.branch, is_prepare=True, reads=reads)
                return EntryKind.PREPARED, encode_body(body), each_in_flight
            case ResolveTransaction() if message.clock is not None:
                opened = state.transactions.prepared[message.transaction]
                decided = message.clock
                if decided < opened.clock:  # readers may be past it (X7)
                    what = f"{message.transaction} {decided} is below its prepare at {opened.clock}"
                    self.effects.append(Note("transaction_clock_too_low", what))
                    decided = clock
                branch = opened.prepared.branch
                return self._committed(branch, decided, message.at_ms, (), message.has_clock)
            case ResolveTransaction():
                return _aborted(Aborted(message.transaction, message.asked))
            case AbortTransaction() | AskOutcome():
                return _aborted(Aborted(message.transaction, message.asked, message.participants))
            case Forgotten():
                return EntryKind.FORGOTTEN, encode_body(message), None
            case CloseShard():
                return EntryKind.CLOSED, b"", None
            case OrderShard():
                return EntryKind.ORDERED, encode_order(message.order), None
            case TurnClock():
                return EntryKind.ORDERED, encode_order(message), None
            case Compacted():
                return EntryKind.COMPACTED, encode_body(message), None

    def _committed(
        self,
        branch: Branch,
        clock: Clock,
        at_ms: int,
        participants: tuple[ShardName, ...],
        has_clock: bool,
    ) -> tuple[EntryKind, bytes, InFlight | None]:
        offset = self.appends.next_offset
        body = Committed(branch, clock, at_ms, offset, participants, has_clock)
        return EntryKind.BRANCH_COMMITTED, encode_body(body), _flight(branch)


def floor_of(pending: PendingRequest) -> Clock:
    """The clock of a request's entry is above this one."""
    message = pending.message
    if isinstance(message, CommitTransaction):
        floor = max(message.clock, message.floor)  # X3
        return floor if message.fixed is None else max(floor, message.fixed)
    if isinstance(message, ResolveTransaction):
        return message.clock or ZERO  # X3
    if isinstance(message, CloseShard) and message.at_least is not None:
        return max(message.clock, message.at_least)
    if isinstance(message, PrepareTransaction | AbortTransaction | CloseShard | OrderShard):
        return message.clock
    return ZERO


def _flight(branch: Branch, *, is_prepare: bool = False, reads: tuple[bytes, ...] = ()) -> InFlight:
    keys = dict.fromkeys([change.key for change in branch.changes])
    if reads:
        keys = dict.fromkeys([*reads, *keys])
    return InFlight(keys, branch.transaction, is_prepare, len(branch.changes))


def _aborted(body: Aborted) -> tuple[EntryKind, bytes, InFlight]:
    each_in_flight = InFlight({}, body.transaction, is_prepare=False, changes=0)
    return EntryKind.ABORTED, encode_body(body), each_in_flight
