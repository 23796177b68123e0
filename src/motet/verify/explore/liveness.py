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

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from motet.verify.explore.components import components
from motet.verify.explore.graph import ANSWERED, ASKED, Graph, Unit


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
