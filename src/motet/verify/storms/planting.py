"""Machines with something else in the place of a rule.

A planted function takes the place of a real one for as long as the machine takes a step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from motet.core.machine import (
    Effect,
    Event,
    Machine,
    Replace,
    Violation,
    Write,
    WriteFailed,
    Written,
)
from motet.core.streams.node import DataNode


@contextmanager
def instead(owner: object, name: str, planted: object) -> Iterator[None]:
    """For as long as this lasts, a name of a module or class means something else."""
    real = vars(owner)[name]
    _put(owner, name, planted)
    try:
        yield
    finally:
        _put(owner, name, real)


def _put(owner: object, name: str, value: object) -> None:
    """The one place where anything is replaced: tests look here at what is."""
    setattr(owner, name, value)


class Planted(DataNode):
    """A data node with something else in the place of one rule."""

    #: where, under which name, what
    planted: tuple[object, str, object]

    def step(self, event: Event) -> list[Effect]:
        with instead(*self.planted):
            return super().step(event)


class Hurried:
    """The real machine, told ``Written`` at once for some kinds of changes to the disk."""

    def __init__(self, machine: Machine, *kinds: type[Write] | type[Replace]) -> None:
        self._machine = machine
        self._kinds = kinds
        self._told: dict[int, None] = {}

    def step(self, event: Event) -> list[Effect]:
        if isinstance(event, Written | WriteFailed) and event.write in self._told:
            return []  # it has been told already, whatever became of it
        effects: list[Effect] = []
        events: list[Event] = [event]
        for each in events:  # grows while it is walked through
            for effect in self._machine.step(each):
                effects.append(effect)
                if isinstance(effect, self._kinds):
                    self._told[effect.id] = None
                    events.append(Written(event.now, effect.id))
        return effects

    def invariants(self) -> list[Violation]:
        return self._machine.invariants()
