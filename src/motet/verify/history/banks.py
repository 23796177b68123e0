"""Is the money of a bank all there, and in one order of the transfers?

Functions: ``transfer`` takes ``(from, to, amount)`` and answers ``True`` (or nothing) if it was done,
``False`` if there was too little; ``read`` answers every account with its balance, as
``((account, balance), …)``.

``total``       a read shows more or less money than there is
``negative``    a read shows an account below nothing
``incomplete``  a read does not show every account once

These three are what a snapshot must not show however old it is; ``check_snapshots`` looks for no more. With
``check_bank`` transfers and reads must be linearizable as well: one order, in accord with real time, explains
every balance and every refusal; that is a search, and it has a budget.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from motet.errors import BadHistory
from motet.verify.history.operation import Operation, Value, frozen, show
from motet.verify.history.record import History, Verdict, Witness, budget_steps_default
from motet.verify.history.register import require_one_key
from motet.verify.history.sequential import check_sequential


def check_bank(
    history: History,
    *,
    initial: Mapping[Any, object],
    budget_steps: int = budget_steps_default,
) -> Verdict:
    """Check the history of a bank that began with these balances."""
    verdict = check_snapshots(history, initial=initial)
    if not verdict:
        return verdict
    return check_sequential(history.operations, Bank(_balances(initial)), budget_steps)


def check_snapshots(history: History, *, initial: Mapping[Any, object]) -> Verdict:
    """Check each read by itself: it may be old, but must be of one moment."""
    require_one_key(history)
    balances = _balances(initial)
    for op in history.operations:
        _require_known(op, balances)
    reads = [op for op in history.operations if op.function == "read" and op.outcome == "ok"]
    for read in reads:
        witness = _impossible(read, balances)
        if witness is not None:
            return Verdict("violated", len(history), len(reads), witness=witness)
    return Verdict("ok", len(history), len(reads))


def _balances(initial: Mapping[Any, object]) -> dict[Value, int]:
    balances = {
        frozen(account): balance for account, balance in initial.items() if isinstance(balance, int)
    }
    if not balances or len(balances) != len(initial):
        raise BadHistory(
            "the bank's first balances are not known",
            hint='give its accounts and what was in them, as in {"a": 100, "b": 100}',
        )
    return balances


def _require_known(op: Operation, balances: Mapping[Value, int]) -> None:
    if op.function == "read":
        if op.outcome == "ok" and _pairs(op.result) is None:
            raise BadHistory(
                f"a read of the bank answered {show(op.result)}",
                hint="record every account with its balance, as [[account, balance], ...]",
            )
        return
    if op.function != "transfer":
        raise BadHistory(
            f"this checker does not know the function {op.function!r}",
            hint="it knows transfer and read",
        )
    match op.value:
        case (source, target, int(amount)) if source != target and amount >= 0:
            for account in (source, target):
                if account not in balances:
                    raise BadHistory(f"there is no account {show(account)}")
        case _:
            raise BadHistory(
                f"{op.process} transferred {show(op.value)}",
                hint="a transfer is (from, to, amount) between two accounts",
            )
    if op.outcome == "ok" and op.result not in (None, True, False):
        raise BadHistory(f"a transfer answered {show(op.result)}", hint="record true or false")


def _pairs(result: Value) -> list[tuple[Value, int]] | None:
    if not isinstance(result, tuple):
        return None
    pairs: list[tuple[Value, int]] = []
    for item in result:
        if not isinstance(item, tuple) or len(item) != 2 or not isinstance(item[1], int):
            return None
        pairs.append((item[0], item[1]))
    return pairs


def _impossible(read: Operation, initial: Mapping[Value, int]) -> Witness | None:
    pairs = _pairs(read.result) or []
    name = f"{read.process}'s read"
    if sorted(map(repr, (account for account, _ in pairs))) != sorted(map(repr, initial)):
        sentence = f"{name} shows {len(pairs)} accounts, not each of {len(initial)} once"
        return Witness("incomplete", sentence, (read,))
    below = [(account, balance) for account, balance in pairs if balance < 0]
    if below:
        account, balance = below[0]
        return Witness("negative", f"{name} shows {balance} in {show(account)}", (read,))
    total, shown = sum(initial.values()), sum(balance for _, balance in pairs)
    if shown != total:
        return Witness("total", f"{name} shows {shown} in all, but there is {total}", (read,))
    return None


class Bank:
    """A bank; a state is the tuple of balances, in the order of the accounts."""

    def __init__(self, balances: Mapping[Value, int]) -> None:
        self._place = {account: place for place, account in enumerate(balances)}
        self._first = tuple(balances.values())

    def initial(self) -> Hashable:
        return self._first

    def after(self, operation: Operation, state: Hashable) -> Hashable | None:
        assert isinstance(state, tuple)
        if operation.function == "read":
            shown = _pairs(operation.result) or []
            is_this = all(state[self._place[account]] == balance for account, balance in shown)
            return state if is_this else None
        match operation.value:
            case (source, target, int(amount)):
                return self._moved(operation, state, source, target, amount)
        raise AssertionError("transfers were looked at before")

    def _moved(
        self,
        operation: Operation,
        state: tuple[int, ...],
        source: Value,
        target: Value,
        amount: int,
    ) -> Hashable | None:
        is_enough = state[self._place[source]] >= amount
        if operation.outcome == "ok" and is_enough is (operation.result is False):
            return None
        if not is_enough:
            return state
        balances = list(state)
        balances[self._place[source]] -= amount
        balances[self._place[target]] += amount
        return tuple(balances)

    def only_looks(self, operation: Operation) -> bool:
        return operation.function == "read" or operation.result is False

    def rank(self, operation: Operation) -> int:
        return operation.ended

    def shown(self, state: Hashable) -> str:
        assert isinstance(state, tuple)
        pairs = zip(self._place, state, strict=True)
        return " ".join(f"{account}={balance}" for account, balance in pairs)
