"""The action instances of a model: which steps a state allows, and what they are called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from types import MethodType
from typing import Any, Generic, TypeAlias, TypeVar

from motet.verify.model import Model, NotEnabled, Record
from motet.verify.model.base import Action
from motet.verify.model.guards import without_raising

S = TypeVar("S", bound=Record)

Label: TypeAlias = tuple[int, tuple[Any, ...]]
"""(index of the action, its arguments)."""


class Instances(Generic[S]):
    """Every action of a model bound to its arguments, as far as they do not depend on the state."""

    def __init__(self, model: Model[S]) -> None:
        self.model = model
        self.actions = model.actions()
        #: bound to arguments once and for all
        self._fixed: list[tuple[Label, Callable[..., S | None], tuple[Any, ...]]] = []
        #: with arguments that each state chooses anew
        self._chosen: list[tuple[int, Callable[..., S | None], Action]] = []
        for index, action in enumerate(self.actions):
            function = MethodType(without_raising(action.function), model)
            fixed = [domain.fixed(model) for domain in action.domains]
            if any(values is None for values in fixed):
                self._chosen.append((index, function, action))
            else:
                for arguments in product(*(values or () for values in fixed)):
                    self._fixed.append(((index, arguments), function, arguments))

    def successors(self, state: S) -> list[tuple[Label, S]]:
        """Every step from a state, in an order that never changes."""
        found: list[tuple[Label, S]] = []
        for label, function, arguments in self._fixed:
            try:
                after = function(state, *arguments)
            except NotEnabled:
                continue
            if after is not None:
                found.append((label, after))
        if self._chosen:
            self._add_chosen(state, found)
        return found

    def _add_chosen(self, state: S, found: list[tuple[Label, S]]) -> None:
        for index, function, action in self._chosen:
            for arguments in self._choices(action, state):
                try:
                    after = function(state, *arguments)
                except NotEnabled:
                    continue
                if after is not None:
                    found.append(((index, arguments), after))

    def _choices(self, action: Action, state: S) -> Iterator[tuple[Any, ...]]:
        return product(*(domain.values(self.model, state) for domain in action.domains))

    def show(self, label: Label) -> str:
        """A step as a trace writes it: ``UpdateQuorum(r2)``."""
        index, arguments = label
        action = self.actions[index]
        if not arguments:
            return action.title
        shown = (d.show(value) for d, value in zip(action.domains, arguments, strict=True))
        return f"{action.title}({', '.join(shown)})"
