"""How fast the simulated world turns: steps per second on a machine with two messages.

Two nodes play ping-pong with eight balls, without faults, with and without a trace. The figure to
reach is 100,000 steps per second and core; the raw limit beside it is the bare agenda: a heap that is
pushed and popped as often, with nothing happening.

    python bench/simulated_steps.py [--quick] [--json]
"""

from __future__ import annotations

import argparse
import heapq
import json
import time

from motet.core.machine import Effect, Event, Message, Received, Send, Started, Violation
from motet.ids import Address
from motet.sim.faults import PROFILES, Faults
from motet.sim.trace import Trace
from motet.sim.world import World

REQUIRED_STEPS_PER_S = 100_000
BALLS = 8


class Ping(Message, frozen=True, tag="ping"):
    """There."""

    number: int


class Pong(Message, frozen=True, tag="pong"):
    """And back."""

    number: int


class Player:
    """The two-message machine."""

    def __init__(self, serve_to: Address | None) -> None:
        self._serve_to = serve_to

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Received):
            message = event.message
            if isinstance(message, Ping):
                return [Send(event.sender, Pong(message.number))]
            assert isinstance(message, Pong)
            return [Send(event.sender, Ping(message.number + 1))]
        if isinstance(event, Started) and self._serve_to is not None:
            return [Send(self._serve_to, Ping(ball)) for ball in range(BALLS)]
        return []

    def invariants(self) -> list[Violation]:
        return []


def play(virtual_ms: int, faults: Faults, trace: Trace | None) -> float:
    """Steps per CPU second."""
    world = World(1, faults, trace)
    left, right = world.add_node("left"), world.add_node("right")
    world.host(left, "player", lambda: Player(right.address))
    world.host(right, "player", lambda: Player(None))
    world.start(left)
    world.start(right)
    began = time.process_time()
    world.run(virtual_ms)
    return world.events / (time.process_time() - began)


def bare_agenda(entries: int) -> float:
    agenda: list[tuple[int, int]] = [(ball, ball) for ball in range(BALLS)]
    heapq.heapify(agenda)
    began = time.process_time()
    for number in range(entries):
        at, _ = heapq.heappop(agenda)
        heapq.heappush(agenda, (at + BALLS, number))
    return entries / (time.process_time() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rounds, virtual_ms = (2, 1_000) if options.quick else (5, 4_000)
    calm = PROFILES["none"]
    figures = {
        "steps_per_s": max(play(virtual_ms, calm, None) for _ in range(rounds)),
        "traced_steps_per_s": max(play(virtual_ms, calm, Trace(100)) for _ in range(rounds)),
        "bare_agenda_per_s": max(bare_agenda(200_000) for _ in range(rounds)),
    }
    figures["ratio_to_required"] = figures["steps_per_s"] / REQUIRED_STEPS_PER_S
    figures["ratio_to_bare_agenda"] = figures["steps_per_s"] / figures["bare_agenda_per_s"]
    if options.json:
        print(json.dumps({"bench": "simulated_steps", **figures}))
        return
    for name, figure in figures.items():
        print(f"{name:<24} {figure:>14,.2f}")


if __name__ == "__main__":
    main()
