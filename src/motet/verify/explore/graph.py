"""The graph of an exploration, kept for temporal properties: flat arrays in the order of discovery."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from motet.verify.explore.instances import Label
from motet.verify.model import Model, Record
from motet.verify.model.base import Property

S = TypeVar("S", bound=Record)

ASKED, ANSWERED = 1, 2
"""Bits of a state for one property: it has to become true from here; it is true here."""


class Unit(NamedTuple):
    """What must not be put off for ever: an action, or one instance of it."""

    strong: bool
    labels: frozenset[int]


class Graph(Generic[S]):
    """States by number, with their steps and what each temporal property says of them."""

    def __init__(self, model: Model[S], properties: Sequence[Property]) -> None:
        self.model, self.properties = model, properties
        self.initial: list[int] = []
        self.marks = [bytearray() for _ in properties]
        #: the steps of state i are at positions first[i] to first[i + 1]
        self.first = array("q", [0])
        self.targets = array("q")
        self.labels = array("l")
        self._numbers: dict[Label, int] = {}

    def __len__(self) -> int:
        return len(self.first) - 1

    def add_state(self, state: S, *, is_initial: bool) -> None:
        """The next state, in the order of discovery."""
        if is_initial:
            self.initial.append(len(self.marks[0]))
        for item, marks in zip(self.properties, self.marks, strict=True):
            marks.append(self._mark(item, state, is_initial))

    def _mark(self, item: Property, state: S, is_initial: bool) -> int:
        said = getattr(self.model, item.name)(state)
        if item.kind == "leads_to":
            asked, answered = said
        else:
            asked, answered = item.kind == "always_eventually" or is_initial, said
        return (ASKED if asked else 0) | (ANSWERED if answered else 0)

    def add_edges(self, source: int, edges: Iterable[tuple[int, Label]]) -> None:
        """The steps of the next state; a step that changes nothing is no step."""
        assert source == len(self), "states are expanded in the order of their numbers"
        for target, label in edges:
            if target != source:
                self.targets.append(target)
                self.labels.append(self._numbers.setdefault(label, len(self._numbers)))
        self.first.append(len(self.targets))

    def units(self) -> list[Unit]:
        """The model's fairness, as sets of label numbers."""
        names = [action.name for action in self.model.actions()]
        units = []
        for fair in self.model.fairness:
            if fair.action not in names:
                continue
            action = names.index(fair.action)
            labels = [number for (index, _), number in self._numbers.items() if index == action]
            if fair.each:
                units += [Unit(fair.strong, frozenset([number])) for number in labels]
            else:
                units.append(Unit(fair.strong, frozenset(labels)))
        return units
