"""Is there an order of a register's operations that explains every answer? A depth-first search.

A *configuration* is (return, value, done, spare): the next return to pass, the value of the register,
and two sets of open steps. It goes from return to return, and an operation is put into the order only
when a return forces it (just-in-time linearization). Four rules keep the search small; each loses no
order that matters.

S1  An observer is done wherever the value suits it while it is open: it changes nothing, so doing it
    early costs nothing.
S2  An open write is *spare* once it could have been hidden: directly before another write, or where
    the register held its value anyway. A spare write may pass its return without any effect, and until
    then may still take effect. So a hidden write costs no branch.
S3  Before the forced step, a write is tried only if somebody open waits for its value: any other would
    have to be followed by a write, and then S2 covers it. A write of the value that is there already is
    tried for one purpose: it hides other writes in front of a cas that needs this value. Of several
    writes of a value the one that ends first is tried; the others can still do all that it could.
S4  An operation of unknown outcome is never forced, so it is tried only where its effect is waited for.

Taking a write at once because the register holds its value anyway, without keeping it spare, would be
wrong: it may be the one that brings the value back later.

A configuration is looked at once. The search is deterministic, and its work is counted in steps:
configurations looked at, and returns passed.

A history is made ready first: every operation becomes a *step* of one of four kinds:

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
from typing import Any, NamedTuple, TypeAlias

from motet.errors import BadHistory
from motet.verify.history.operation import FOREVER, Operation, Value

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


Configuration: TypeAlias = tuple[int, Value, int, int]

_Moves: TypeAlias = list[tuple[int, Value]]  # (bit, value after it)
_Open: TypeAlias = tuple[int, _Moves, _Moves, list[Value], bool, int, int]
"""What is open at a configuration: the steps done, with the observers that the value suits; writes;
cas from this value; values that are waited for; whether somebody waits for any other value; the writes
of known outcome, and those of them that would change nothing here."""


class Found(NamedTuple):
    """How a search ended."""

    #: ``None`` if the budget ran out first
    linearizable: bool | None
    steps: int
    #: where no order gets any further: the return, and the values the register could hold there
    stuck_at: int = -1
    values: tuple[Value, ...] = ()


def search(plan: Plan, starts: Sequence[Configuration], budget_steps: int) -> Found:
    """Look for an order that begins with one of the starts, for at most so many steps."""
    returns = plan.returns
    last = len(returns)
    stack = list(starts)
    seen: dict[Configuration, None] = {}  # a dict, for its order
    steps = 0
    while stack:
        at, value, done, spare = stack.pop()
        steps -= at
        while at < last:
            _, bit, kind, expected, _, _ = returns[at][0]
            if done & bit:
                done ^= bit
            elif kind == READ:
                if expected != value:
                    break
            elif kind != NOT or expected == value:
                break
            at += 1
        steps += at + 1
        if steps > budget_steps:
            return Found(None, budget_steps)
        if at == last:
            return Found(True, steps)
        configuration = (at, value, done, spare)
        if configuration not in seen:
            seen[configuration] = None
            _push_moves(plan, configuration, stack)
    stuck_at = max((configuration[0] for configuration in seen), default=0)
    return Found(False, steps, stuck_at, _values_at(plan, stuck_at, seen))


def _push_moves(plan: Plan, configuration: Configuration, stack: list[Configuration]) -> None:
    """Push what may happen next on the way to the forced step; the likeliest on top."""
    at, value, _, spare = configuration
    _, forced_bit, forced_kind, forced_value, _, _ = plan.returns[at][0]
    done, writes, cas, wanted, leave, open_writes, same = _look(plan, configuration)
    hidden = spare | open_writes
    hides_more = cas and hidden & ~same & ~spare
    likely: list[Configuration] = []
    tried: list[Value] = []
    for bit, after in writes:
        if after in tried:
            continue
        tried.append(after)
        if after == value and bit != forced_bit:
            if hides_more:
                stack.append((at, after, done | bit, hidden & ~bit))
        elif after == forced_value:
            likely.append((at, after, done | bit, hidden & ~bit))
        elif leave or after in wanted:
            stack.append((at, after, done | bit, hidden & ~bit))
    if forced_kind == WRITE and forced_value != value and spare & forced_bit:
        skipped = (at + 1, value, done, spare ^ forced_bit)
        effect_likely = plan.next_seen[at] == forced_value
        likely.insert(0 if effect_likely else len(likely), skipped)
    stack += likely
    for bit, after in cas:  # on top, for the value it needs is there now
        stack.append((at, after, done | bit, spare | same))


def _look(plan: Plan, configuration: Configuration) -> _Open:
    """Sort what is open here by what it could do."""
    at, value, done, _ = configuration
    writes: list[tuple[int, Value]] = []
    cas: list[tuple[int, Value]] = []
    wanted: list[Value] = []
    leave = False
    open_writes = same = 0
    for _, bit, kind, expected, after, _ in plan.returns[at]:
        if done & bit:
            continue
        if kind == WRITE:
            writes.append((bit, after))
            open_writes |= bit
            if after == value:
                same |= bit
        elif kind == CAS:
            wanted.append(expected)
            if expected == value:
                cas.append((bit, after))
        elif (expected == value) == (kind == READ):
            done |= bit  # S1
        elif kind == READ:
            wanted.append(expected)
        else:
            leave = True
    if plan.writes_of or plan.cas_from:
        _look_at_unknown(plan, at, value, done, writes, cas, wanted, leave=leave)
    return done, writes, cas, wanted, leave, open_writes, same


def _look_at_unknown(
    plan: Plan,
    at: int,
    value: Value,
    done: int,
    writes: _Moves,
    cas: _Moves,
    wanted: list[Value],
    *,
    leave: bool,
) -> None:
    """Add the operations of unknown outcome whose effect somebody waits for (S4)."""
    for after in wanted:  # grows while we go: a cas that gives a wanted value wants one itself
        for expected, alike in plan.cas_to.get(after, {}).items():
            if expected not in wanted and _unused(alike, at, done):
                wanted.append(expected)
    for after in plan.writes_of if leave else wanted:
        if bit := _unused(plan.writes_of.get(after, ()), at, done):
            writes.append((bit, after))
    for after, alike in plan.cas_from.get(value, {}).items():
        if (leave or after in wanted) and (bit := _unused(alike, at, done)):
            cas.append((bit, after))


def _unused(alike: Sequence[tuple[int, int]], at: int, done: int) -> int:
    """The first of these that is invoked and not done: they are all alike. 0 if there is none."""
    for visible, bit in alike:
        if visible > at:
            break
        if not done & bit:
            return bit
    return 0


def _values_at(plan: Plan, at: int, seen: dict[Configuration, None]) -> tuple[Value, ...]:
    """Every value the register could hold at this return, in a fixed order."""
    values: dict[Value, None] = {}
    for stuck_at, value, done, _ in seen:
        if stuck_at != at:
            continue
        held = [value]
        held += [
            after
            for _, bit, kind, _, after, _ in plan.returns[at]
            if kind == WRITE and not done & bit
        ]
        held += [after for after, alike in plan.writes_of.items() if _unused(alike, at, done)]
        for expected in held:  # grows while we go
            for after, alike in plan.cas_from.get(expected, {}).items():
                if after not in held and _unused(alike, at, done):
                    held.append(after)
        values.update(dict.fromkeys(held))
    return tuple(values)
