"""Is a register linearizable, if every value is written at most once? In near-linear time.

Functions: ``read`` and ``write``. When no value is written twice, a read names its write, and the
operations of one value stand together in any order that explains the history: the write, then its
reads. What is left is the order of these *clusters*. A cluster has a first end (the earliest end among
its operations) and a last begin (the latest begin).

*Forward zone*, first end before last begin: the register surely held the value all that time.
*Backward zone*, last begin before first end: some moment in that time is enough.

There is an order exactly when no read ends before its write begins, no two forward zones overlap, and
no backward zone lies within a forward one (Gibbons and Korach, Testing Shared Memories, 1997).

A write of unknown outcome never ends, so one that nobody read is never in the way. The initial value
is a write before all others. A value that is written twice, or written although it was the initial one,
is beyond this checker: the verdict is unknown and says so, and ``check_register`` takes such histories.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from motet.errors import BadHistory
from motet.verify.history.operation import Operation, Value, frozen, show
from motet.verify.history.record import History, Verdict, Witness
from motet.verify.history.register import require_one_key

# The witnesses of the unique-value register: which read is wrong, and the operations that show it.


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


_BEFORE_ALL = -1  # end of the initial write; it begins at -2


_Zone: TypeAlias = tuple[int, int]  # (first end, last begin); no two clusters share a first end


class _Clusters(NamedTuple):
    """The operations of every value, summed up."""

    write_began: dict[Value, int]
    first_end: dict[Value, int]
    last_begin: dict[Value, int]


def check_unique_register(history: History, *, initial: object = None) -> Verdict:
    """Check the history of one register whose written values all differ, also from ``initial``."""
    require_one_key(history)
    operations, held = history.operations, frozen(initial)
    count = len(operations)
    clusters = _Clusters({held: -2}, {held: _BEFORE_ALL}, {held: -2})
    twice = _add_writes(operations, clusters)
    if twice is not None:
        reason = f"{show(twice.value)} is written twice, or was there at first; use check_register"
        return Verdict("unknown", count, count, reason=reason)
    witness = _add_reads(operations, clusters) or _misplaced(operations, clusters)
    return Verdict("ok" if witness is None else "violated", count, count, witness=witness)


def _add_writes(operations: Sequence[Operation], clusters: _Clusters) -> Operation | None:
    """Begin a cluster for every write. Gives the first whose value is not its own."""
    write_began, first_end, last_begin = clusters
    for op in operations:
        _, _, function, _, value, outcome, _, began, ended, _, _ = op
        if function == "write":
            if outcome != "failed":
                if value in write_began:
                    return op
                write_began[value] = last_begin[value] = began
                first_end[value] = ended
        elif function != "read":
            raise BadHistory(
                f"this checker does not know the function {function!r}",
                hint="it knows read and write; check_register also knows cas",
            )
    return None


def _add_reads(operations: Sequence[Operation], clusters: _Clusters) -> Witness | None:
    """Put every read that was answered into the cluster of its value."""
    write_began, first_end, last_begin = clusters
    for op in operations:
        _, _, function, _, _, outcome, value, began, ended, _, _ = op
        if function == "read" and outcome == "ok":
            if value not in write_began:
                return read_of_unwritten(operations, op)
            if ended < first_end[value]:
                first_end[value] = ended
                if ended < write_began[value]:
                    return read_before_write(operations, op)
            if began > last_begin[value]:
                last_begin[value] = began
    return None


def _misplaced(operations: Sequence[Operation], clusters: _Clusters) -> Witness | None:
    """Look for two clusters each of which would have to come before the other."""
    _, first_end, last_begin = clusters
    forward: list[_Zone] = []
    backward: list[_Zone] = []
    for value, end in first_end.items():
        begin = last_begin[value]
        if end < begin:
            forward.append((end, begin))
        else:
            backward.append((end, begin))
    forward.sort()
    starts = [end for end, _ in forward]
    for earlier, later in pairwise(forward):
        if later[0] < earlier[1]:
            return _clash(operations, clusters, earlier, later)
    for zone in backward:
        place = bisect(starts, zone[1])
        if place and zone[0] < forward[place - 1][1]:
            return _clash(operations, clusters, forward[place - 1], zone)
    return None


def _clash(
    operations: Sequence[Operation], clusters: _Clusters, one: _Zone, other: _Zone
) -> Witness:
    """Blame the value whose last read began last: it came back after the other had replaced it."""
    values = {end: value for value, end in clusters.first_end.items()}
    stale, newer = (one, other) if one[1] > other[1] else (other, one)
    return came_back(operations, values[stale[0]], values[newer[0]])
