"""What is said about errands once their entries are applied, and what leaders tell each other.

The home shard tells every participant what was decided, at once and then again until each has logged it; then
it logs that the decision can be forgotten (X4). The answer to the client waits for them, up to a bound: until
a participant has logged the outcome its keys are locked and its closed clock stays below its prepare, so
nobody sees half of a transaction, only later.
"""

from __future__ import annotations

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import NS_PER_MS, Effect, Note, Now, Send
from motet.core.shardlog.replica import ShardReplica
from motet.core.streams.entries import Carried, Forgotten
from motet.core.streams.judging import expired
from motet.core.streams.messages import (
    AbortTransaction,
    AskOutcome,
    CloseShard,
    CommitTransaction,
    Forward,
    OrderShard,
    PrepareTransaction,
    ResolveTransaction,
    ShardClosed,
    ShardOrdered,
    TransactionEnded,
    TransactionPrepared,
    TransactionResolved,
)
from motet.core.streams.orders import FeedRules, TurnClock
from motet.core.streams.pending import ShardTransactions, TransactionConfig, Work
from motet.core.streams.refusals import refusal
from motet.core.streams.shard import machine_of
from motet.core.streams.transactions import Open, TransactionState
from motet.core.streams.votes import seal_of
from motet.errors import Conflict
from motet.ids import Address, RequestId, ShardName, TransactionId

forgotten_at_once_max = 1000
"""Decisions that one entry forgets."""


def answer_applied(
    ours: ShardTransactions,
    replica: ShardReplica,
    work: Work,
    now: Now,
    config: TransactionConfig,
) -> list[Effect | Forward]:
    """The entry of an errand is applied: answer, and if it is a decision, tell the participants."""
    errand = work.errand
    answers = answer_known(ours, replica, work, now, config)
    if isinstance(errand, CommitTransaction):
        if not errand.participants:
            return answers  # there is nobody to tell
        return [*tell(ours, replica, errand.part.transaction, now), *answers]
    if isinstance(errand, AbortTransaction | AskOutcome):
        return [*tell(ours, replica, errand.transaction, now), *answers]
    return answers


def answer_known(
    ours: ShardTransactions,
    replica: ShardReplica,
    work: Work,
    now: Now,
    config: TransactionConfig,
) -> list[Effect | Forward]:
    """Answer from what is applied."""
    state, errand = state_of(replica), work.errand
    match errand:
        case PrepareTransaction():
            opened = state.prepared.get(errand.part.transaction)
            if opened is None:
                gone = Conflict(f"transaction {errand.part.transaction} is over already")
                return [refusal(work.client, errand.request, gone)]
            return [Send(work.client, _vote(replica.shard, opened, errand.request, config))]
        case CommitTransaction():
            return _answer_ended(ours, state, work, errand.part.transaction, now, config)
        case AbortTransaction() if work.died is not None:
            return [refusal(work.client, errand.request, Conflict(work.died))]
        case AbortTransaction():
            return _answer_ended(ours, state, work, errand.transaction, now, config)
        case CloseShard():
            return [Send(work.client, _closed(errand.request, replica))]
        case AskOutcome():
            return _answer_doubt(replica.shard, state, work.client, errand)
        case ResolveTransaction():
            return _acknowledge(replica, state, work.client, errand)
        case Forgotten() | Carried():
            return _note_own(ours, errand)
        case OrderShard():
            return [Send(work.client, ShardOrdered(errand.request, state.clock))]
        case TurnClock():
            ours.turning = None
            is_on = "on" if errand.is_on else "off"
            return [Note("transaction_clock_turned", f"{replica.shard} {is_on}")]


def _vote(
    shard: ShardName, opened: Open, request: RequestId, config: TransactionConfig
) -> TransactionPrepared:
    clock, prepared = opened.clock, opened.prepared
    part = prepared.part
    seal = seal_of(config.vote_key, part.transaction, part.asked, shard, prepared.home, clock)
    return TransactionPrepared(request, clock, seal, prepared.has_clock)


def _note_own(ours: ShardTransactions, errand: Forgotten | Carried) -> list[Effect | Forward]:
    """Nobody has asked for it but this leader."""
    if isinstance(errand, Forgotten):
        return [Note("transaction_decisions_forgotten", str(len(errand.transactions)))]
    assert ours.carrying is not None, "one piece at a time"
    ours.carrying.is_out = False
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
    told = closed_is(request, state.transactions, state.rules)
    begins = machine.feed_begins(replica.first_offset)
    changed = state.changed if state.next_offset else ZERO
    return msgspec.structs.replace(told, begins=begins, changed=changed)


