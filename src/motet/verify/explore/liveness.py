"""Temporal properties on the explored graph.

A property is violated by a behaviour that reaches a state where it is asked for, and then stays for
ever among states where it is not answered, while every fair action gets its due. Such a behaviour ends
in a strongly connected set of unanswered states, or stands still in one (a behaviour may always
stutter), in which

weak    each weakly fair action is taken inside the set, or is not possible in one of its states;
strong  each strongly fair action is taken inside the set, or is possible in none of its states. Where it is
        possible but not taken, the states that allow it are left out, and what remains is searched again.

The counterexample is the way there and one round inside the set that gives every fair action its due.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from motet.verify.explore.instances import Label
from motet.verify.model import Model, Record
from motet.verify.model.base import Property

# Strongly connected components of a part of a graph (Tarjan), without recursion.


def components(
    first: Sequence[int], targets: Sequence[int], states: Sequence[int]
) -> Iterator[list[int]]:
    """The components of the graph restricted to these states; a single state is one too."""
    within = set(states)
    order: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[int] = []
    for root in states:
        if root in order:
            continue
        work = [(root, first[root])]
        order[root] = low[root] = len(order)
        stack.append(root)
        on_stack.add(root)
        while work:
            state, position = work[-1]
            if position < first[state + 1]:
                work[-1] = (state, position + 1)
                target = targets[position]
                if target not in within:
                    continue
                if target not in order:
                    order[target] = low[target] = len(order)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, first[target]))
                elif target in on_stack:
                    low[state] = min(low[state], order[target])
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[state])
            if low[state] == order[state]:
                yield _popped(stack, on_stack, state)


def _popped(stack: list[int], on_stack: set[int], root: int) -> list[int]:
    component = []
    while True:
        state = stack.pop()
        on_stack.discard(state)
        component.append(state)
        if state == root:
            return component


# The graph of an exploration, kept for temporal properties: flat arrays in the order of discovery.

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


class Lasso(NamedTuple):
    """A behaviour that goes on for ever: a path, and the position in it that the end goes back to."""

    title: str
    path: list[int]
    loops_to: int


def check_liveness(graph: Graph[Any]) -> Lasso | None:
    """The first temporal property that a fair behaviour violates, with that behaviour."""
    units = graph.units()
    for item, marks in zip(graph.properties, graph.marks, strict=True):
        starts = [i for i in range(len(graph)) if marks[i] & ASKED and not marks[i] & ANSWERED]
        region = _unanswered(graph, starts, marks)
        inside = _fair_component(graph, sorted(region), units)
        if inside is not None:
            return _lasso(graph, item.title, starts, region, inside, units)
    return None


def _unanswered(graph: Graph[Any], starts: Iterable[int], marks: bytearray) -> set[int]:
    """What can be reached from there without ever being answered."""
    seen = set(starts)
    stack = list(seen)
    while stack:
        state = stack.pop()
        for position in range(graph.first[state], graph.first[state + 1]):
            target = graph.targets[position]
            if target not in seen and not marks[target] & ANSWERED:
                seen.add(target)
                stack.append(target)
    return seen


def _fair_component(graph: Graph[Any], states: list[int], units: list[Unit]) -> set[int] | None:
    """A set of states in which a fair behaviour can stay for ever: of all such, the one found first."""
    best: set[int] | None = None
    pending = [states]
    while pending:
        for component in components(graph.first, graph.targets, pending.pop()):
            inside = set(component)
            denied = _denied(graph, inside, units)
            if denied is None:
                continue
            if not denied:
                best = inside if best is None or min(inside) < min(best) else best
                continue
            smaller = [
                state
                for state in component
                if not any(_possible(graph, state, unit) for unit in denied)
            ]
            if smaller:
                pending.append(smaller)
    return best


def _denied(graph: Graph[Any], inside: set[int], units: list[Unit]) -> list[Unit] | None:
    """Strongly fair units that are possible but never taken; ``None`` if a weak one is denied."""
    denied = []
    for unit in units:
        if _taken(graph, inside, unit) is not None:
            continue
        possible = [_possible(graph, state, unit) for state in inside]
        if unit.strong and any(possible):
            denied.append(unit)
        elif not unit.strong and all(possible):
            return None
    return denied


def _taken(graph: Graph[Any], inside: set[int], unit: Unit) -> tuple[int, int] | None:
    """A step of the unit that stays inside, if there is one."""
    for state in sorted(inside):
        for position in range(graph.first[state], graph.first[state + 1]):
            if graph.labels[position] in unit.labels and graph.targets[position] in inside:
                return state, graph.targets[position]
    return None


def _possible(graph: Graph[Any], state: int, unit: Unit) -> bool:
    labels = graph.labels[graph.first[state] : graph.first[state + 1]]
    return any(label in unit.labels for label in labels)


def _lasso(
    graph: Graph[Any],
    title: str,
    starts: list[int],
    region: set[int],
    inside: set[int],
    units: list[Unit],
) -> Lasso:
    everything = range(len(graph))
    begin = _path(graph, graph.initial, set(starts), everything)
    entry = _path(graph, [begin[-1]], inside, region)
    path = begin + entry[1:]
    loops_to = len(path) - 1
    for unit in units:  # one round that gives each its due
        step = _taken(graph, inside, unit)
        if step is not None:
            path += [*_path(graph, [path[-1]], {step[0]}, inside)[1:], step[1]]
        else:
            idle = {state for state in inside if not _possible(graph, state, unit)}
            path += _path(graph, [path[-1]], idle, inside)[1:]
    path += _path(graph, [path[-1]], {path[loops_to]}, inside)[1:]
    return Lasso(title, path, loops_to)


def _path(
    graph: Graph[Any], starts: Iterable[int], goals: set[int], allowed: Iterable[int]
) -> list[int]:
    """A shortest path from a start to a goal; from a goal it is that state alone."""
    within = allowed if isinstance(allowed, range) else set(allowed)
    before: dict[int, int] = dict.fromkeys(starts, -1)
    queue = deque(before)
    while queue:
        state = queue.popleft()
        if state in goals:
            path = [state]
            while before[path[-1]] >= 0:
                path.append(before[path[-1]])
            return path[::-1]
        for position in range(graph.first[state], graph.first[state + 1]):
            target = graph.targets[position]
            if target not in before and target in within:
                before[target] = state
                queue.append(target)
    raise AssertionError("a strongly connected set has a path between any two of its states")
