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
at by itself first, and then the tree as a whole; each of these searches has the budget.

The order of a whole history is also an order of the operations on one path. So if no order of those explains
their answers, nothing does. Few of them are open at once, where hundreds may be on the whole tree: this is
quick, and a stale answer is found however much else was going on. What a path needs from elsewhere is taken
to be there: its parent, and that nothing is below it. An answer that says something of those only, says
nothing here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from motet.errors import BadHistory
from motet.verify.history.operation import Operation, Value, show
from motet.verify.history.record import History, Verdict, budget_steps_default
from motet.verify.history.sequential import check_sequential
from motet.verify.history.tree_state import (
    ANY_VERSION,
    Nodes,
    Refused,
    Tree,
    owner_of,
    pair_of,
    path_of,
    version_of,
)

State: TypeAlias = tuple[Value, ...]
"""(data, version, session of an ephemeral node), or nothing where there is no node."""

ABSENT: State = ()
_EMPTY: State = ("", 0, None)
_DIGITS = 10
"""A sequential node has so many digits after its name."""

_OF_OTHERS = ("NO_CHILDREN_FOR_EPHEMERALS",)


class Part(NamedTuple):
    """What an operation does to a path, or says of it."""

    function: str
    value: Value
    #: ``None`` if nobody knows
    answer: tuple[Value, ...] | None


Parts: TypeAlias = dict[int, list[Part]]
"""By operation; of a multi there may be several."""


def paths_of(history: History, initial: Iterable[str]) -> Iterator[tuple[str, PathSpecification]]:
    """Every path that an operation was about, with what each operation is to it."""
    told: dict[str, Parts] = {}
    guesses: list[tuple[Operation, str, Part]] = []
    owned: dict[Value, dict[str, None]] = {}
    for op in history.operations:
        for path, part in _parts(op):
            if part.function == "create" and part.answer is None and "sequential" in _options(part):
                guesses.append((op, path, part))
                continue
            told.setdefault(path, {}).setdefault(op.id, []).append(part)
            if part.function == "create":
                owned.setdefault(owner_of(_options(part)), {})[path] = None
    for op, prefix, part in guesses:  # it may have become any of those that somebody knows of
        for path in [path for path in told if _is_numbered(path, prefix)]:
            if op.id in told[path]:
                del told[path]  # a multi that also does something else to it: both, or only that
                continue
            told[path][op.id] = [part]
            owned.setdefault(owner_of(_options(part)), {})[path] = None
    for op in history.operations:
        mortal = owned.get(op.value, ()) if op.function == "end_session" else ()
        for path in [path for path in mortal if path in told]:
            told[path].setdefault(op.id, []).append(Part("end_session", op.value, None))
    there = ("/", *initial)
    for path, parts in told.items():
        yield path, PathSpecification(_EMPTY if path in there else ABSENT, parts)


def _parts(op: Operation) -> Iterator[tuple[str, Part]]:
    """What it does to each path; a refusal of a multi says nothing of single ones."""
    answer = op.result if isinstance(op.result, tuple) else None
    if op.outcome == "failed" or op.function == "end_session":
        return
    if op.function != "multi":
        yield from _part(op.function, op.key, op.value, answer)
        return
    items = op.value if isinstance(op.value, tuple) else ()
    answers: tuple[Value, ...] = (None,) * len(items)
    if answer is not None:
        match answer:
            case ("OK", tuple() as each) if len(each) == len(items):
                answers = each
            case _:
                return
    for item, said in zip(items, answers, strict=True):
        match item:
            case (str(function), key, value):
                told = said if isinstance(said, tuple) else None
                if told is None and answer is not None:
                    return
                yield from _part(function, key, value, told)


def _part(
    function: str, key: Value, value: Value, answer: tuple[Value, ...] | None
) -> Iterator[tuple[str, Part]]:
    path, part = path_of(key), Part(function, value, answer)
    if answer is None:
        yield path, part
        return
    if function == "create" and answer[0] == "OK":
        if len(answer) == 2 and isinstance(answer[1], str):
            yield answer[1], part
    elif function == "create" and (answer[0] != "NODE_EXISTS" or "sequential" in _options(part)):
        return  # that is about its parent
    elif answer[0] not in _OF_OTHERS:
        yield path, part


def _options(part: Part) -> tuple[Value, ...]:
    """Of a create, what stands after its data."""
    return part.value[1:] if isinstance(part.value, tuple) else ()


def _is_numbered(path: str, prefix: str) -> bool:
    number = path.removeprefix(prefix)
    return path.startswith(prefix) and len(number) == _DIGITS and number.isdigit()


class PathSpecification:
    """A path as a specification."""

    def __init__(self, initial: State, parts: Mapping[int, list[Part]]) -> None:
        self._initial = initial
        self._parts = parts

    def is_about(self, operation: Operation) -> bool:
        return operation.id in self._parts

    def initial(self) -> Hashable:
        return self._initial

    def after(self, operation: Operation, state: Hashable) -> Hashable | None:
        assert isinstance(state, tuple)
        found: State = state
        for part in self._parts[operation.id]:
            after = _after(part, found)
            if after is None:
                return state if operation.outcome == "unknown" else None
            found = after
        return found

    def only_looks(self, operation: Operation) -> bool:
        return all(_only_looks(part) for part in self._parts[operation.id])

    def rank(self, operation: Operation) -> int:
        return operation.ended

    def shown(self, state: Hashable) -> str:
        assert isinstance(state, tuple)
        return f"{state[0]!r} in version {state[1]}" if state else "no node"


def _only_looks(part: Part) -> bool:
    if part.function in ("get", "exists", "children", "check"):
        return True
    return part.answer is not None and part.answer[0] != "OK"


def _after(part: Part, state: State) -> State | None:
    """The path after it; ``None`` if it could not have answered that, or done anything."""
    done, answers = _done(part, state)
    if part.answer is None:
        return done if answers and answers[0][0] == "OK" else None
    is_loose = part.function == "children" and part.answer[0] == "OK"
    said = (part.answer[:1],) if is_loose else (part.answer,)
    return done if said[0] in answers else None


def _done(part: Part, state: State) -> tuple[State, tuple[tuple[Value, ...], ...]]:
    """What comes of it if nothing else hinders it, and the answers that it may get."""
    function, value = part.function, part.value
    values = value if isinstance(value, tuple) else (value,)
    if function == "end_session":
        return (ABSENT if state and state[2] == value else state), (("OK",),)
    if function == "create":
        if state:
            return state, (("NODE_EXISTS",),)
        path = part.answer[1:] if part.answer else ()
        return ((values or (None,))[0], 0, owner_of(values[1:])), (("OK", *path),)
    if not state:
        return state, (("NO_NODE",),)
    data, version, owner = state
    assert isinstance(version, int)
    if function == "get":
        return state, (("OK", data, version),)
    if function == "exists":
        return state, (("OK", version),)
    if function == "children":
        return state, (("OK",),)
    new, wanted = pair_of(values, function) if function == "set" else (None, version_of(values))
    if wanted not in (ANY_VERSION, version):
        return state, (("BAD_VERSION",),)
    if function == "set":
        return (new, version + 1, owner), (("OK", version + 1),)
    if function == "delete":
        is_refused = part.answer is not None and part.answer[0] == "NOT_EMPTY"
        return (state, (("NOT_EMPTY",),)) if is_refused else (ABSENT, (("OK",),))
    return state, (("OK",),)


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