def _answer_ended(
    ours: ShardTransactions,
    state: TransactionState,
    work: Work,
    transaction: TransactionId,
    now: Now,
    config: TransactionConfig,
) -> list[Effect | Forward]:
    """The decision is applied; participants have a moment to log it."""
    assert isinstance(work.errand, CommitTransaction | AbortTransaction)
    outcome = state.outcome_of(transaction)
    if outcome is None:
        return [refusal(work.client, work.errand.request, expired(transaction))]
    is_settled = transaction not in state.decisions or not missing(ours, state, transaction)
    is_late = now.monotonic_ns - work.since_ns >= config.adjust_ms * NS_PER_MS
    if not is_settled and not is_late and outcome.clock is not None:
        ours.adjusting.setdefault(transaction, []).append(work)
        return []
    ended = TransactionEnded(work.errand.request, outcome.clock, is_settled, outcome.has_clock)
    return [Send(work.client, ended)]


def _answer_doubt(
    shard: ShardName, state: TransactionState, sender: Address, errand: AskOutcome
) -> list[Effect | Forward]:
    """A participant in doubt hears what was decided.

    A commit that is below its prepare was decided without its vote: so it has no part in that.
    """
    decision, outcome = (
        state.decisions.get(errand.transaction),
        state.outcome_of(errand.transaction),
    )
    clock, has_clock = (None, True) if outcome is None else (outcome.clock, outcome.has_clock)
    if clock is not None and clock < errand.clock:
        clock = None
    at_ms = 0 if decision is None else decision.at_ms
    what = "transaction_doubt_aborted" if clock is None else "transaction_doubt_committed"
    message = ResolveTransaction(
        errand.participant, errand.transaction, errand.asked, shard, clock, at_ms, has_clock
    )
    return [Note(what, errand.transaction), Forward(errand.participant, message, sender)]


def _acknowledge(
    replica: ShardReplica, state: TransactionState, sender: Address, errand: ResolveTransaction
) -> list[Effect | Forward]:
    """Say that the outcome is logged; or that there is nothing to be logged, which there never will be.

    A prepare that comes later than the outcome is open until its home shard is asked: then it hears the
    same once more. What is committed here stays so, and a shard that has been made to give it up without
    being its home need not know.
    """
    known = state.outcomes.get(errand.transaction)
    is_lost = known is None and errand.clock is not None and not state.is_expired(errand.asked)
    is_other = known is not None and (known.clock is None) != (errand.clock is None)
    said: list[Effect | Forward] = []
    if is_lost or is_other:
        said.append(Note("transaction_outcome_strange", f"{replica.shard} {errand.transaction}"))
        if errand.clock is not None:
            return said
    message = TransactionResolved(errand.home, errand.transaction, replica.shard, state.clock)
    return [*said, Forward(errand.home, message, sender)]


# As the home shard


def missing(
    ours: ShardTransactions, state: TransactionState, transaction: TransactionId
) -> list[ShardName]:
    """Who has not logged a decision yet."""
    done = ours.acknowledged.get(transaction, {})
    return [shard for shard in state.decisions[transaction].participants if shard not in done]


def tell(
    ours: ShardTransactions, replica: ShardReplica, transaction: TransactionId, now: Now
) -> list[Effect | Forward]:
    """Tell participants what was decided."""
    state = state_of(replica)
    decision = state.decisions.get(transaction)
    if decision is None:
        return []
    ours.told_ns[transaction] = now.monotonic_ns
    return [
        Forward(
            shard,
            ResolveTransaction(
                shard,
                transaction,
                decision.asked,
                replica.shard,
                decision.clock,
                decision.at_ms,
                decision.has_clock,
            ),
        )
        for shard in missing(ours, state, transaction)
    ]


def on_resolved(
    ours: ShardTransactions,
    replica: ShardReplica,
    message: TransactionResolved,
    now: Now,
    config: TransactionConfig,
) -> list[Effect | Forward]:
    """A participant has logged a decision."""
    state = state_of(replica)
    if message.transaction not in state.decisions:
        return []
    ours.acknowledged.setdefault(message.transaction, {})[message.participant] = None
    return _answer_adjusted(ours, replica, message.transaction, now, config)


