"""A database with planted bugs: the real machine, asked for something else than what it was asked for."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from motet.core.machine import Effect, Event, Received, Violation, Write
from motet.core.onelog.machine import StreamsMachine
from motet.core.onelog.messages import Commit
from motet.core.tables.messages import Publish
from motet.core.tables.plan import Ahead
from motet.core.tables.records import WriterStep
from motet.ids import RequestId, WriterName
from motet.sim.host import Stepper
from motet.verify.plants import kind_of
from motet.verify.storms.hurried import Hurried

SEGMENT_BYTES = 8192
TAIL_BYTES = 2048
"""Readers that lag find nothing in memory."""

HURRIES = "ack-before-durable"
"""A record counts as durable as soon as its write has begun."""

HALF = RequestId(-1)
"""The second half has a number that no client has asked under, so that its answer is ignored."""


def _machine() -> StreamsMachine:
    return StreamsMachine(SEGMENT_BYTES, TAIL_BYTES)


def factory(plant: str | None) -> Callable[[], Stepper]:
    """What makes the machine of each incarnation."""
    if plant == HURRIES:
        return lambda: Hurried(_machine(), Write)
    if plant is None:
        return _machine
    kind = kind_of("database", plant, Blind)
    return lambda: kind(_machine())


class Blind:
    """A transaction is applied even if what it read has changed since."""

    def __init__(self, machine: StreamsMachine) -> None:
        self.machine = machine

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Received) and isinstance(event.message, Commit):
            unread = msgspec.structs.replace(event.message, reads=())
            event = Received(event.now, event.sender, unread)
        return self.machine.step(event)

    def invariants(self) -> list[Violation]:
        return self.machine.invariants()


class Forgets(Blind):
    """A step of an ordered writer passes for the next one, wherever it begins and whatever its epoch."""

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Received) and isinstance(event.message, Publish):
            passing = msgspec.structs.replace(event.message, step=self._next(event.message.step))
            event = Received(event.now, event.sender, passing)
        return self.machine.step(event)

    def _next(self, step: WriterStep | None) -> WriterStep | None:
        machine = self.machine
        if step is None:
            return None
        last = Ahead(machine.index.catalog, machine.state.overlay.tables).last_step(
            WriterName(step.writer)
        )
        if last is None or step.through <= last[0].through:
            return step
        epoch, after = last[0].epoch + 1, last[0].through
        return msgspec.structs.replace(step, epoch=epoch, after=after)


class Halves(Blind):
    """What is published together for two tables is published for one, and then for the other."""

    def step(self, event: Event) -> list[Effect]:
        if not isinstance(event, Received) or not isinstance(event.message, Publish):
            return self.machine.step(event)
        message = event.message
        first = tuple(part for part in message.parts if part.table == message.parts[0].table)
        rest = tuple(part for part in message.parts if part not in first)
        pending = self.machine.state.overlay.tables
        before = len(pending)
        effects = self._asked(event, msgspec.structs.replace(message, parts=first))
        if rest and len(pending) > before:
            effects += self._asked(event, Publish(HALF, rest))
        return effects

    def _asked(self, event: Received, message: Publish) -> list[Effect]:
        return self.machine.step(Received(event.now, event.sender, message))


class Drops(Blind):
    """Files go with the latest changes of keys in them."""

    def step(self, event: Event) -> list[Effect]:
        effects = self.machine.step(event)
        if self.machine.state.clearing is not None:
            self.machine.state.clearing.holding.clear()
        return effects
