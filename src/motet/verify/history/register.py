"""Is a register with read, write and compare-and-set linearizable?

Functions: ``read`` answers the value, ``write`` takes the value (its answer says nothing), ``cas``
takes ``(expected, new)`` and answers ``True`` if it was applied, ``False`` if the value was another.
The search is exact; its worst case is exponential in the number of operations open at once, so it has
a budget, and says *unknown* when that is used up.
"""

from __future__ import annotations

from collections.abc import Sequence

from motet.errors import BadHistory
from motet.verify.history.operation import Operation
from motet.verify.history.plan import CAS, READ, WRITE, Vocabulary, make_plan
from motet.verify.history.record import History
from motet.verify.history.search import search
from motet.verify.history.shrink import witness_of
from motet.verify.history.values import Value, frozen, show
from motet.verify.history.verdict import Verdict, budget_steps_default

_FUNCTIONS = {"read": READ, "write": WRITE, "cas": CAS}


def check_register(
    history: History, *, initial: object = None, budget_steps: int = budget_steps_default
) -> Verdict:
    """Check the history of one register that held ``initial`` at first."""
    require_one_key(history)
    return check_operations(history.operations, _FUNCTIONS, frozen(initial), budget_steps)


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
