"""From a register's history with no explaining order to the few operations that show it.

An operation is *weakened* by forgetting its outcome: it may then happen at any time, or never. That
only allows more orders. So if a history is still violated with some operations weakened, the others
alone are the proof. Groups of them are weakened, large groups first, as long as the violation stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from motet.verify.history.operation import FOREVER, Operation
from motet.verify.history.plan import CAS, NOT, Plan, Vocabulary, make_plan, meaning
from motet.verify.history.search import Found, search
from motet.verify.history.values import Value, show
from motet.verify.history.verdict import Witness

shrink_steps_max = 200_000
"""Steps spent on making a witness smaller: about a second."""

witness_operations_max = 24
"""Operations shown; of a larger proof the latest."""


def witness_of(
    operations: Sequence[Operation],
    vocabulary: Vocabulary,
    initial: Value,
    plan: Plan,
    found: Found,
) -> Witness:
    """The witness of a search that was stuck at a return."""
    stuck = operations[plan.returns[found.stuck_at][0][5]]
    before = [_known_at(op, stuck.ended) for op in operations if op.began < stuck.ended]
    proof = _shrunk(before, vocabulary, initial)
    kind, expected, _ = meaning(stuck, vocabulary)
    return Witness(
        fault="refused" if kind == NOT else "unexplained",
        sentence=_sentence(stuck, kind, expected, found.values),
        operations=tuple(proof[-witness_operations_max:]),
    )


def _sentence(stuck: Operation, kind: int, expected: Value, values: Sequence[Value]) -> str:
    did = {CAS: "succeeded", NOT: "was refused"}.get(kind, f"answered {show(expected)}")
    held = " or ".join(map(show, values))
    return (
        f"{stuck.process}'s {stuck.call} {did}, but no order of the operations explains that: "
        f"when it ended, the register could only hold {held}"
    )


def _known_at(op: Operation, moment: int) -> Operation:
    return op if op.ended <= moment else _weakened(op)


def _weakened(op: Operation) -> Operation:
    return op._replace(outcome="unknown", result=None, ended=FOREVER)


def _shrunk(
    operations: list[Operation], vocabulary: Vocabulary, initial: Value
) -> list[Operation]:
    """The operations of known outcome that are needed for the violation."""
    steps_left = shrink_steps_max
    solid = [index for index, op in enumerate(operations) if op.outcome == "ok"]
    size = len(solid) // 2
    while size:
        for group in [solid[start : start + size] for start in range(0, len(solid), size)]:
            weaker = list(operations)
            for index in group:
                weaker[index] = _weakened(weaker[index])
            found = search(make_plan(weaker, vocabulary), initial, steps_left)
            steps_left -= found.steps
            if found.linearizable is False:
                operations = weaker
                solid = [index for index in solid if index not in group]
        size //= 2
    return [operations[index] for index in solid]
