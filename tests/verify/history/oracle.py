"""A checker that is slow and obviously right: it tries every order that real time allows."""

from collections.abc import Sequence

from motet.verify.history.operation import Operation
from motet.verify.history.values import Value

State = Value | frozenset[Value]


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


def _same_answer(op: Operation, result: State) -> bool:
    if isinstance(result, frozenset):
        assert isinstance(op.result, tuple)
        return len(op.result) == len(result) and frozenset(op.result) == result
    return op.function not in ("read", "get", "cas") or op.result == result
