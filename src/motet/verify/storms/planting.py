"""Machines with something else in the place of a rule.

A planted function takes the place of a real one for as long as the machine takes a step.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from motet.core.machine import Effect, Event
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
