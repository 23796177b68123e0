"""From a register's history that no order explains to the few operations that show it.

Two ways to take operations away, both of which only ever allow more orders. So what is still violated
afterwards is a proof by itself.

*Cut*: forget all that ended before a moment. The register may then hold anything at that moment, and
an operation open across it may have happened before. The latest such moment is taken.

*Weaken*: forget the outcome of an operation; it may then happen at any time, or never.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from motet.verify.history.operation import FOREVER, Operation, Value, show
from motet.verify.history.record import Witness
from motet.verify.history.search import (
    NOT,
    WRITE,
    Configuration,
    Found,
    Plan,
    Vocabulary,
    make_plan,
    meaning,
    search,
)

shrink_steps_max = 200_000
"""Steps spent on making a witness smaller: about a second."""

weaken_operations_max = 64
"""A larger proof is not weakened operation by operation."""

witness_operations_max = 24
"""Operations shown; of a larger proof the latest."""

_any_other: Any = object()  # a value that no operation knows


def witness_of(
    operations: Sequence[Operation],
    vocabulary: Vocabulary,
    initial: Value,
    plan: Plan,
    found: Found,
) -> Witness:
    """The witness of a search that was stuck at a return."""
    stuck = operations[plan.returns[found.stuck_at][0][5]]
    known = [
        op if op.ended <= stuck.ended else _weakened(op)
        for op in operations
        if op.began < stuck.ended and op.outcome != "failed"
    ]
    proof = Shrinker(known, vocabulary, initial).proof()
    kind = meaning(stuck, vocabulary)[0]
    return Witness(
        fault="refused" if kind == NOT else "unexplained",
        sentence=_sentence(stuck, kind, found.values),
        operations=_latest(proof, stuck),
    )


def _latest(proof: Sequence[Operation], stuck: Operation) -> tuple[Operation, ...]:
    """So many operations of the proof as are shown, and always the one that cannot be explained."""
    latest = proof[-witness_operations_max:]
    return tuple(latest) if stuck in latest else (stuck, *latest[1:])


def _sentence(stuck: Operation, kind: int, values: Sequence[Value]) -> str:
    if stuck.function == "cas":
        did = "was refused" if kind == NOT else "succeeded"
    else:
        did = f"answered {show(stuck.result)}"
    return (
        f"{stuck.process}'s {stuck.call} {did}, but no order of the operations explains that: "
        f"when it ended, the register could only hold {' or '.join(map(show, values))}"
    )


def _weakened(op: Operation) -> Operation:
    return op._replace(outcome="unknown", result=None, ended=FOREVER)


class Shrinker:
    """A violated history that is made smaller. All operations up to the one that cannot be explained."""

    def __init__(self, operations: list[Operation], vocabulary: Vocabulary, initial: Value) -> None:
        self.operations = operations
        self.vocabulary = vocabulary
        self.initial = initial
        #: all that ended before this moment is forgotten; ``None`` is no cut, from the initial value on
        self.cut: int | None = None
        self.steps_left = shrink_steps_max

    def proof(self) -> list[Operation]:
        """The operations of known outcome that are needed for the violation."""
        self._cut_late()
        self.operations = _from(self.cut, self.operations)
        if len(self.operations) <= weaken_operations_max:
            self._weaken_each()
        return [op for op in self.operations if op.outcome == "ok"]

    def _cut_late(self) -> None:
        """Find the latest cut: look back twice as far each time, then halve the last range."""
        moments = [None, *(op.began for op in self.operations)]
        latest = len(moments)
        back = 2
        while back < latest and not self._violated(self.operations, moments[latest - back]):
            back *= 2
        low, high = max(0, latest - back), latest - back // 2
        while high - low > 1:
            middle = (low + high) // 2
            if self._violated(self.operations, moments[middle]):
                low = middle
            else:
                high = middle
        self.cut = moments[low]

    def _weaken_each(self) -> None:
        for index, op in enumerate(self.operations):
            if op.outcome == "ok":
                weaker = [*self.operations[:index], _weakened(op), *self.operations[index + 1 :]]
                if self._violated(weaker, self.cut):
                    self.operations = weaker

    def _violated(self, operations: list[Operation], cut: int | None) -> bool:
        """Whether the operations are surely violated from the cut on."""
        left = [
            op if cut is None or op.began >= cut else self._across(op)
            for op in _from(cut, operations)
        ]
        plan = make_plan(left, self.vocabulary)
        starts = [(0, self.initial, 0, 0)] if cut is None else self._starts(plan, left, cut)
        found = search(plan, starts, self.steps_left)
        self.steps_left -= found.steps
        return found.linearizable is False

    def _across(self, op: Operation) -> Operation:
        """An operation open at the cut. A write stays as it is: it is spare from the start."""
        return op if meaning(op, self.vocabulary)[0] == WRITE else _weakened(op)

    def _starts(self, plan: Plan, operations: Sequence[Operation], cut: int) -> list[Configuration]:
        """Any value at the cut; every write that is open across it may have happened before."""
        spare = 0
        for _, bit, _, _, _, index in plan.returns[0] if plan.returns else ():
            if operations[index].began < cut:
                spare |= bit
        known: dict[Value, None] = {}
        for op in operations:
            _, expected, after = meaning(op, self.vocabulary)
            known[expected] = known[after] = None
        return [(0, value, 0, spare) for value in (*known, _any_other)]


def _from(cut: int | None, operations: list[Operation]) -> list[Operation]:
    return operations if cut is None else [op for op in operations if op.ended >= cut]
