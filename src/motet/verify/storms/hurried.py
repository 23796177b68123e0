"""A planted bug that fits any machine: it takes its writes for durable as soon as they have begun."""

from __future__ import annotations

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
