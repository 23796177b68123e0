"""Is a first-in first-out queue linearizable?

Functions: ``enqueue`` takes a value (its answer says nothing), ``dequeue`` answers the value it took, or
``None`` if the queue was empty.

Where no value is enqueued twice, four faults are looked for first, in n log n, and have names of their own:

``phantom``    a dequeue answers what nobody enqueued, or not yet
``doubled``    a value is dequeued twice
``reordered``  a was surely enqueued before b, and b was surely dequeued before a
``missed``     a dequeue found nothing, though a value was surely there all the time

What has none of these is decided by a search, which has a budget.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import accumulate

from motet.errors import BadHistory
from motet.verify.history.operation import FOREVER, Operation, Value, show
from motet.verify.history.record import History, Verdict, Witness, budget_steps_default
from motet.verify.history.register import require_one_key
from motet.verify.history.sequential import check_sequential


def check_queue(history: History, *, budget_steps: int = budget_steps_default) -> Verdict:
    """Check the history of one queue that was empty at first."""
    require_one_key(history)
    operations = history.operations
    for op in operations:
        _require_known(op)
    writes = [op for op in operations if op.function == "enqueue" and op.outcome != "failed"]
    reads = [op for op in operations if op.function == "dequeue" and op.outcome == "ok"]
    witness = _never_enqueued(operations, reads)
    if witness is None and len({op.value for op in writes}) == len(writes):
        witness = _Unique(operations, writes, reads).fault()
    if witness is not None:
        return Verdict("violated", len(history), len(history), witness=witness)
    return check_sequential(operations, Queue(writes, reads), budget_steps)


def _require_known(op: Operation) -> None:
    if op.function not in ("enqueue", "dequeue"):
        raise BadHistory(
            f"this checker does not know the function {op.function!r}",
            hint="it knows enqueue and dequeue",
        )
    if op.function == "enqueue" and op.value is None:
        raise BadHistory(f"{op.process} enqueued nothing", hint="None stands for an empty queue")


class Queue:
    """A queue; a state is the tuple of what is in it, the oldest first.

    What nobody saw needs no enqueue of unknown outcome: it could only be in the way. And where no value is
    enqueued twice, a dequeue of unknown outcome has not taken what another one is known to have taken.
    """

    def __init__(self, writes: Sequence[Operation], reads: Sequence[Operation]) -> None:
        taken = {read.result: read for read in reversed(reads)}
        self._taken = taken
        self._is_unique = len({op.value for op in writes}) == len(writes)
        #: enqueues are tried in an order in which their values may have gone through
        self._ranks = {value: rank for rank, value in enumerate(_likely_order(writes, taken))}

    def initial(self) -> Hashable:
        return ()

    def after(self, operation: Operation, state: Hashable) -> Hashable | None:
        assert isinstance(state, tuple)
        is_unknown = operation.outcome == "unknown"
        if operation.function == "enqueue":
            is_useless = is_unknown and operation.value not in self._taken
            return None if is_useless else (*state, operation.value)
        head = state[0] if state else None
        if is_unknown:
            return None if self._is_unique and head in self._taken else state[1:]
        return state[1:] if operation.result == head else None

    def only_looks(self, operation: Operation) -> bool:
        is_read = operation.function == "dequeue"
        return is_read and operation.outcome == "ok" and operation.result is None

    def rank(self, operation: Operation) -> int:
        if operation.function == "dequeue":
            return -1 if operation.outcome == "ok" or self._is_unique else FOREVER + 1
        return self._ranks.get(operation.value, FOREVER)

    def shown(self, state: Hashable) -> str:
        assert isinstance(state, tuple)
        return show(state) if state else "an empty queue"


def _likely_order(writes: Sequence[Operation], taken: Mapping[Value, Operation]) -> list[Value]:
    """Values in an order that real time allows for their enqueues as well as for their dequeues.

    One after the other, always the one that was taken out first among those that nobody has to precede.
    """
    coming = deque(writes)  # by their begins
    entered: list[
        tuple[int, int]
    ] = []  # (begin of the dequeue, number): nobody has to enter before
    free: list[tuple[int, int]] = []  # (end of the dequeue, number): nor to leave
    out = {op.id: _times_out(taken.get(op.value)) for op in writes}
    first_in = sorted((op.ended, op.id) for op in writes)
    first_out = sorted((out[op.id][1], op.id) for op in writes)
    by_id = {int(op.id): op for op in writes}
    done: dict[int, Value] = {}
    while len(done) < len(writes):
        for ends in (first_in, first_out):
            while ends[0][1] in done:
                heappop(ends)
        while coming and coming[0].began <= first_in[0][0]:
            op = coming.popleft()
            heappush(entered, (out[op.id][0], op.id))
        while entered and entered[0][0] <= first_out[0][0]:
            number = heappop(entered)[1]
            heappush(free, (out[by_id[number].id][1], number))
        if not free:
            return []  # real time contradicts itself: any order will do
        number = heappop(free)[1]
        done[number] = by_id[number].value
    return list(done.values())


def _times_out(read: Operation | None) -> tuple[int, int]:
    return (-1, FOREVER) if read is None else (read.began, read.ended)


def _never_enqueued(operations: Sequence[Operation], reads: Sequence[Operation]) -> Witness | None:
    begun: dict[Value, Operation] = {}
    for op in operations:
        if op.function == "enqueue" and op.outcome != "failed":
            begun.setdefault(op.value, op)
    for read in reads:
        if read.result is None:
            continue
        write = begun.get(read.result)
        if write is None:
            sentence = f"{_name(read)} took {show(read.result)}, which nobody enqueued"
            return _witness("phantom", sentence, read)
        if read.ended < write.began:
            sentence = f"{_name(read)} took {show(read.result)} before {_name(write)} began"
            return _witness("phantom", sentence, read, write)
    return None


class _Unique:
    """The faults of a history in which no value is enqueued twice."""

    def __init__(
        self,
        operations: Sequence[Operation],
        writes: Sequence[Operation],
        reads: Sequence[Operation],
    ) -> None:
        self._reads = reads
        self._write = {op.value: op for op in writes}
        self._read: dict[Value, Operation] = {}
        #: from when on somebody may have taken anything without ever saying so
        self._unseen = min(
            (op.began for op in operations if op.function == "dequeue" and op.outcome == "unknown"),
            default=FOREVER,
        )

    def fault(self) -> Witness | None:
        return self._doubled() or self._out_of_order()

    def _doubled(self) -> Witness | None:
        for read in self._reads:
            if read.result is None:
                continue
            first = self._read.setdefault(read.result, read)
            if first is not read:
                sentence = f"{_name(first)} and {_name(read)} both took {show(read.result)}"
                return _witness("doubled", sentence, first, read, self._write[read.result])
        return None

    def _leaves(self, write: Operation) -> int:
        """Until when its value was surely in the queue, once it was."""
        read = self._read.get(write.value)
        return self._unseen if read is None else read.began

    def _out_of_order(self) -> Witness | None:
        """A value that entered before something and left after it."""
        writes = sorted(self._write.values(), key=lambda op: op.ended)
        ended = [op.ended for op in writes]
        latest = list(accumulate(range(len(writes)), lambda a, b: self._later(writes, a, b)))
        for read in self._reads:
            entered = read.began if read.result is None else self._write[read.result].began
            before = bisect_left(ended, entered)
            if not before:
                continue
            stayed = writes[latest[before - 1]]
            if read.ended < self._leaves(stayed):
                return self._stayed(stayed, read)
        return None

    def _later(self, writes: Sequence[Operation], one: int, other: int) -> int:
        return one if self._leaves(writes[one]) >= self._leaves(writes[other]) else other

    def _stayed(self, stayed: Operation, read: Operation) -> Witness:
        taken = self._read.get(stayed.value)
        still = "and nobody took it" if taken is None else f"and {_name(taken)} took it later"
        rest = [] if taken is None else [taken]
        if read.result is None:
            sentence = f"{_name(read)} found nothing, but {_name(stayed)} had ended, {still}"
            return _witness("missed", sentence, read, stayed, *rest)
        overtook = self._write[read.result]
        sentence = (
            f"{_name(read)} took {show(read.result)}, but {_name(stayed)} had ended before "
            f"{_name(overtook)} began, {still}"
        )
        return _witness("reordered", sentence, read, stayed, overtook, *rest)


def _witness(fault: str, sentence: str, *operations: Operation) -> Witness:
    shown = tuple(sorted(dict.fromkeys(operations), key=lambda op: op.began))
    return Witness(fault=fault, sentence=sentence, operations=shown)


def _name(op: Operation) -> str:
    return f"{op.process}'s {op.call}"
