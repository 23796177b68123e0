"""A register's history made ready for the search: small tuples, and bits that are used again.

Every operation becomes a *step* of one of four kinds:

``READ v``   is satisfied where the register holds v (also a cas from v to v that succeeded)
``WRITE v``  makes it hold v
``CAS a b``  where it holds a, makes it hold b
``NOT a``    is satisfied where it does not hold a (a cas from a that was refused)

Failed operations did not happen, and observers of unknown outcome say nothing: both are left out.
What remains is cut at every return: for each, the steps open at that moment, the returning one first.
A step has one bit from its invocation to its return; the bit is then free for a later step, so sets of
open steps are small integers however long the history is. Mutators of unknown outcome never return
and keep theirs.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from motet.errors import BadHistory
from motet.verify.history.operation import FOREVER, Operation
from motet.verify.history.values import Value

READ, WRITE, CAS, NOT = range(4)
DELETE = 4  # in a vocabulary only: a write of nothing

Vocabulary: TypeAlias = Mapping[str, int]
"""What each function of a history means."""

Step: TypeAlias = tuple[int, int, int, Any, Any, int]
"""(ended, bit, kind, expected value, value after it, index of the operation); sorts by its end. A
``WRITE`` expects the value it writes: it changes nothing there."""


Unknowns: TypeAlias = list[tuple[int, int]]
"""(first return it may be ordered before, bit) of mutators that do the same, in order of invocation."""


class Plan:
    """The returns of one register's history, and its mutators of unknown outcome."""

    __slots__ = ("cas_from", "cas_to", "next_seen", "returns", "writes_of")

    def __init__(self) -> None:
        #: for each return, the steps open just before it, sorted by their ends
        self.returns: list[tuple[Step, ...]] = []
        #: for each return, the value that a later return is the next to expect
        self.next_seen: list[Value] = []
        #: unknown writes by value
        self.writes_of: dict[Value, Unknowns] = {}
        #: unknown cas by expected value, then new value; and the same the other way round
        self.cas_from: dict[Value, dict[Value, Unknowns]] = {}
        self.cas_to: dict[Value, dict[Value, Unknowns]] = {}

    def add_unknown(self, kind: int, expected: Value, after: Value, bit: int) -> None:
        """A mutator of unknown outcome, invoked after the returns known so far."""
        if kind == WRITE:
            alike = self.writes_of.setdefault(after, [])
        else:
            alike = self.cas_from.setdefault(expected, {}).setdefault(after, [])
            self.cas_to.setdefault(after, {})[expected] = alike
        alike.append((len(self.returns), bit))


def make_plan(operations: Sequence[Operation], vocabulary: Vocabulary) -> Plan:
    """Cut the operations (in the order of their invocation) at their returns."""
    plan = Plan()
    returns = plan.returns
    open_steps: list[Step] = []
    bits_free: list[int] = []
    bits_used = 0
    for index, operation in enumerate(operations):
        kind, expected, after = meaning(operation, vocabulary)
        if kind < 0:
            continue
        began, ended = operation[7], operation[8]
        while open_steps and open_steps[0][0] < began:
            returns.append(tuple(open_steps))
            bits_free.append(open_steps.pop(0)[1])
        if bits_free:
            bit = bits_free.pop()
        else:
            bit = 1 << bits_used
            bits_used += 1
        if ended != FOREVER:
            insort(open_steps, (ended, bit, kind, expected, after, index))
        else:
            plan.add_unknown(kind, expected, after, bit)
    while open_steps:
        returns.append(tuple(open_steps))
        open_steps.pop(0)
    plan.next_seen = _next_seen(returns)
    return plan


def meaning(operation: Operation, vocabulary: Vocabulary) -> tuple[int, Value, Value]:
    """The operation's kind, expected value and value after it; kind -1 says nothing at all."""
    _, _, function, _, value, outcome, result, _, _, _, _ = operation
    kind = vocabulary.get(function, -1)
    if kind < 0:
        raise BadHistory(
            f"this checker does not know the function {function!r}",
            hint="it knows " + ", ".join(vocabulary),
        )
    if outcome == "failed":
        return -1, None, None
    if kind == READ:
        return (READ, result, result) if outcome == "ok" else (-1, None, None)
    if kind == WRITE:
        return WRITE, value, value
    if kind == DELETE:
        return WRITE, None, None
    return _meaning_of_cas(operation)


def _meaning_of_cas(operation: Operation) -> tuple[int, Value, Value]:
    pair = operation.value
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise BadHistory(f"cas was given {pair!r}", hint="its value is (expected, new)")
    expected, new = pair
    if operation.outcome == "unknown":
        return (-1, None, None) if expected == new else (CAS, expected, new)
    if not isinstance(operation.result, bool):
        raise BadHistory(
            f"cas answered {operation.result!r}",
            hint="record True if it was applied, False if the value was not the expected one",
        )
    if not operation.result:
        return NOT, expected, None
    return (READ, expected, expected) if expected == new else (CAS, expected, new)


def _next_seen(returns: Sequence[tuple[Step, ...]]) -> list[Value]:
    seen: list[Value] = []
    value: Value = None
    for steps in reversed(returns):
        seen.append(value)
        if steps[0][2] == READ or steps[0][2] == CAS:
            value = steps[0][3]
    seen.reverse()
    return seen
