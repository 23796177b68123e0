"""A checker that is slow and obviously right: it tries every order that real time allows."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from motet.verify.history.operation import Operation, Value

State = Value | frozenset[Value]
T = TypeVar("T")


def linearizable(operations: Sequence[Operation], initial: State) -> bool:
    """Whether some order explains every answer. Failed operations did not happen."""
    happened = tuple(op for op in operations if op.outcome != "failed")
    return _explained(happened, initial)


def _explained(remaining: tuple[Operation, ...], state: State) -> bool:
    if all(op.outcome == "unknown" for op in remaining):
        return True  # none of them need ever happen
    first_end = min(op.ended for op in remaining)
    for op in remaining:
        if first_end < op.began:
            continue  # somebody else ended before this one began, and has to come first
        others = tuple(other for other in remaining if other is not op)
        state_after, result = apply(op.function, op.value, state)
        possible = op.outcome == "unknown" or _same_answer(op, result)
        if possible and _explained(others, state_after):
            return True
    return False


def apply(function: str, value: Value, state: State) -> tuple[State, State]:
    """The state after an operation, and what it has to answer."""
    if function in ("enqueue", "dequeue"):
        return _apply_to_queue(function, value, state)
    if function == "transfer":
        return _apply_to_bank(value, state)
    if function in ("read", "get"):
        return state, state
    if function in ("write", "put"):
        return value, None
    if function == "delete":
        return None, None
    if function == "add":
        assert isinstance(state, frozenset)
        return state | {value}, None
    assert function == "cas"
    assert isinstance(value, tuple)
    expected, new = value
    return (new, True) if state == expected else (state, False)


def _apply_to_queue(function: str, value: Value, state: State) -> tuple[State, State]:
    assert isinstance(state, tuple)
    if function == "enqueue":
        return (*state, value), None
    return state[1:], state[0] if state else None


def _apply_to_bank(value: Value, state: State) -> tuple[State, State]:
    assert isinstance(state, tuple)
    assert isinstance(value, tuple)
    match value:
        case (source, target, int(amount)):
            balances = dict(_pairs(state))
            if balances[source] < amount:
                return state, False
            balances[source] -= amount
            balances[target] += amount
            return tuple(balances.items()), True
    raise AssertionError(value)


def _pairs(state: tuple[Value, ...]) -> list[tuple[Value, int]]:
    pairs = []
    for item in state:
        match item:
            case (account, int(balance)):
                pairs.append((account, balance))
    return pairs


def _same_answer(op: Operation, result: State) -> bool:
    if isinstance(result, frozenset):
        assert isinstance(op.result, tuple)
        return len(op.result) == len(result) and frozenset(op.result) == result
    silent = op.function not in ("read", "get", "cas", "dequeue", "transfer")
    return silent or op.result == result


def possible_orders(
    operations: Sequence[Operation],
    initial: T,
    apply: Callable[[Operation, T], tuple[T, Value]],
) -> bool:
    """The same for any object: whether some order of its operations explains every answer."""

    def explained(remaining: tuple[Operation, ...], state: T) -> bool:
        if all(op.outcome == "unknown" for op in remaining):
            return True
        first_end = min(op.ended for op in remaining)
        for op in remaining:
            if op.began < first_end or op.ended == first_end:
                after, answer = apply(op, state)
                others = tuple(other for other in remaining if other is not op)
                fits = op.outcome == "unknown" or op.result == answer
                if fits and explained(others, after):
                    return True
        return False

    return explained(tuple(op for op in operations if op.outcome != "failed"), initial)
