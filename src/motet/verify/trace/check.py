"""Which states of a model the lines of a trace allow, line after line.

Whether a state is what a line saw, and if not, where it differs.

A line sees as much as it says: of a record the named fields, of a sequence the numbered places, or else the
whole value, with sets and sequences as JSON arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any, Generic, Literal, TypeVar

import msgspec

from motet import limits
from motet.errors import BadInput
from motet.verify.explore.codec import Codec, fingerprint
from motet.verify.model import Model, NotEnabled, Record
from motet.verify.model.base import Action
from motet.verify.model.record import show
from motet.verify.trace.lines import TraceLine


def difference(seen: Any, value: object, path: str = "") -> str | None:
    """Where and how a value is not what was seen; ``None`` if it is."""
    if isinstance(seen, dict):
        return _inside(seen, value, path)
    return None if _is(seen, value) else f"{path} is {show(value)}"


def _inside(seen: dict[str, Any], value: object, path: str) -> str | None:
    for key, part in seen.items():
        where = f"{path}.{key}" if path else key
        if isinstance(value, msgspec.Struct) and key in value.__struct_fields__:
            found = difference(part, getattr(value, key), where)
        elif isinstance(value, tuple) and key.isdigit() and int(key) < len(value):
            found = difference(part, value[int(key)], where)
        else:
            return f"there is no {where}"
        if found is not None:
            return found
    return None


def _is(seen: Any, value: object) -> bool:
    """Whether a JSON value is this one; the members of a set may come in any order."""
    if isinstance(seen, dict):
        return _inside(seen, value, "") is None
    if isinstance(value, msgspec.Struct):
        tag = value.__struct_config__.tag
        fields = tuple(getattr(value, name) for name in value.__struct_fields__)
        value = fields if tag is None else (tag, *fields)
    if not isinstance(value, tuple | frozenset):
        return bool(seen == value)
    if not isinstance(seen, list) or len(seen) != len(value):
        return False
    if isinstance(value, frozenset):
        return all(any(_is(each, item) for each in seen) for item in value)
    return all(_is(each, item) for each, item in zip(seen, value, strict=True))


S = TypeVar("S", bound=Record)


class Checked(msgspec.Struct, frozen=True):
    """What became of a trace: every line explained, one that is not, or too many explanations to keep."""

    verdict: Literal["explained", "unexplained", "unknown"]
    #: lines that were looked at
    lines: int
    #: the most states that were possible at once
    candidates: int
    #: the number of the first line that is not explained, and why not
    line: int | None = None
    why: tuple[str, ...] = ()
    #: where that line is, if there are several files
    file: str = ""


class Tracker(Generic[S]):
    """Keeps the states of a model that agree with all it was told."""

    def __init__(
        self, model: Model[S], *, silent: Sequence[str] = (), silent_steps: int = 1
    ) -> None:
        self.model = model
        self._codec: Codec[S] = Codec(model.state_type)
        self._actions = {_plain(action.name): action for action in model.actions()}
        self._silent = [self._action(name, None) for name in silent]
        self._silent_steps = silent_steps if silent else 0
        self.states: list[S] = self._distinct(model.initial())
        self.most = len(self.states)

    def take(self, line: TraceLine) -> tuple[str, ...] | None:
        """Follow one line; answers why it cannot be followed, if it cannot."""
        return None if self.follow(line) else self.reasons(line)

    def follow(self, line: TraceLine) -> bool:
        """Follow one line if that is possible; else nothing has happened."""
        seen = [s for s in self._after_line(line) if difference(line.state, s) is None]
        if not seen:
            return False
        self.states = seen
        self.most = max(self.most, len(seen))
        return True

    def is_possible(self, line: TraceLine) -> bool:
        """Whether a line's action is, whatever was seen after it."""
        return bool(self._after_line(line))

    def reasons(self, line: TraceLine) -> tuple[str, ...]:
        """Why a line cannot be followed now."""
        before, after = self.states, self._after_line(line)
        if not after:
            where = "the one state" if len(before) == 1 else f"any of the {len(before)} states"
            return (f"{line.action} is not possible in {where} it could be in", str(before[0]))
        found = dict.fromkeys(difference(line.state, state) or "" for state in after)
        return tuple(list(found)[: limits.trace_reasons_max])

    def _after_line(self, line: TraceLine) -> list[S]:
        """The states that its action leads to, whatever it saw of them."""
        action = None if line.action is None else self._action(line.action, line.number)
        reached = self.states
        allowed = list(reached)
        for _ in range(self._silent_steps):
            reached = self._distinct(t for s in reached for t in self._silently(s))
            allowed = self._distinct((*allowed, *reached))
        if action is None:
            return allowed
        return self._distinct(t for s in allowed for t in self._taken(action, s, line))

    def _action(self, name: str, number: int | None) -> Action:
        found = self._actions.get(_plain(name))
        if found is None:
            where = "" if number is None else f"line {number}: "
            titles = ", ".join(action.title for action in self.model.actions())
            raise BadInput(
                f"{where}{self.model.name} has no action {name!r}", hint=f"it has {titles}"
            )
        return found

    def _taken(self, action: Action, state: S, line: TraceLine) -> Iterator[S]:
        for arguments in product(*self._domains(action, state, line)):
            after = self._after(action.function, state, arguments)
            if after is not None:
                yield after

    def _domains(self, action: Action, state: S, line: TraceLine) -> list[list[Any]]:
        """What each argument may be: what the line says, else all there is."""
        names = action.function._mark.domains if hasattr(action.function, "_mark") else {}
        order = list(names) or _parameter_names(action)
        unknown = [name for name in line.arguments if name not in order]
        if unknown:
            raise BadInput(
                f"line {line.number}: {action.title} has no argument {unknown[0]!r}",
                hint=f"it has {', '.join(order) or 'none'}",
            )
        domains = []
        for name, domain in zip(order, action.domains, strict=True):
            values = domain.values(self.model, state)
            if name not in line.arguments:
                domains.append(list(values))
                continue
            said = line.arguments[name]
            if isinstance(values, range) and type(said) is int:  # it may be a long one
                domains.append([said] if said in values else [])
            else:
                domains.append([value for value in values if difference(said, value) is None])
        return domains

    def _silently(self, state: S) -> Iterator[S]:
        for action in self._silent:
            yield from self._taken(action, state, TraceLine())

    def _after(
        self, function: Callable[..., S | None], state: S, arguments: tuple[Any, ...]
    ) -> S | None:
        try:
            return function(self.model, state, *arguments)
        except NotEnabled:
            return None

    def _distinct(self, states: Iterable[S]) -> list[S]:
        found: dict[int, S] = {}
        for state in states:
            found.setdefault(fingerprint(self._codec.encode(state)), state)
            if len(found) > limits.trace_candidates_max:
                raise TooManyCandidates
        return list(found.values())


class TooManyCandidates(Exception):
    """More states agree with the trace than can be kept."""


def check_trace(
    model: Model[Any],
    lines: Iterable[TraceLine],
    *,
    silent: Sequence[str] = (),
    silent_steps: int = 1,
) -> Checked:
    """Follow a trace to its end, or to the first line that no behaviour of the model explains."""
    tracker = Tracker(model, silent=silent, silent_steps=silent_steps)
    count = 0
    for line in lines:
        count += 1
        try:
            why = tracker.take(line)
        except TooManyCandidates:
            most = limits.trace_candidates_max
            reason = (f"more than {most:,} states of the model agree with the trace up to here",)
            return Checked("unknown", count, most, line.number, reason, line.file)
        if why is not None:
            return Checked("unexplained", count, tracker.most, line.number, why, line.file)
    return Checked("explained", count, tracker.most)


def _parameter_names(action: Action) -> list[str]:
    """An overriding method has no mark of its own; its parameters are those of the action, in order."""
    code = action.function.__code__
    return list(code.co_varnames[2 : 2 + len(action.domains)])


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
