"""Is a register with read, write and compare-and-set linearizable?

Functions: ``read`` answers the value, ``write`` takes the value (its answer says nothing), ``cas``
takes ``(expected, new)`` and answers ``True`` if it was applied, ``False`` if the value was another.
The search is exact; its worst case is exponential in the number of operations open at once, so it has
a budget, and says *unknown* when that is used up.

A key-value store is linearizable exactly when each of its keys is, so its history is cut by key, which makes
the search short. Functions: ``get`` answers the value, ``None`` if there is none; ``put`` takes the value;
``delete`` takes nothing; ``cas`` takes ``(expected, new)``, where ``None`` stands for an absent key, and
answers ``True`` or ``False``. The answers of put and delete say nothing and are not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from motet.errors import BadHistory
from motet.verify.history.operation import Operation, Value, frozen, show
from motet.verify.history.record import History, Verdict, budget_steps_default
from motet.verify.history.search import CAS, DELETE, READ, WRITE, Vocabulary, make_plan, search
from motet.verify.history.shrink import witness_of

_OF_ONE = {"read": READ, "write": WRITE, "cas": CAS}


def check_register(
    history: History, *, initial: object = None, budget_steps: int = budget_steps_default
) -> Verdict:
    """Check the history of one register that held ``initial`` at first."""
    require_one_key(history)
    return check_operations(history.operations, _OF_ONE, frozen(initial), budget_steps)


def check_operations(
    operations: Sequence[Operation], vocabulary: Vocabulary, initial: Value, budget_steps: int
) -> Verdict:
    """Check the operations of one register under the given meaning of their functions."""
    plan = make_plan(operations, vocabulary)
    found = search(plan, [(0, initial, 0, 0)], budget_steps)
    if found.linearizable is None:
        return Verdict(
            status="unknown",
            operations=len(operations),
            steps=found.steps,
            reason=f"the budget of {budget_steps} steps is used up",
        )
    if found.linearizable:
        return Verdict(status="ok", operations=len(operations), steps=found.steps)
    witness = witness_of(operations, vocabulary, initial, plan, found)
    return Verdict(
        status="violated", operations=len(operations), steps=found.steps, witness=witness
    )


def require_one_key(history: History) -> None:
    """Refuse a history of several registers: checked as one it would be nonsense."""
    if len(history.keys) > 1:
        raise BadHistory(
            f"the history has {len(history.keys)} keys, among them "
            + " and ".join(show(key) for key in history.keys[:2]),
            hint="check_keyed checks each key on its own",
        )


_OF_EACH_KEY = {"get": READ, "put": WRITE, "delete": DELETE, "cas": CAS}


def check_keyed(
    history: History,
    *,
    initial: Mapping[Any, object] | None = None,
    budget_steps: int = budget_steps_default,
) -> Verdict:
    """Check every key; ``initial`` is what the store held at first, the budget is for each key.

    One violated key makes the verdict violated; else one unknown key makes it unknown.
    """
    held = {frozen(key): frozen(value) for key, value in (initial or {}).items()}
    steps = 0
    reasons: list[str] = []
    for key, operations in _by_key(history).items():
        verdict = check_operations(operations, _OF_EACH_KEY, held.get(key), budget_steps)
        steps += verdict.steps
        if verdict.witness is not None:
            return Verdict("violated", len(history), steps, witness=verdict.witness)
        if verdict.reason is not None:
            reasons.append(f"key {show(key)}: {verdict.reason}")
    if reasons:
        return Verdict("unknown", len(history), steps, reason="; ".join(reasons))
    return Verdict("ok", len(history), steps)


def _by_key(history: History) -> dict[Value, list[Operation]]:
    parts: dict[Value, list[Operation]] = {key: [] for key in history.keys}
    for op in history.operations:
        if op.function == "put" and op.value is None:
            raise BadHistory(
                f"{op.process} put nothing under {show(op.key)}",
                hint="None stands for an absent key: record a delete",
            )
        parts[op.key].append(op)
    return parts
