"""One path of a tree at a time: a stale answer is found however much else was going on.

The order of a whole history is also an order of the operations on one path. So if no order of those explains
their answers, nothing does. Few of them are open at once, where hundreds may be on the whole tree: this is
quick. What a path needs from elsewhere is taken to be there: its parent, and that nothing is below it. An
answer that says something of those only, says nothing here.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from motet.verify.history.operation import Operation
from motet.verify.history.record import History
from motet.verify.history.tree_state import ANY_VERSION, owner_of, pair_of, path_of, version_of
from motet.verify.history.values import Value

State: TypeAlias = tuple[Value, ...]
"""(data, version, session of an ephemeral node), or nothing where there is no node."""

ABSENT: State = ()
_EMPTY: State = ("", 0, None)
_DIGITS = 10
"""A sequential node has so many behind its name."""

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
    """Of a create, what stands behind its data."""
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
