"""How many ticks a second the clock hands out, against a bare counter in the same run.

The wall moves on by a millisecond every 1,000 ticks, and a bound that is asked for is durable at once:
what is measured is the clock, not a disk. The bare counter is the raw limit, one attribute of one object
counted up in a method; ``hlc.tick`` is the arithmetic without durability; the reservation is what other
cores embed; the machine takes a request in and gives an answer out.

    python bench/clock_ticks.py [--quick] [--json]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

from motet.core.clock import hlc
from motet.core.clock.messages import (
    Tick,
)
from motet.core.clock.node_clock import NodeClock
from motet.core.clock.reservation import Reservation
from motet.core.machine import (
    NS_PER_MS,
    Now,
    Read,
    ReadBack,
    Received,
    Replace,
    Send,
    Started,
    Written,
)
from motet.ids import Address, NodeId, RequestId

TICKS_PER_MS = 1_000
START_MS = 1_763_233_000_000


class Counter:
    """The bare counter."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0

    def tick(self) -> int:
        self.value += 1
        return self.value


def count(milliseconds: int) -> float:
    counter = Counter()
    began = time.perf_counter()
    for _ in range(milliseconds):
        for _ in range(TICKS_PER_MS):
            counter.tick()
    seconds = time.perf_counter() - began
    assert counter.value == milliseconds * TICKS_PER_MS
    return seconds


def tick_bare_clock(milliseconds: int) -> float:
    clock = hlc.at_wall(START_MS)
    began = time.perf_counter()
    for wall_ms in range(START_MS, START_MS + milliseconds):
        for _ in range(TICKS_PER_MS):
            clock = hlc.tick(clock, wall_ms)
    return time.perf_counter() - began


def tick_reservation(milliseconds: int) -> float:
    clock = Reservation.recover(None, START_MS)
    clock.tick(START_MS)
    began = time.perf_counter()
    for wall_ms in range(START_MS, START_MS + milliseconds):
        for _ in range(TICKS_PER_MS):
            clock.tick(wall_ms)
            if clock.wants_bound and clock.next_bound(wall_ms) is not None:
                clock.bound_written(wall_ms)
    seconds = time.perf_counter() - began
    assert clock.last.logical == START_MS + milliseconds - 1, "ticks had to wait"
    return seconds


def tick_machine(milliseconds: int) -> float:
    node, client, request = NodeClock(NodeId("n1")), Address("client-1"), Tick(RequestId(1))
    now = Now(0, START_MS * NS_PER_MS)
    (read,) = node.step(Started(now, nonce=1))
    assert isinstance(read, Read)
    node.step(ReadBack(now, read.id, b""))
    answers = 0
    began = time.perf_counter()
    for wall_ms in range(START_MS, START_MS + milliseconds):
        event = Received(Now(0, wall_ms * NS_PER_MS), client, request)
        for _ in range(TICKS_PER_MS):
            for effect in node.step(event):
                if isinstance(effect, Send):
                    answers += 1
                elif isinstance(effect, Replace):
                    answers += len(node.step(Written(event.now, effect.id)))
    seconds = time.perf_counter() - began
    assert answers == milliseconds * TICKS_PER_MS
    return seconds


SUBJECTS: dict[str, Callable[[int], float]] = {
    "bare counter": count,
    "hlc.tick": tick_bare_clock,
    "reservation": tick_reservation,
    "machine": tick_machine,
}


def measure(rounds: int, milliseconds: int) -> dict[str, float]:
    """Ticks per second, the best of several rounds in which the subjects take turns."""
    best = dict.fromkeys(SUBJECTS, float("inf"))
    for _ in range(rounds):
        for name, subject in SUBJECTS.items():
            best[name] = min(best[name], subject(milliseconds))
    return {name: milliseconds * TICKS_PER_MS / seconds for name, seconds in best.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    figures = measure(rounds=3, milliseconds=50) if options.quick else measure(9, 300)
    bare = figures["bare counter"]
    if options.json:
        rows = {
            name: {"ticks_per_s": round(ticks), "of_bare_counter": round(ticks / bare, 3)}
            for name, ticks in figures.items()
        }
        print(json.dumps({"bench": "clock_ticks", "results": rows}))
        return
    print(f"{'':14} {'ticks/s':>12} {'ns each':>8} {'of bare':>8}")
    for name, ticks in figures.items():
        print(f"{name:14} {ticks:12,.0f} {1e9 / ticks:8,.0f} {ticks / bare:8.0%}")


if __name__ == "__main__":
    main()
