"""Is a key-value store linearizable? Each key is checked on its own.

A store is linearizable exactly when each of its keys is, so a history is cut by key, which makes the
search short. Functions: ``get`` answers the value, ``None`` if there is none; ``put`` takes the value;
``delete`` takes nothing; ``cas`` takes ``(expected, new)``, where ``None`` stands for an absent key, and
answers ``True`` or ``False``. The answers of put and delete say nothing and are not looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from motet.errors import BadHistory
from motet.verify.history.operation import Operation
from motet.verify.history.plan import CAS, DELETE, READ, WRITE
from motet.verify.history.record import History
from motet.verify.history.register import check_operations
from motet.verify.history.values import Value, frozen, show
from motet.verify.history.verdict import Verdict, budget_steps_default

_FUNCTIONS = {"get": READ, "put": WRITE, "delete": DELETE, "cas": CAS}


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
        verdict = check_operations(operations, _FUNCTIONS, held.get(key), budget_steps)
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