def _answer_adjusted(
    ours: ShardTransactions,
    replica: ShardReplica,
    transaction: TransactionId,
    now: Now,
    config: TransactionConfig,
) -> list[Effect | Forward]:
    """Answer those who wait for the participants of a transaction, if these are done or had their time."""
    said: list[Effect | Forward] = []
    state, left = state_of(replica), []
    for work in ours.adjusting.pop(transaction, ()):
        if _is_adjusting(ours, state, work, now, config):
            left.append(work)
        else:
            said += answer_known(ours, replica, work, now, config)
    if left:
        ours.adjusting[transaction] = left
    return said


def _is_adjusting(
    ours: ShardTransactions,
    state: TransactionState,
    work: Work,
    now: Now,
    config: TransactionConfig,
) -> bool:
    """Whether participants of a commit have not logged it, and have time left."""
    if not isinstance(work.errand, CommitTransaction):
        return False
    transaction = work.errand.part.transaction
    decision = state.decisions.get(transaction)
    if decision is None or decision.clock is None:
        return False
    if now.monotonic_ns - work.since_ns >= config.adjust_ms * NS_PER_MS:
        return False
    done = ours.acknowledged.get(transaction)
    return done is None or any(shard not in done for shard in decision.participants)


def awaited(replica: ShardReplica) -> list[ShardName]:
    """The shards that transactions of this one wait for: their homes, and those that must hear of them."""
    state = state_of(replica)
    homes = [opened.prepared.home for opened in state.prepared.values()]
    participants = [each for d in state.decisions.values() for each in d.participants]
    return [*dict.fromkeys([*homes, *participants])]


def lose(
    ours: ShardTransactions, replica: ShardReplica, shards: tuple[ShardName, ...]
) -> list[Effect | Forward]:
    """Shards have been deleted, with no decision of theirs untold, and no prepare of theirs undecided.

    So what waits for such a home was not committed; and such a participant had logged what it had to.
    """
    state = state_of(replica)
    for name, decision in state.decisions.items():
        for shard in decision.participants:
            if shard in shards:
                ours.acknowledged.setdefault(name, {})[shard] = None
    said: list[Effect | Forward] = []
    for name, opened in state.prepared.items():
        home = opened.prepared.home
        if home in shards:
            asked = opened.prepared.part.asked
            message = ResolveTransaction(replica.shard, name, asked, home, None, 0)
            said += [Note("transaction_home_gone", name), Forward(replica.shard, message)]
    return said


# Time


def sweep(
    ours: ShardTransactions, replica: ShardReplica, now: Now, config: TransactionConfig
) -> list[Effect | Forward]:
    """Ask about what is in doubt, tell again what was not acknowledged, forget what is done."""
    state = state_of(replica)
    said: list[Effect | Forward] = []
    for transaction in [name for name in ours.doubts_ns if name not in state.prepared]:
        del ours.doubts_ns[transaction]
    for transaction, opened in state.prepared.items():
        since_ns = ours.doubts_ns.setdefault(transaction, now.monotonic_ns)
        if now.monotonic_ns - since_ns >= config.doubt_ms * NS_PER_MS:
            ours.doubts_ns[transaction] = now.monotonic_ns
            said.append(_doubt(replica.shard, transaction, opened.prepared.part.asked, state))
    for transaction in state.decisions:
        since_ns = ours.told_ns.get(transaction, -config.tell_ms * NS_PER_MS)
        if now.monotonic_ns - since_ns >= config.tell_ms * NS_PER_MS:
            said += tell(ours, replica, transaction, now)
    for transaction in list(ours.adjusting):
        said += _answer_adjusted(ours, replica, transaction, now, config)
    return said


def _doubt(
    shard: ShardName, transaction: TransactionId, asked: Clock, state: TransactionState
) -> Forward:
    opened = state.prepared[transaction]
    prepared = opened.prepared
    message = AskOutcome(
        prepared.home, transaction, asked, shard, prepared.participants, opened.clock
    )
    return Forward(prepared.home, message)


def to_forget(ours: ShardTransactions, replica: ShardReplica, now: Now) -> Work | None:
    """Decisions that every participant has logged, as an errand; None while one is under way."""
    state = state_of(replica)
    if any(isinstance(work.errand, Forgotten) for work in (*ours.waiting, *ours.pending)):
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
    return Work(Address(""), Forgotten(tuple(done[:forgotten_at_once_max])), now.monotonic_ns)


def state_of(replica: ShardReplica) -> TransactionState:
    """What a replica has applied about transactions."""
    return machine_of(replica).state.transactions
