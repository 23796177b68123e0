"""A machine that does what a test tells it to, and two of them on a workbench."""

from __future__ import annotations

from typing import Any, Self

import msgspec

from motet.core.fingerprint import clone_plain, fingerprint
from motet.core.machine import (
    Effect,
    Event,
    Message,
    Received,
    Send,
    Started,
    Violation,
    Write,
)
from motet.ids import Address, FileName, WriteId
from motet.testing.workbench import Workbench

LOG = FileName("log")


class Do(Message, frozen=True, tag="do"):
    """Have a puppet do this."""

    effects: tuple[Effect, ...]


class Ping(Message, frozen=True, tag="ping"):
    number: int


class Puppet:
    """A machine that does what it is told and remembers what happened to it."""

    def __init__(self, on_start: tuple[Effect, ...] = ()) -> None:
        self.on_start = on_start
        self.events: list[Event] = []
        self.broken = ""

    def step(self, event: Event) -> list[Effect]:
        self.events.append(event)
        match event:
            case Started():
                return list(self.on_start)
            case Received(message=Do(effects=effects)):
                return list(effects)
            case Received(sender=sender, message=Ping(number=number)) if number > 0:
                return [Send(sender, Ping(number - 1))]
        return []

    def clone(self) -> Self:
        twin = type(self)(self.on_start)
        twin.events, twin.broken = clone_plain(self.events), self.broken
        return twin

    def fingerprint(self) -> bytes:
        return fingerprint(self.events)

    def invariants(self) -> list[Violation]:
        return [Violation("P1", self.broken)] if self.broken else []


class Stage:
    """A bench with two started puppets."""

    def __init__(self, **options: Any) -> None:
        self.bench = Workbench(**options)
        for name in ("n1", "n2"):
            self.bench.add(name, Puppet, wall_ms=1000)
            self.bench.start(name)

    def do(self, *effects: Effect, name: str = "n1") -> list[str]:
        return self.bench.receive(name, "client", Do(effects))[1:]

    def puppet(self, name: str = "n1") -> Puppet:
        machine = self.bench.node(name).machine
        assert isinstance(machine, Puppet)
        return machine

    def happened(self, name: str = "n1") -> list[tuple[Any, ...]]:
        """What the puppet has seen since its start but for its orders, without the time."""
        events = [e for e in self.puppet(name).events[1:] if not _is_order(e)]
        return [(type(e), *msgspec.structs.astuple(e)[1:]) for e in events]


def _is_order(event: Event) -> bool:
    return isinstance(event, Received) and isinstance(event.message, Do)


def write(number: int, data: bytes, offset: int = 0, file: str = "log") -> Write:
    return Write(WriteId(number), FileName(file), offset, data)


def ping(number: int, to: str = "n2", after: int | None = None) -> Send:
    return Send(Address(to), Ping(number), None if after is None else WriteId(after))
