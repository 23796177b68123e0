"""A machine that does what a test tells it, and remembers what it saw."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from motet.core.machine import Effect, Event, Message, Received, Started, Violation
from motet.ids import FileName, TimerName
from motet.sim.host import Host
from motet.sim.world import World

Answer = Callable[[Event], list[Effect]]
E = TypeVar("E", bound=Event)

FILE, OTHER = FileName("file"), FileName("other")
TIMER = TimerName("timer")


class Hello(Message, frozen=True, tag="hello"):
    """Any message."""

    number: int


class Scripted:
    """Answers each event by the test's function."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.seen: list[Event] = []

    def step(self, event: Event) -> list[Effect]:
        self.seen.append(event)
        return self._answer(event)

    def invariants(self) -> list[Violation]:
        return []


def silent(_event: Event) -> list[Effect]:
    return []


def on_start(*effects: Effect) -> Answer:
    return lambda event: list(effects) if isinstance(event, Started) else []


def put(world: World, name: str, answer: Answer = silent, *, start: bool = True) -> Host:
    """A node with one scripted machine."""
    host = world.host(world.add_node(name), "m", lambda: Scripted(answer))
    if start:
        world.start(host.node)
    return host


def seen(host: Host, kind: type[E]) -> list[E]:
    """The events of a kind that the present incarnation saw."""
    return [event for event in all_seen(host) if isinstance(event, kind)]


def all_seen(host: Host) -> list[Event]:
    machine = host.machine
    assert isinstance(machine, Scripted)
    return machine.seen


def heard(host: Host) -> list[int]:
    """The numbers of the messages that arrived, in order."""
    return [e.message.number for e in seen(host, Received) if isinstance(e.message, Hello)]
