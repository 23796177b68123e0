"""How many operations a second the history checkers judge, against what is required of them.

Histories are linearizable by construction: a real object takes each operation at a moment within its
interval. Every client begins its next operation when the last has ended, and an operation lasts an
exponentially distributed time, so exactly as many operations are open at once as there are clients. The
rows named "wrong" have one answer changed, and count the time it takes to find the witness too.

The figure is CPU time of one core, the best of some rounds, and of several seeds the slowest; the
verdict is checked.

    python bench/history_checkers.py [--quick] [--json]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from random import Random
from typing import Literal, NamedTuple

from motet.verify.history import (
    History,
    Recorder,
    Verdict,
    check_keyed,
    check_register,
    check_set,
    check_unique_register,
)
from motet.verify.history.operation import OperationId

REGISTER_REQUIRED_PER_S = 100_000
UNIQUE_REQUIRED_PER_S = 500_000


class Call(NamedTuple):
    function: str
    key: str | None
    value: object
    result: object


Client = Callable[[Random], Call]
"""Does one operation on the object it shares with all others, now."""


class Register:
    """Read, write and cas over few values, in equal parts; half of the cas know the value."""

    def __init__(self) -> None:
        self.value: int | None = None

    def __call__(self, random: Random) -> Call:
        function = random.choice(("read", "write", "cas"))
        if function == "read":
            return Call(function, None, None, self.value)
        new = random.randrange(5)
        if function == "write":
            self.value = new
            return Call(function, None, new, None)
        expected = self.value if random.random() < 0.5 else random.randrange(5)
        applied = expected == self.value
        if applied:
            self.value = new
        return Call(function, None, (expected, new), applied)


class Unique:
    """Reads, and writes of a value never written before."""

    def __init__(self) -> None:
        self.value = 0

    def __call__(self, random: Random) -> Call:
        if random.random() < 0.5:
            return Call("read", None, None, self.value or None)
        self.value += 1
        return Call("write", None, self.value, None)


class Store:
    """A hundred keys, each read, written and compared."""

    def __init__(self) -> None:
        self.keys = [Register() for _ in range(100)]

    def __call__(self, random: Random) -> Call:
        place = random.randrange(len(self.keys))
        call = self.keys[place](random)
        function = {"read": "get", "write": "put"}.get(call.function, call.function)
        return call._replace(function=function, key=f"k{place}")


class Set:
    """Adds of fresh elements, and one read in ten."""

    def __init__(self) -> None:
        self.elements: list[int] = []

    def __call__(self, random: Random) -> Call:
        if random.random() < 0.1:
            return Call("read", None, None, tuple(self.elements))
        self.elements.append(len(self.elements))
        return Call("add", None, self.elements[-1], None)


Wrong = Literal["nothing", "stale read", "phantom read"]


def record(client: Client, operations: int, clients: int, random: Random, wrong: Wrong) -> History:
    """Intervals first, then what happens at a moment in each of them, then the recording."""
    free_at = [random.expovariate(1) for _ in range(clients)]
    intervals = []
    for _ in range(operations):
        process = min(range(clients), key=free_at.__getitem__)
        began, free_at[process] = free_at[process], free_at[process] + random.expovariate(1)
        intervals.append((began, free_at[process], process))
    moments = [(random.uniform(began, ended), at) for at, (began, ended, _) in enumerate(intervals)]
    calls = {at: client(random) for _, at in sorted(moments)}
    if wrong != "nothing":
        spoil(calls, wrong)
    ends = [(ended, False, at) for at, (_, ended, _) in enumerate(intervals)]
    begins = [(began, True, at) for at, (began, _, _) in enumerate(intervals)]
    recorder = Recorder()
    opened: dict[int, OperationId] = {}
    for moment, begin, at in sorted(ends + begins):
        call, now = calls[at], int(moment * 1_000_000)
        if begin:
            name = f"c{intervals[at][2]}"
            opened[at] = recorder.invoke(name, call.function, call.key, call.value, now)
        else:
            recorder.ok(opened[at], call.result, now)
    return recorder.history()


def spoil(calls: dict[int, Call], wrong: Wrong) -> None:
    """Give a read near the end the answer of one near the beginning, or one that nobody wrote."""
    reads = [at for at, call in calls.items() if call.function == "read"]
    early, late = reads[len(reads) // 10], reads[-len(reads) // 10]
    result = calls[early].result if wrong == "stale read" else -1
    calls[late] = calls[late]._replace(result=result)


class Row(NamedTuple):
    name: str
    client: Callable[[], Client]
    check: Callable[[History], Verdict]
    operations: int
    clients: int
    wrong: Wrong = "nothing"
    required_per_s: int | None = None


ROWS = [
    Row("register", Register, check_register, 10_000, 5, required_per_s=REGISTER_REQUIRED_PER_S),
    Row("register_wrong", Register, check_register, 10_000, 5, wrong="phantom read"),
    Row("register", Register, check_register, 10_000, 10),
    Row("register", Register, check_register, 1_000, 20),
    Row("keyed_100", Store, check_keyed, 10_000, 20),
    Row("unique", Unique, check_unique_register, 10_000, 5, required_per_s=UNIQUE_REQUIRED_PER_S),
    Row("unique_wrong", Unique, check_unique_register, 10_000, 5, wrong="stale read"),
    Row("unique", Unique, check_unique_register, 10_000, 20),
    Row("set", Set, check_set, 2_000, 5),
    Row("set", Set, check_set, 2_000, 20),
]


def operations_per_s(row: Row, seed: int, rounds: int) -> float:
    history = record(row.client(), row.operations, row.clients, Random(seed), row.wrong)
    best = float("inf")
    for _ in range(rounds):
        began = time.process_time()
        verdict = row.check(history)
        best = min(best, time.process_time() - began)
        expected = "ok" if row.wrong == "nothing" else "violated"
        assert verdict.status == expected, (row.name, seed, str(verdict))
    return row.operations / best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    seeds, rounds = (1, 3) if options.quick else (3, 5)
    figures: dict[str, float] = {}
    for row in ROWS:
        speed = min(operations_per_s(row, seed, rounds) for seed in range(seeds))
        name = f"{row.name}_c{row.clients}"
        figures[f"{name}_operations_per_s"] = round(speed)
        beside = ""
        if row.required_per_s is not None:
            ratio = figures[f"{name}_ratio_to_required"] = speed / row.required_per_s
            beside = f"  {ratio:.1f} x the required {row.required_per_s:,}"
        if not options.json:
            size = f"n={row.operations:<7,} c={row.clients:<3}"
            print(f"{row.name:<16} {size} {speed:>12,.0f} operations/s{beside}")
    if options.json:
        print(json.dumps({"bench": "history_checkers", **figures}))


if __name__ == "__main__":
    main()
