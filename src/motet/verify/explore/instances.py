"""The action instances of a model: which steps a state allows, and what they are called.

Some faults lie after thirty steps that everybody can write down, and the states beside that way are not
worth a thought. A script names those steps; the explorer begins where they end. Since every step is an
action of the model, what it finds from there is reachable from its beginning too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from types import MethodType
from typing import Any, Generic, TypeAlias, TypeVar

from motet.verify.explore.result import Step
from motet.verify.model import Model, NotEnabled, Record
from motet.verify.model.action import without_raising
from motet.verify.model.base import Action
from motet.verify.model.record import changes, show

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


# A trace is found again by replay: the explorer keeps fingerprints, not states.


def replay(
    instances: Instances[S], path: Sequence[int], fingerprint: Callable[[S], int]
) -> tuple[Step, ...]:
    """The steps through states with these fingerprints, from an initial one."""
    state = next(s for s in instances.model.initial() if fingerprint(s) == path[0])
    steps = [Step("Init", (), show(state))]
    for wanted in path[1:]:
        label, after = next(
            step for step in instances.successors(state) if fingerprint(step[1]) == wanted
        )
        steps.append(Step(instances.show(label), tuple(changes(state, after)), show(after)))
        state = after
    return tuple(steps)


def led(model: Model[S], start: S, script: Iterable[str]) -> S:
    """The state after these steps, each named by the beginning of its line in a trace."""
    instances = Instances(model)
    state = start
    for line in script:
        steps = [(instances.show(label), after) for label, after in instances.successors(state)]
        chosen = next((after for name, after in steps if name.startswith(line)), None)
        if chosen is None:
            raise AssertionError(f"{line} is not possible; possible are {[n for n, _ in steps]}")
        state = chosen
    return state
