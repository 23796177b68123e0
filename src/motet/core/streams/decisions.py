"""What is said about requests once their entries are applied, and what leaders tell each other.

The home shard tells every participant what was decided, at once and then again until each has logged it; then
it logs that the decision can be forgotten (X4). The answer to the client waits for them, up to a bound: until
a participant has logged the outcome its keys are locked and its closed clock stays below its prepare, so
nobody sees half of a transaction, only later.
"""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import NS_PER_MS, Note, Send
from motet.core.shardlog.replica import ShardReplica
from motet.core.streams.cluster_messages import TurnClock
from motet.core.streams.entries import Compacted, Forgotten
from motet.core.streams.judging import expired
from motet.core.streams.messages import (
    AbortTransaction,
    AskOutcome,
    CloseShard,
    CommitTransaction,
    Forward,
    OrderShard,
    Outgoing,
    PrepareTransaction,
    ResolveTransaction,
    ShardClosed,
    ShardOrdered,
    TransactionEnded,
    TransactionPrepared,
    TransactionResolved,
    refusal,
)
from motet.core.streams.orders import FeedRules
from motet.core.streams.pending import PendingRequest, ShardTransactions, Turn
from motet.core.streams.shard import machine_of, state_of
from motet.core.streams.transactions import Open, TransactionState
from motet.core.streams.votes import seal_of
from motet.errors import Conflict
from motet.ids import Address, RequestId, ShardName, TransactionId

forgotten_at_once_max = 1000
"""Decisions that one entry forgets."""


def answer_applied(turn: Turn, pending: PendingRequest) -> Outgoing:
    """The entry of a request is applied: answer, and if it is a decision, tell the participants."""
    message = pending.message
    answers = answer_known(turn, pending)
    if isinstance(message, CommitTransaction):
        if not message.participants:
            return answers  # there is nobody to tell
        return [*tell(turn, message.branch.transaction), *answers]
    if isinstance(message, AbortTransaction | AskOutcome):
        return [*tell(turn, message.transaction), *answers]
    return answers


def answer_known(turn: Turn, pending: PendingRequest) -> Outgoing:
    """Answer from what is applied."""
    ours, replica, state, message = turn.ours, turn.replica, turn.state, pending.message
    match message:
        case PrepareTransaction():
            opened = state.prepared.get(message.branch.transaction)
            if opened is None:
                gone = Conflict(f"transaction {message.branch.transaction} is over already")
                return [refusal(pending.client, message.request, gone)]
            return [Send(pending.client, _vote(turn, opened, message.request))]
        case CommitTransaction():
            return _answer_ended(turn, pending, message.branch.transaction)
        case AbortTransaction() if pending.died is not None:
            return [refusal(pending.client, message.request, Conflict(pending.died))]
        case AbortTransaction():
            return _answer_ended(turn, pending, message.transaction)
        case CloseShard():
            return [Send(pending.client, _closed(message.request, replica))]
        case AskOutcome():
            return _answer_doubt(replica.shard, state, pending.client, message)
        case ResolveTransaction():
            return _acknowledge(replica, state, pending.client, message)
        case Forgotten() | Compacted():
            return _note_own(ours, message)
        case OrderShard():
            return [Send(pending.client, ShardOrdered(message.request, state.clock))]
        case TurnClock():
            ours.turning = None
            is_on = "on" if message.is_on else "off"
            return [Note("transaction_clock_turned", f"{replica.shard} {is_on}")]


def _vote(turn: Turn, opened: Open, request: RequestId) -> TransactionPrepared:
    clock, prepared = opened.clock, opened.prepared
    branch, key, shard = prepared.branch, turn.config.vote_key, turn.replica.shard
    seal = seal_of(key, branch.transaction, branch.asked, shard, prepared.home, clock)
    return TransactionPrepared(request, clock, seal, prepared.has_clock)


def _note_own(ours: ShardTransactions, message: Forgotten | Compacted) -> Outgoing:
    """Nobody has asked for it but this leader."""
    if isinstance(message, Forgotten):
        return [Note("transaction_decisions_forgotten", str(len(message.transactions)))]
    assert ours.compaction is not None, "one piece at a time"
    ours.compaction.is_out = False
    return []


def closed_is(request: RequestId, state: TransactionState, rules: FeedRules) -> ShardClosed:
    """How far a shard is closed, and by whom it is held back."""
    oldest = next(iter(state.prepared.items()), None)
    held_by = None if oldest is None else (oldest[0], oldest[1].prepared.home)
    return ShardClosed(request, state.closed, state.clock, held_by, rules.has_clock)


