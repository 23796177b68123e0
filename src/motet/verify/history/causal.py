"""Does every session see causes before their effects?

Functions: ``read`` or ``get`` answers the value of a key, ``None`` if there is none; ``write`` or ``put``
takes a value, which nobody else writes under that key. A *session* is a process, and those that went on for
it: ``c1``, ``c1+1``, ``c1+2`` are one. What a session did is before what it does next, and a write is before
whoever reads it; that is the *causal order*, and with values that differ it is known from the answers alone.
Real time is not asked for, so a read may be old. What must not be (Bouajjani, Enea, Guerraoui, Hamza, 2017):

``phantom``     a read answers what nobody wrote, or not yet
``cyclic``      something is its own cause
``forgotten``   a read answers nothing, though a write of its key is among its causes
``overwritten`` a read answers a value that another had replaced among the read's own causes
``diverged``    no one order of the writes of each key fits what all sessions saw

Without the last one it is causal consistency; with it, causal convergence: all agree who wrote last. Each is
looked for in polynomial time, and there is no budget. An operation of unknown outcome is not before what its
session did next, for it may happen later than that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

from motet.errors import BadHistory
from motet.verify.history.operation import Operation, Value, show
from motet.verify.history.record import History, Verdict, Witness

circle_starts_max = 64
"""Operations of a circle that a shorter one is looked for from."""

READS, WRITES = ("read", "get"), ("write", "put")

Chain: TypeAlias = tuple[str, int]
"""A session with -1, or one operation of it whose outcome is unknown with its number."""

Past: TypeAlias = dict[Chain, int]
"""For each chain, up to where it is among the causes."""


def session_of(process: str) -> str:
    """Whoever goes on for a process is of its session."""
    return process.partition("+")[0]


def check_causal(history: History, *, convergent: bool = True) -> Verdict:
    """Check the history of a store whose keys were all absent at first."""
    count = len(history)
    operations = [op for op in history.operations if _happened(op)]
    written: dict[tuple[Value, Value], Operation] = {}
    for op in operations:
        if op.function in WRITES:
            if (op.key, op.value) in written or op.value is None:
                reason = (
                    f"{show(op.value)} is written twice under {show(op.key)}, or stands for nothing"
                )
                return Verdict("unknown", count, count, reason=reason)
            written[op.key, op.value] = op
    witness = _thin_air(operations, written) or _Causes(operations, written).fault(
        convergent=convergent
    )
    return Verdict("ok" if witness is None else "violated", count, count, witness=witness)


def _happened(op: Operation) -> bool:
    if op.function not in READS + WRITES:
        raise BadHistory(
            f"this checker does not know the function {op.function!r}",
            hint="it knows read and write, or get and put",
        )
    return op.outcome == "ok" or (op.outcome == "unknown" and op.function in WRITES)


def _thin_air(
    operations: Sequence[Operation], written: dict[tuple[Value, Value], Operation]
) -> Witness | None:
    for read in operations:
        if read.function not in READS or read.result is None:
            continue
        write = written.get((read.key, read.result))
        if write is None:
            return _witness("phantom", f"{_name(read)} answered {show(read.result)}", [read])
        if read.ended < write.began:
            sentence = f"{_name(read)} answered {show(read.result)} before {_name(write)} began"
            return _witness("phantom", sentence, [read, write])
    return None


class _Causes:
    """The causal order: chains, one per session, and one for each write of unknown outcome."""

    def __init__(
        self, operations: Sequence[Operation], written: dict[tuple[Value, Value], Operation]
    ) -> None:
        self._operations = operations
        #: the write that each read answered
        self._source = {
            op.id: written.get((op.key, op.result)) for op in operations if op.function in READS
        }
        #: where each operation is: its chain, and its place there
        self._place: dict[int, tuple[Chain, int]] = {}
        #: chain -> key -> the writes of it, by their places
        self._writes: dict[Chain, dict[Value, list[tuple[int, Operation]]]] = {}
        #: what comes directly before each operation
        self._before: dict[int, list[Operation]] = {}
        self._by_id = {int(op.id): op for op in operations}
        self._past: dict[int, Past] = {}
        self._chain()

    def _chain(self) -> None:
        last: dict[str, Operation] = {}
        length: dict[Chain, int] = {}
        for op in self._operations:
            session = session_of(op.process)
            before = [last[session]] if session in last else []
            source = self._source.get(op.id)
            self._before[op.id] = before if source is None else [*before, source]
            chain = session, -1 if op.outcome == "ok" else int(op.id)
            self._place[op.id] = chain, length.setdefault(chain, 0)
            if op.function in WRITES:
                writes = self._writes.setdefault(chain, {}).setdefault(op.key, [])
                writes.append((length[chain], op))
            length[chain] += 1
            if op.outcome == "ok":
                last[session] = op

    def fault(self, *, convergent: bool) -> Witness | None:
        edges = {number: [int(op.id) for op in before] for number, before in self._before.items()}
        order = _in_order(edges)
        if len(order) < len(edges):
            return self._cycle("cyclic", edges, "each of these is a cause of the next")
        for number in order:
            self._past[number] = self._past_of(number)
        for op in self._operations:
            if op.function in READS:
                witness = self._out_of_date(op)
                if witness is not None:
                    return witness
        return self._diverged(edges) if convergent else None

    def _past_of(self, number: int) -> Past:
        past: Past = {}
        for before in self._before[number]:
            chain, place = self._place[before.id]
            for other, reached in [*self._past[before.id].items(), (chain, place)]:
                if past.get(other, -1) < reached:
                    past[other] = reached
        return past

    def _latest_causes(self, read: Operation) -> list[Operation]:
        """The last write of its key in each chain, among the causes of a read."""
        found: list[Operation] = []
        for chain, reached in self._past[read.id].items():
            writes = self._writes.get(chain, {}).get(read.key, ())
            last = [op for place, op in writes if place <= reached][-1:]
            found += last
        return found

    def _is_before(self, one: Operation, other: Operation) -> bool:
        chain, place = self._place[one.id]
        return self._past[other.id].get(chain, -1) >= place

    def _out_of_date(self, read: Operation) -> Witness | None:
        source = self._source[read.id]
        for write in self._latest_causes(read):
            if source is None:
                sentence = f"{_name(read)} answered nothing, though {_name(write)} is a cause of it"
                return _witness("forgotten", sentence, self._way(write, read))
            if write is not source and self._is_before(source, write):
                sentence = (
                    f"{_name(read)} answered {show(read.result)}, though {_name(write)} replaced "
                    f"it, and is a cause of this read"
                )
                shown = [*self._way(source, write), *self._way(write, read)]
                return _witness("overwritten", sentence, shown)
        return None

    def _diverged(self, causes: dict[int, list[int]]) -> Witness | None:
        """Who read a value while knowing of another write puts that write before this one."""
        edges = {number: list(before) for number, before in causes.items()}
        for read in self._operations:
            source = self._source.get(read.id)
            if source is not None:
                edges[source.id] += [
                    write.id for write in self._latest_causes(read) if write is not source
                ]
        if len(_in_order(edges)) == len(edges):
            return None
        return self._cycle("diverged", edges, "each has to come before the next, in a circle")

    def _way(self, start: Operation, end: Operation) -> list[Operation]:
        """A shortest chain of causes from one to the other."""
        reached: dict[int, int | None] = {end.id: None}
        queue = deque([end.id])
        while queue:
            number = queue.popleft()
            if number == start.id:
                break
            for before in self._before[number]:
                if before.id not in reached:
                    reached[before.id] = number
                    queue.append(before.id)
        way: list[Operation] = []
        at: int | None = start.id
        while at is not None:
            way.append(self._by_id[at])
            at = reached[at]
        return way

    def _cycle(self, fault: str, edges: dict[int, list[int]], sentence: str) -> Witness:
        circle = [self._by_id[number] for number in _shortest_cycle(edges)]
        names = ", ".join(f"{_name(op)} ({op.answer})" for op in circle)
        return _witness(fault, f"{names}: {sentence}", circle)


def _in_order(edges: dict[int, list[int]]) -> list[int]:
    """All operations, each after those before it; fewer if there is a circle."""
    waits = {number: len(before) for number, before in edges.items()}
    after: dict[int, list[int]] = {number: [] for number in edges}
    for number, before in edges.items():
        for each in before:
            after[each].append(number)
    ready = [number for number, count in waits.items() if not count]
    for number in ready:  # grows while we go
        for each in after[number]:
            waits[each] -= 1
            if not waits[each]:
                ready.append(each)
    return ready


def _shortest_cycle(edges: dict[int, list[int]]) -> list[int]:
    """A circle, each before the next: the shortest through any operation of one that is found."""
    best: list[int] = []
    for start in _some_cycle(edges):
        reached: dict[int, int] = {}
        queue = deque([start])
        while queue and start not in reached:
            number = queue.popleft()
            for before in edges[number]:
                if before not in reached:
                    reached[before] = number
                    queue.append(before)
        if start in reached:
            circle = [start]
            while reached[circle[-1]] != start:
                circle.append(reached[circle[-1]])
            if not best or len(circle) < len(best):
                best = circle
    return best


def _some_cycle(edges: dict[int, list[int]]) -> list[int]:
    """Who waits for ever waits for somebody who does: back along those one comes round."""
    ordered = set(_in_order(edges))
    at = next(number for number in edges if number not in ordered)
    way: list[int] = []
    while at not in way:
        way.append(at)
        at = next(before for before in edges[at] if before not in ordered)
    return way[way.index(at) :][:circle_starts_max]


def _witness(fault: str, sentence: str, operations: Sequence[Operation]) -> Witness:
    shown = tuple(sorted(dict.fromkeys(operations), key=lambda op: op.began))
    return Witness(fault=fault, sentence=sentence, operations=shown)


def _name(op: Operation) -> str:
    return f"{op.process}'s {op.call}"
