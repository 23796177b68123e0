"""May a request go into the log now, must it wait, or is it answered already?

A leader judges by what is applied. Whatever touches a key that an entry on its way touches waits for it, so
what is applied is all there is to know. An entry that is logged is therefore right, and applying it cannot
fail.

W1  *Wait-die*: who finds a key locked waits if it is older than the holder, else it dies. So those who wait
    hold nothing that an older one waits for, and nobody waits in a circle.
W2  What a transaction has read is as it was read when its part is logged, and stays so until its outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from motet.core.streams.change import Branch
from motet.core.streams.latest import LatestChanges
from motet.core.streams.messages import (
    AbortTransaction,
    AskOutcome,
    CommitTransaction,
    PrepareTransaction,
    ResolveTransaction,
    SeenKey,
)
from motet.core.streams.pending import ShardTransactions
from motet.core.streams.transactions import Open, TransactionState
from motet.core.streams.votes import is_genuine
from motet.errors import BadInput, Conflict, NodeError
from motet.errors.shards import KeyForgotten, TransactionExpired
from motet.ids import TransactionId
from motet.limits import decisions_max, prepared_bytes_max, prepared_max


class Verdict(Enum):
    """What becomes of a request."""

    GO = "go"
    WAIT = "wait"
    #: nothing to log: it is answered from what is applied
    KNOWN = "known"


def judge_prepare(
    state: TransactionState,
    latest: LatestChanges,
    ahead: ShardTransactions,
    is_touched: Callable[[list[bytes]], bool],
    message: PrepareTransaction,
) -> Verdict:
    """``Conflict`` when it dies."""
    branch = message.branch
    if ahead.is_in_flight(branch.transaction):
        return Verdict.WAIT
    if branch.transaction in state.prepared:
        return Verdict.KNOWN
    if branch.transaction in state.outcomes:
        raise Conflict(f"transaction {branch.transaction} is over already")
    _check_expired(state, branch)
    count = len(state.prepared) + ahead.in_flight_prepares
    if count >= prepared_max or state.prepared_bytes >= prepared_bytes_max:
        raise NodeError("too many transactions are prepared", hint="try again in a moment")
    return _judge_keys(state, latest, ahead, is_touched, branch, message.reads)


def judge_commit(
    state: TransactionState,
    latest: LatestChanges,
    ahead: ShardTransactions,
    is_touched: Callable[[list[bytes]], bool],
    message: CommitTransaction,
    vote_key: bytes,
) -> Verdict:
    """``Conflict`` when it dies: then it is aborted. ``BadInput`` for votes that nobody has given."""
    branch = message.branch
    if branch.transaction in ahead.in_flight_transactions:
        return Verdict.WAIT
    if branch.transaction in state.outcomes or branch.transaction in state.decisions:
        return Verdict.KNOWN
    opened = state.prepared.get(branch.transaction)
    if opened is None:
        _check_expired(state, branch)
    else:
        _check_home(opened, message)
    if message.participants:
        _check_votes(message, vote_key)
    if message.fixed is not None:
        if opened is None:
            raise Conflict(f"transaction {branch.transaction} was not prepared, or given up")
        if message.fixed < max(opened.clock, message.floor):
            raise BadInput(f"{message.fixed} is below a prepare of {branch.transaction}")
    if message.participants and len(state.decisions) >= decisions_max:
        raise NodeError("too many decisions wait to be logged elsewhere", hint="try again later")
    if opened is not None:  # its keys are locked, and what it has read is as it was
        return Verdict.GO
    return _judge_keys(state, latest, ahead, is_touched, branch, message.reads)


def judge_abort(
    state: TransactionState, ahead: ShardTransactions, message: AbortTransaction | AskOutcome
) -> Verdict:
    """What is not decided is aborted.

    A participant in doubt has not logged an outcome, so no decision has been forgotten (X4): what the home
    shard does not know was not decided when it asked. But its question may have been long on its way. At or
    below the low watermark nothing is logged for it: a transaction that is open there was never decided, and
    never can be, since its commit would be refused; one that is over is not touched by the answer.
    """
    if ahead.is_in_flight(message.transaction):
        return Verdict.WAIT
    if state.outcome_of(message.transaction) is not None:
        return Verdict.KNOWN
    opened = state.prepared.get(message.transaction)
    if opened is not None:
        _check_home(opened, message)
    if not state.is_expired(message.asked) or opened is not None:
        return Verdict.GO
    if isinstance(message, AbortTransaction):
        raise expired(message.transaction)
    return Verdict.KNOWN


def judge_outcome(
    state: TransactionState, ahead: ShardTransactions, message: ResolveTransaction
) -> Verdict:
    """An outcome is logged where there is a prepare for the shard that has decided.

    A client can have any shard decide about any name. What is prepared for another home shard ends when that
    one says so.
    """
    if ahead.is_in_flight(message.transaction):
        return Verdict.WAIT
    opened = state.prepared.get(message.transaction)
    if opened is None or opened.prepared.home != message.home:
        return Verdict.KNOWN
    return Verdict.GO


def _check_home(opened: Open, message: CommitTransaction | AbortTransaction | AskOutcome) -> None:
    """What is prepared for a home shard is decided there, and nowhere else (X2)."""
    home = opened.prepared.home
    if home != message.shard:
        name = opened.prepared.branch.transaction
        raise BadInput(f"{name} is prepared in {message.shard}, and decided in {home}")


def _check_votes(message: CommitTransaction, vote_key: bytes) -> None:
    """X7: the clocks of all prepares are what the participants have said, not what the client says."""
    branch, home = message.branch, message.shard
    for shard, vote in zip(message.participants, message.votes, strict=True):
        if not is_genuine(vote_key, vote, branch.transaction, branch.asked, shard, home):
            raise BadInput(
                f"{shard} has not voted to commit {branch.transaction} at {vote.clock}",
                hint="ask to commit with the votes that the participants have given",
            )


def _check_expired(state: TransactionState, branch: Branch) -> None:
    if state.is_expired(branch.asked):
        raise expired(branch.transaction)


def expired(transaction: TransactionId) -> TransactionExpired:
    """What became of it is not remembered any more."""
    return TransactionExpired(f"transaction {transaction} is older than what is remembered")


def _judge_keys(
    state: TransactionState,
    latest: LatestChanges,
    ahead: ShardTransactions,
    is_touched: Callable[[list[bytes]], bool],
    branch: Branch,
    reads: tuple[SeenKey, ...],
) -> Verdict:
    keys = [change.key for change in branch.changes]
    if reads:
        keys = [*(read.key for read in reads), *keys]
    in_flight_transactions = ahead.in_flight_keys
    for key in keys:
        if key in in_flight_transactions:
            return Verdict.WAIT
    if is_touched(keys):
        return Verdict.WAIT
    for key in keys if state.locks else ():
        holder = state.locks.get(key)
        if holder is None:
            continue
        if branch.age > state.prepared[holder].prepared.branch.age:  # W1
            raise Conflict(f"{shown(key)} is locked by the older transaction {holder}")
        return Verdict.WAIT
    for read in reads:  # W2
        if not latest.knows(read.key):
            raise key_forgotten(read.key)
        found = latest.keys.get(read.key)
        if (None if found is None else found.clock) != read.seen:
            raise Conflict(f"{shown(read.key)} has changed since it was read")
    return Verdict.GO


def key_forgotten(key: bytes) -> KeyForgotten:
    """The shard does not remember what the latest change of the key is."""
    return KeyForgotten(f"the shard of {shown(key)} does not remember its latest change")


def shown(key: bytes) -> str:
    """A key for people."""
    return repr(key.decode(errors="replace"))
