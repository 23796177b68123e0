"""The witnesses of the unique-value register: which read is wrong, and the operations that show it."""

from __future__ import annotations

from collections.abc import Sequence

from motet.verify.history.operation import Operation
from motet.verify.history.values import Value, show
from motet.verify.history.verdict import Witness


def read_of_unwritten(operations: Sequence[Operation], read: Operation) -> Witness:
    """A read answered what was never written, or only by writes that failed."""
    failed = [op for op in operations if op.function == "write" and op.value == read.result]
    why = f"a value that only {_named(failed[0])} wrote" if failed else "a value nobody wrote"
    return Witness(
        fault="phantom",
        sentence=f"{_answered(read)}, {why}",
        operations=_in_order([read, *failed]),
    )


def read_before_write(operations: Sequence[Operation], read: Operation) -> Witness:
    """A read ended before its value was begun to be written."""
    write = next(op for op in _cluster(operations, read.result) if op.function == "write")
    return Witness(
        fault="phantom",
        sentence=f"{_answered(read)} before {_named(write)} began",
        operations=_in_order([read, write]),
    )


def came_back(operations: Sequence[Operation], stale: Value, newer: Value) -> Witness:
    """A value was read again although another one had replaced it."""
    of_stale, of_newer = _cluster(operations, stale), _cluster(operations, newer)
    read = max(of_stale, key=_began)
    newer_ended = min(of_newer, key=_ended)
    shown = [read, newer_ended]
    written = any(op.function == "write" for op in of_stale)
    if written:
        stale_ended, newer_began = min(of_stale, key=_ended), max(of_newer, key=_began)
        shown += [stale_ended, newer_began]
        order = f"{_named(stale_ended)} ended before {_named(newer_began)} began"
    else:
        order = f"{show(stale)} was there at first"
    return Witness(
        fault="stale",
        sentence=(
            f"{_answered(read)}, but {show(newer)} had replaced it: {order}, "
            f"and {_named(newer_ended)} ended before this read began"
        ),
        operations=_in_order(
            [*shown, *(op for op in (*of_stale, *of_newer) if op.function == "write")]
        ),
    )


def _cluster(operations: Sequence[Operation], value: Value) -> list[Operation]:
    return [
        op
        for op in operations
        if (op.function == "write" and op.value == value and op.outcome != "failed")
        or (op.function == "read" and op.result == value and op.outcome == "ok")
    ]


def _in_order(operations: Sequence[Operation]) -> tuple[Operation, ...]:
    return tuple(sorted(set(operations), key=_began))


def _began(op: Operation) -> int:
    return op.began


def _ended(op: Operation) -> int:
    return op.ended


def _named(op: Operation) -> str:
    return f"{op.process}'s {op.call} ({op.answer})"


def _answered(read: Operation) -> str:
    return f"{read.process}'s {read.call} answered {show(read.result)}"
