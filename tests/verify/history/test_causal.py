"""Causal order against a checker that tries every arbitration of the writes."""

from __future__ import annotations

from itertools import permutations, product
from random import Random

import pytest

from motet.errors import BadHistory
from motet.verify.history import History, Recorder, check_causal
from motet.verify.history.causal import READS, session_of
from motet.verify.history.operation import Operation

Step = tuple[str, str, int | None]
"""(function, key, the value written or read)"""


def sessions(*steps: list[Step]) -> History:
    """One process for each list; every operation is open from the beginning of its turn to the end."""
    recorder = Recorder()
    turns = max(map(len, steps))
    for turn in range(turns):
        begun = []
        for number, own in enumerate(steps):
            if turn < len(own):
                function, key, value = own[turn]
                given = value if function == "write" else None
                begun.append(
                    (recorder.invoke(f"c{number}", function, key, given, at=turn), own[turn])
                )
        for op, (function, _, value) in begun:
            recorder.ok(op, None if function == "write" else value, at=turn)
    return recorder.history()


class Order:
    """The causal order of a small history, as its definition says it."""

    def __init__(self, operations: tuple[Operation, ...]) -> None:
        self.operations = operations
        self.writes = [op for op in operations if op.function == "write"]
        self.before: dict[int, set[int]] = {op.id: set() for op in operations}
        for one in operations:
            for other in operations:
                in_session = session_of(one.process) == session_of(other.process)
                is_read_of = other.function in READS and self.source(other) is one
                if (in_session and one.id < other.id) or is_read_of:
                    self.before[other.id].add(one.id)
        for middle, first, last in product(self.before, repeat=3):  # Warshall
            if first in self.before[middle] and middle in self.before[last]:
                self.before[last].add(first)

    def source(self, read: Operation) -> Operation | None:
        found = [op for op in self.writes if (op.key, op.value) == (read.key, read.result)]
        return found[0] if found else None

    def is_possible(self) -> bool:
        cyclic = any(number in before for number, before in self.before.items())
        reads = [op for op in self.operations if op.function in READS]
        thin = any(op.result is not None and self.source(op) is None for op in reads)
        return not cyclic and not thin

    def explains(self, arbitration: tuple[Operation, ...]) -> bool:
        """Each read answers the last write of its key among its causes, by this one order."""
        place = {op.id: at for at, op in enumerate(arbitration)}
        for one, other in product(arbitration, repeat=2):
            if one.id in self.before[other.id] and place[one.id] > place[other.id]:
                return False
        return all(self.is_last(op, arbitration) for op in self.operations if op.function in READS)

    def is_last(self, read: Operation, arbitration: tuple[Operation, ...]) -> bool:
        causes = [op for op in arbitration if op.key == read.key and op.id in self.before[read.id]]
        return read.result == (causes[-1].value if causes else None)

    def explained_for_each(self) -> bool:
        """Causal consistency: each read by an order of its own."""
        return all(
            any(
                self.respects(order) and self.is_last(read, order)
                for order in permutations(self.writes)
            )
            for read in self.operations
            if read.function in READS
        )

    def respects(self, arbitration: tuple[Operation, ...]) -> bool:
        place = {op.id: at for at, op in enumerate(arbitration)}
        return all(
            place[one.id] < place[other.id]
            for one, other in product(arbitration, repeat=2)
            if one.id in self.before[other.id]
        )


def drawn(random: Random) -> History:
    fresh = iter(range(1, 99))
    steps: list[list[Step]] = []
    written: list[tuple[str, int]] = []
    for _ in range(random.randrange(2, 4)):
        own: list[Step] = []
        for _ in range(random.randrange(1, 4)):
            key = random.choice("xy")
            if random.random() < 0.45 and len(written) < 4:
                own.append(("write", key, next(fresh)))
                written.append((key, own[-1][2] or 0))
            else:
                own.append(("read", key, None))
        steps.append(own)
    filled = [
        [_filled(random, step, written) if step[0] == "read" else step for step in own]
        for own in steps
    ]
    return sessions(*filled)


