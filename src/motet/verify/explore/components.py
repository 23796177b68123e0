"""Strongly connected components of a part of a graph (Tarjan), without recursion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


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
