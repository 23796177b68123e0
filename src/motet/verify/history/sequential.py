"""Is an object linearizable, whatever it is? A depth-first search over orders, for any specification.

A *specification* says what an operation makes of a state, and whether it could then have answered what it
did. The search goes from return to return; at each, any operation that is open may be the next in the
order (Wing and Gong), and a configuration (return, done, state) is looked at once (Lowe). Three rules:

Q1  An operation that never changes anything, given what it answered, is done as soon as its answer fits.
Q2  An operation of unknown outcome is never forced; it is tried like any other that is open.
Q3  Operations are tried by their *rank*. It decides how soon an order is found, never whether.

The worst case is exponential in the number of operations open at once, so there is a budget.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol, TypeAlias

from motet.verify.history.operation import FOREVER, Operation
from motet.verify.history.record import Verdict, Witness
from motet.verify.history.shrink import witness_operations_max

shrink_steps_max = 200_000
"""Steps spent on making a witness smaller."""

weaken_operations_max = 200
"""A longer history is not made smaller operation by operation."""


class Specification(Protocol):
    """An object that takes one operation after the other."""

    def initial(self) -> Hashable:
        """What it is at first."""

    def after(self, operation: Operation, state: Hashable) -> Hashable | None:
        """The state after the operation, or ``None`` if it could not have answered what it did.

        An operation of unknown outcome may have answered anything.
        """

    def only_looks(self, operation: Operation) -> bool:
        """Whether it changes no state, given what it answered."""

    def rank(self, operation: Operation) -> int:
        """Operations of lower rank are tried first."""

    def shown(self, state: Hashable) -> str:
        """A state for people."""


_Open: TypeAlias = tuple[tuple[int, Operation], ...]  # (bit, operation), the one that returns first
_Configuration: TypeAlias = tuple[int, int, Hashable]  # (next return, done, state)


class Found(NamedTuple):
    """How a search ended."""

    #: ``None`` if the budget ran out first
    linearizable: bool | None
    steps: int
    #: the operation that no order gets beyond, and states in which it found the object
    stuck: Operation | None = None
    states: tuple[Hashable, ...] = ()


def check_sequential(
    operations: Sequence[Operation], specification: Specification, budget_steps: int
) -> Verdict:
    """Check operations, in the order of their invocation, against a specification."""
    found = search_orders(operations, specification, budget_steps)
    count = len(operations)
    if found.linearizable is None:
        reason = f"the budget of {budget_steps} steps is used up"
        return Verdict("unknown", count, found.steps, reason=reason)
    if found.linearizable:
        return Verdict("ok", count, found.steps)
    witness = _witness(operations, specification, found)
    return Verdict("violated", count, found.steps, witness=witness)


def search_orders(
    operations: Sequence[Operation], specification: Specification, budget_steps: int
) -> Found:
    """Look for an order that explains every answer, for at most so many steps."""
    returns = _cut(operations, specification)
    stack: list[_Configuration] = [(0, 0, specification.initial())]
    seen: dict[_Configuration, None] = {}  # a dict, for its order
    steps = 0
    while stack:
        at, done, state = stack.pop()
        while at < len(returns) and done & returns[at][0][0]:
            done ^= returns[at][0][0]
            at += 1
            steps += 1
        steps += 1
        if steps > budget_steps:
            return Found(None, budget_steps)
        if at == len(returns):
            return Found(True, steps)
        if (at, done, state) not in seen:
            seen[at, done, state] = None
            stack += _moves(returns[at], (at, done, state), specification)
    deepest = max(at for at, _, _ in seen)
    states = dict.fromkeys(state for at, _, state in seen if at == deepest)
    return Found(False, steps, returns[deepest][0][1], tuple(states))


def _cut(operations: Sequence[Operation], specification: Specification) -> list[_Open]:
    """For each return, what is open just before it, the returning operation first.

    A bit is free again once its operation has returned; one of unknown outcome keeps its own.
    """
    told = [op for op in operations if _says_something(op, specification)]
    endings = sorted((op for op in told if op.ended != FOREVER), key=lambda op: op.ended)
    begun = iter([*told, None])
    coming = next(begun)
    running: dict[int, tuple[int, Operation]] = {}
    free: list[int] = []
    used = 0
    returns: list[_Open] = []
    for ending in endings:
        while coming is not None and coming.began < ending.ended:
            if free:
                bit = free.pop()
            else:
                bit, used = 1 << used, used + 1
            running[coming.id] = (bit, coming)
            coming = next(begun)
        first = running.pop(ending.id)
        returns.append((first, *running.values()))
        free.append(first[0])
    return returns


def _says_something(op: Operation, specification: Specification) -> bool:
    if op.outcome == "failed":
        return False
    return op.outcome == "ok" or not specification.only_looks(op)


def _moves(
    steps: _Open, configuration: _Configuration, specification: Specification
) -> list[_Configuration]:
    """What may come next; the likeliest last, for it is taken from a stack."""
    at, done, state = configuration
    found: list[tuple[int, _Configuration]] = []
    for bit, op in steps:
        if done & bit:
            continue
        after = specification.after(op, state)
        if after is None:
            continue
        if op.outcome == "ok" and specification.only_looks(op):
            return [(at, done | bit, state)]  # Q1
        if op.outcome == "unknown" and after == state:
            continue  # it would change nothing, and nobody waits for it
        found.append((specification.rank(op), (at, done | bit, after)))
    found.sort(key=lambda move: -move[0])
    return [move for _, move in found]


# The witness


def _witness(
    operations: Sequence[Operation], specification: Specification, found: Found
) -> Witness:
    assert found.stuck is not None
    stuck = found.stuck
    known = [
        op if op.ended <= stuck.ended else _weakened(op)
        for op in operations
        if op.began < stuck.ended and op.outcome != "failed"
    ]
    if len(known) <= weaken_operations_max:
        known = _weaken_each(known, specification)
    proof = [op for op in known if op.outcome == "ok"]
    latest = proof[-witness_operations_max:]
    held = " or ".join(specification.shown(state) for state in found.states[:4])
    more = " or …" if len(found.states) > 4 else ""
    return Witness(
        fault="unexplained",
        sentence=(
            f"{stuck} by no order of the operations: in every order that explains all before it, it "
            f"finds {held}{more}"
        ),
        operations=tuple(latest if stuck in latest else (stuck, *latest[1:])),
    )


def _weaken_each(operations: list[Operation], specification: Specification) -> list[Operation]:
    """Forget outcomes, each of which only ever allows more orders, as long as no order explains it."""
    steps_left = shrink_steps_max
    for index, op in enumerate(operations):
        if op.outcome != "ok":
            continue
        weaker = [*operations[:index], _weakened(op), *operations[index + 1 :]]
        found = search_orders(weaker, specification, steps_left)
        steps_left -= found.steps
        if found.linearizable is False:
            operations = weaker
    return operations


def _weakened(op: Operation) -> Operation:
    return op._replace(outcome="unknown", result=None, ended=FOREVER)