def _filled(random: Random, step: Step, written: list[tuple[str, int]]) -> Step:
    values = [value for key, value in written if key == step[1]]
    return step[0], step[1], random.choice([None, *values])


def test_the_checker_agrees_with_every_arbitration_tried() -> None:
    seen: dict[tuple[str, str], int] = {}
    for seed in range(1_500):
        history = drawn(Random(seed))
        order = Order(history.operations)
        possible = order.is_possible()
        converges = possible and any(map(order.explains, permutations(order.writes)))
        causal = possible and order.explained_for_each()
        strict, loose = check_causal(history), check_causal(history, convergent=False)
        future = strict.witness is not None and strict.witness.fault == "phantom"
        if future:
            continue  # it read a value of a later turn: real time forbids it, causes alone do not
        assert strict.status == ("ok" if converges else "violated"), f"seed {seed}\n{history}"
        assert loose.status == ("ok" if causal else "violated"), f"seed {seed}\n{history}"
        seen[strict.status, loose.status] = seen.get((strict.status, loose.status), 0) + 1
    assert seen["ok", "ok"] > 50
    assert seen["violated", "violated"] > 50
    assert seen["violated", "ok"] > 0


@pytest.mark.parametrize(
    ("steps", "fault"),
    [
        ([[("read", "x", 7)]], "phantom"),
        ([[("write", "x", 1), ("read", "x", None)]], "forgotten"),
        ([[("write", "x", 1), ("write", "x", 2), ("read", "x", 1)]], "overwritten"),
        (
            [[("read", "x", 1), ("write", "y", 2)], [("read", "y", 2), ("write", "x", 1)]],
            "cyclic",
        ),
        (
            [
                [("write", "x", 1), ("read", "x", 2)],
                [("write", "x", 2), ("read", "x", 1)],
            ],
            "diverged",
        ),
    ],
)
def test_each_fault_has_its_word(steps: list[list[Step]], fault: str) -> None:
    events = sessions(*steps)
    if fault == "cyclic":
        events = together(steps)
    witness = check_causal(events).witness
    assert witness is not None
    assert witness.fault == fault
    assert witness.operations


def together(steps: list[list[Step]]) -> History:
    """Each session begins its second operation while the first of the other is open."""
    recorder = Recorder()
    (read_a, write_a), (read_b, write_b) = steps
    first = recorder.invoke("c0", "read", read_a[1], None, at=0)
    second = recorder.invoke("c1", "read", read_b[1], None, at=0)
    third = recorder.invoke("d0", "write", write_a[1], write_a[2], at=0)
    fourth = recorder.invoke("d1", "write", write_b[1], write_b[2], at=0)
    for op, value in ((first, read_a[2]), (second, read_b[2]), (third, None), (fourth, None)):
        recorder.ok(op, value, at=1)
    operations = recorder.history()
    # the same sessions under one name each: a recorder would not let them overlap
    return _renamed(operations, {"d0": "c0+1", "d1": "c1+1"})


def _renamed(history: History, names: dict[str, str]) -> History:
    from msgspec.structs import replace

    from motet.verify.history.operation import Invoke

    return History(
        replace(event, process=names.get(event.process, event.process))
        if isinstance(event, Invoke)
        else event
        for event in history.events
    )


def test_what_became_of_a_write_is_not_before_what_its_session_did_next() -> None:
    recorder = Recorder()
    lost = recorder.invoke("c1", "write", "x", 1, at=0)
    recorder.unknown(lost, at=1)
    recorder.ok(recorder.invoke("c1+1", "read", "x", None, at=2), None, at=3)
    recorder.ok(recorder.invoke("c2", "read", "x", None, at=4), 1, at=5)
    assert check_causal(recorder.history())


def test_a_value_written_twice_is_beyond_it() -> None:
    history = sessions([("write", "x", 1), ("write", "x", 1)])
    assert check_causal(history).status == "unknown"
    recorder = Recorder()
    recorder.ok(recorder.invoke("c1", "cas", "x", (1, 2), at=0), True, at=1)
    with pytest.raises(BadHistory, match="does not know"):
        check_causal(recorder.history())