def _closed(request: RequestId, replica: ShardReplica) -> ShardClosed:
    """The same, with what a reader of the feed would ask next."""
    machine = machine_of(replica)
    state = machine.state
    answer = closed_is(request, state.transactions, state.rules)
    begins = machine.feed_begins(replica.first_offset)
    changed = state.changed if state.next_offset else ZERO
    return msgspec.structs.replace(answer, begins=begins, changed=changed)


def _answer_ended(turn: Turn, pending: PendingRequest, transaction: TransactionId) -> Outgoing:
    """The decision is applied; participants have a moment to log it."""
    assert isinstance(pending.message, CommitTransaction | AbortTransaction)
    state = turn.state
    outcome = state.outcome_of(transaction)
    if outcome is None:
        return [refusal(pending.client, pending.message.request, expired(transaction))]
    is_settled = transaction not in state.decisions or not missing(turn.ours, state, transaction)
    is_late = turn.is_late(pending.since_ns, turn.config.adjust_ms)
    if not is_settled and not is_late and outcome.clock is not None:
        turn.ours.adjusting.setdefault(transaction, []).append(pending)
        return []
    ended = TransactionEnded(pending.message.request, outcome.clock, is_settled, outcome.has_clock)
    return [Send(pending.client, ended)]


def _answer_doubt(
    shard: ShardName, state: TransactionState, sender: Address, message: AskOutcome
) -> Outgoing:
    """A participant in doubt hears what was decided.

    A commit that is below its prepare was decided without its vote: so it has no part in that.
    """
    decision, outcome = (
        state.decisions.get(message.transaction),
        state.outcome_of(message.transaction),
    )
    clock, has_clock = (None, True) if outcome is None else (outcome.clock, outcome.has_clock)
    if clock is not None and clock < message.clock:
        clock = None
    at_ms = 0 if decision is None else decision.at_ms
    what = "transaction_doubt_aborted" if clock is None else "transaction_doubt_committed"
    outcome_known = ResolveTransaction(
        message.participant, message.transaction, message.asked, shard, clock, at_ms, has_clock
    )
    return [Note(what, message.transaction), Forward(message.participant, outcome_known, sender)]


def _acknowledge(
    replica: ShardReplica, state: TransactionState, sender: Address, message: ResolveTransaction
) -> Outgoing:
    """Say that the outcome is logged; or that there is nothing to be logged, which there never will be.

    A prepare that comes later than the outcome is open until its home shard is asked: then it hears the
    same once more. What is committed here stays so, and a shard that has been made to give it up without
    being its home need not know.
    """
    known = state.outcomes.get(message.transaction)
    is_lost = known is None and message.clock is not None and not state.is_expired(message.asked)
    is_other = known is not None and (known.clock is None) != (message.clock is None)
    outgoing: Outgoing = []
    if is_lost or is_other:
        outgoing.append(
            Note("transaction_outcome_strange", f"{replica.shard} {message.transaction}")
        )
        if message.clock is not None:
            return outgoing
    done = TransactionResolved(message.home, message.transaction, replica.shard, state.clock)
    return [*outgoing, Forward(message.home, done, sender)]


# As the home shard


def missing(
    ours: ShardTransactions, state: TransactionState, transaction: TransactionId
) -> list[ShardName]:
    """Who has not logged a decision yet."""
    done = ours.acknowledged.get(transaction, {})
    return [shard for shard in state.decisions[transaction].participants if shard not in done]


def tell(turn: Turn, transaction: TransactionId) -> Outgoing:
    """Tell participants what was decided."""
    state, home = turn.state, turn.replica.shard
    decision = state.decisions.get(transaction)
    if decision is None:
        return []
    turn.ours.told_ns[transaction] = turn.now.monotonic_ns
    asked, clock, at_ms = decision.asked, decision.clock, decision.at_ms

    def message(shard: ShardName) -> ResolveTransaction:
        has_clock = decision.has_clock
        return ResolveTransaction(shard, transaction, asked, home, clock, at_ms, has_clock)

    return [Forward(shard, message(shard)) for shard in missing(turn.ours, state, transaction)]


def on_resolved(turn: Turn, message: TransactionResolved) -> Outgoing:
    """A participant has logged a decision."""
    if message.transaction not in turn.state.decisions:
        return []
    turn.ours.acknowledged.setdefault(message.transaction, {})[message.participant] = None
    return _answer_adjusted(turn, message.transaction)


