"""Is a tree of nodes, as the keeper has it, linearizable?

The key of an operation is a path. Every answer begins with a code, ``OK`` or the name of a refusal; a refusal
is an observation too, and is checked. ``failed`` stays what it is everywhere: it never happened.

====================  ==========================================  =================================
function              value                                       answer after ``OK``
====================  ==========================================  =================================
``create``            data, then ``"sequential"`` and/or          the path that was created
                      ``"ephemeral"``, and of an ephemeral
                      node the name of its session
``set``               data, version (-1 for any)                  the version after it
``delete``            version (-1 for any)
``get``                                                           data, version
``exists``                                                        version
``children``                                                      their names, in any order
``end_session``       the name of a session; no key
``multi``             a list of (function, path, value), where    the answer of each
                      ``check`` takes a version
====================  ==========================================  =================================

A multi that is refused answers the code and the place of the operation that refused it. Each path is looked
at by itself first (``tree_paths``), and then the tree as a whole; each of these searches has the budget.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import msgspec

from motet.errors import BadHistory
from motet.verify.history.operation import Operation
from motet.verify.history.record import History
from motet.verify.history.sequential import check_sequential
from motet.verify.history.tree_paths import paths_of
from motet.verify.history.tree_state import Nodes, Refused, Tree
from motet.verify.history.values import Value, show
from motet.verify.history.verdict import Verdict, budget_steps_default

_LOOKS = ("get", "exists", "children")
_CHANGES = ("create", "set", "delete", "end_session", "multi")


def check_tree(
    history: History,
    *,
    initial: Iterable[str] = (),
    budget_steps: int = budget_steps_default,
) -> Verdict:
    """Check the history of a tree that had these paths at first, without data."""
    for op in history.operations:
        if op.function not in _LOOKS + _CHANGES:
            raise BadHistory(
                f"this checker does not know the function {op.function!r}",
                hint="it knows " + ", ".join(_CHANGES + _LOOKS),
            )
        if op.outcome == "ok" and not (isinstance(op.result, tuple) and op.result):
            raise BadHistory(
                f"{op.process}'s {op.call} answered {show(op.result)}",
                hint='an answer is a list that begins with "OK" or the name of a refusal',
            )
    steps = 0
    there = tuple(initial)
    for _path, specification in paths_of(history, there):
        operations = [op for op in history.operations if specification.is_about(op)]
        one = check_sequential(operations, specification, budget_steps)
        steps += one.steps
        if one.status == "violated":
            return msgspec.structs.replace(one, operations=len(history.operations), steps=steps)
    whole = check_sequential(history.operations, TreeSpecification(there), budget_steps)
    return msgspec.structs.replace(whole, steps=steps + whole.steps)


class TreeSpecification:
    """The tree as a specification; a state is a tuple of its nodes, sorted by path."""

    def __init__(self, initial: Iterable[str]) -> None:
        tree = Tree()
        for path in initial:
            tree.create(path, ("",))
        self._initial = tree.frozen()
        #: (state, operation) -> (state after it, answer): many orders come by the same
        self._known: dict[tuple[Nodes, int], tuple[Nodes, tuple[Value, ...]]] = {}

    def initial(self) -> Hashable:
        return self._initial

    def after(self, operation: Operation, state: Hashable) -> Hashable | None:
        assert isinstance(state, tuple)
        known = self._known.get((state, operation.id))
        if known is None:
            known = self._known[state, operation.id] = self._step(operation, state)
        if operation.outcome == "unknown":
            return known[0]
        return known[0] if _plain(known[1]) == _plain(operation.result) else None

    def _step(self, operation: Operation, state: Nodes) -> tuple[Nodes, tuple[Value, ...]]:
        tree = Tree(state)
        try:
            answer = tree.do(operation.function, operation.key, operation.value)
        except Refused as refused:
            return state, refused.answer
        return tree.frozen(), ("OK", *answer)

    def only_looks(self, operation: Operation) -> bool:
        if operation.function in _LOOKS:
            return True
        answer = operation.result
        return isinstance(answer, tuple) and bool(answer) and answer[0] != "OK"

    def rank(self, operation: Operation) -> int:
        return operation.ended

    def shown(self, state: Hashable) -> str:
        assert isinstance(state, tuple)
        nodes = [f"{path}={node[0]!r}v{node[1]}" for path, node in state[1:9]]
        return " ".join(nodes) + (" …" if len(state) > 9 else "") if nodes else "an empty tree"


def _plain(answer: Value) -> Value:
    """An answer to be compared: the names of children in one order."""
    if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], tuple):
        if all(isinstance(name, str) for name in answer[1]):
            return answer[0], tuple(sorted(map(str, answer[1])))
        return answer[0], tuple(map(_plain, answer[1]))
    return answer