def _answer_adjusted(turn: Turn, transaction: TransactionId) -> Outgoing:
    """Answer those who wait for the participants of a transaction, if these are done or had their time."""
    outgoing: Outgoing = []
    left = []
    for pending in turn.ours.adjusting.pop(transaction, ()):
        if _is_adjusting(turn, pending):
            left.append(pending)
        else:
            outgoing += answer_known(turn, pending)
    if left:
        turn.ours.adjusting[transaction] = left
    return outgoing


def _is_adjusting(turn: Turn, pending: PendingRequest) -> bool:
    """Whether participants of a commit have not logged it, and have time left."""
    if not isinstance(pending.message, CommitTransaction):
        return False
    transaction = pending.message.branch.transaction
    decision = turn.state.decisions.get(transaction)
    if decision is None or decision.clock is None:
        return False
    if turn.is_late(pending.since_ns, turn.config.adjust_ms):
        return False
    done = turn.ours.acknowledged.get(transaction)
    return done is None or any(shard not in done for shard in decision.participants)


def awaited(replica: ShardReplica) -> list[ShardName]:
    """The shards that transactions of this one wait for: their homes, and those that must hear of them."""
    state = state_of(replica)
    homes = [opened.prepared.home for opened in state.prepared.values()]
    participants = [each for d in state.decisions.values() for each in d.participants]
    return [*dict.fromkeys([*homes, *participants])]


def lose(turn: Turn, shards: tuple[ShardName, ...]) -> Outgoing:
    """Shards have been deleted, with no decision of theirs untold, and no prepare of theirs undecided.

    So what waits for such a home was not committed; and such a participant had logged what it had to.
    """
    state, own = turn.state, turn.replica.shard
    for name, decision in state.decisions.items():
        for shard in decision.participants:
            if shard in shards:
                turn.ours.acknowledged.setdefault(name, {})[shard] = None
    outgoing: Outgoing = []
    for name, opened in state.prepared.items():
        home = opened.prepared.home
        if home in shards:
            asked = opened.prepared.branch.asked
            message = ResolveTransaction(own, name, asked, home, None, 0)
            outgoing += [Note("transaction_home_gone", name), Forward(own, message)]
    return outgoing


# Time


def sweep(turn: Turn) -> Outgoing:
    """Ask about what is in doubt, tell again what was not acknowledged, forget what is done."""
    ours, state, config = turn.ours, turn.state, turn.config
    outgoing: Outgoing = []
    for transaction in [name for name in ours.doubts_ns if name not in state.prepared]:
        del ours.doubts_ns[transaction]
    for transaction, opened in state.prepared.items():
        since_ns = ours.doubts_ns.setdefault(transaction, turn.now.monotonic_ns)
        if turn.is_late(since_ns, config.doubt_ms):
            ours.doubts_ns[transaction] = turn.now.monotonic_ns
            asked = opened.prepared.branch.asked
            outgoing.append(_doubt(turn.replica.shard, transaction, asked, state))
    for transaction in state.decisions:
        since_ns = ours.told_ns.get(transaction, -config.tell_ms * NS_PER_MS)
        if turn.is_late(since_ns, config.tell_ms):
            outgoing += tell(turn, transaction)
    for transaction in list(ours.adjusting):
        outgoing += _answer_adjusted(turn, transaction)
    return outgoing


def _doubt(
    shard: ShardName, transaction: TransactionId, asked: Clock, state: TransactionState
) -> Forward:
    opened = state.prepared[transaction]
    prepared = opened.prepared
    message = AskOutcome(
        prepared.home, transaction, asked, shard, prepared.participants, opened.clock
    )
    return Forward(prepared.home, message)


def to_forget(turn: Turn) -> PendingRequest | None:
    """Decisions that every participant has logged, as a request; None while one is under way."""
    ours, state = turn.ours, turn.state
    if any(isinstance(pending.message, Forgotten) for pending in (*ours.waiting, *ours.pending)):
        return None
    for name in [name for name in ours.told_ns if name not in state.decisions]:
        del ours.told_ns[name]
        ours.acknowledged.pop(name, None)
    done = [
        name
        for name in ours.acknowledged
        if name in state.decisions and not missing(ours, state, name)
    ]
    if not done:
        return None
    forgotten = Forgotten(tuple(done[:forgotten_at_once_max]))
    return PendingRequest(Address(""), forgotten, turn.now.monotonic_ns)
