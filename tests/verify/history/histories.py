"""Histories to test checkers with: every small one, good ones by construction, and mutated ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import permutations, product
from random import Random
from typing import Literal, NamedTuple, TypeAlias

from tests.verify.history.oracle import State, apply

from motet.errors import BadHistory
from motet.verify.history import History, Recorder
from motet.verify.history.operation import Event, Failed, Invoke, Ok, OperationId, Unknown, Value


class Act(NamedTuple):
    """An operation without its place in time."""

    function: str
    value: Value = None
    result: Value = None
    outcome: Literal["ok", "failed", "unknown"] = "ok"


def unknown(act: Act) -> Act:
    return act._replace(result=None, outcome="unknown")


def sequence(*acts: Act) -> History:
    """The acts one after the other, by processes in turn."""
    recorder = Recorder()
    for number, act in enumerate(acts):
        op = recorder.invoke(f"c{number}", act.function, None, act.value, at=10 * number)
        if act.outcome == "ok":
            recorder.ok(op, act.result, at=10 * number + 5)
        elif act.outcome == "failed":
            recorder.failed(op, at=10 * number + 5)
        else:
            recorder.unknown(op, at=10 * number + 5)
    return recorder.history()


# Every small history


def all_histories(acts: Sequence[Act], count: int) -> Iterator[History]:
    """Every history of so many of these acts, in every interleaving that differs."""
    for chosen in product(acts, repeat=count):
        endless = tuple(act.outcome == "unknown" for act in chosen)
        for order in interleavings(endless):
            yield history_of(chosen, order)


def all_arrangements(acts: Sequence[Act]) -> Iterator[History]:
    """Every history that has each of these acts once."""
    for chosen in permutations(acts):
        endless = tuple(act.outcome == "unknown" for act in chosen)
        for order in interleavings(endless):
            yield history_of(chosen, order)


Order: TypeAlias = tuple[tuple[int, bool], ...]
"""Which operation, and whether it begins (or else ends), one event after the other."""


@cache
def interleavings(endless: tuple[bool, ...]) -> tuple[Order, ...]:
    """All orders of begins and ends; operations are numbered as they begin, some never end."""

    def grow(order: Order, begun: int, running: tuple[int, ...]) -> Iterator[Order]:
        if begun == len(endless) and not running:
            yield order
        if begun < len(endless):
            more = running if endless[begun] else (*running, begun)
            yield from grow((*order, (begun, True)), begun + 1, more)
        for index in running:
            rest = tuple(other for other in running if other != index)
            yield from grow((*order, (index, False)), begun, rest)

    return tuple(grow((), 0, ()))


def history_of(acts: Sequence[Act], order: Order) -> History:
    """One history, every operation by a process of its own."""
    events: list[Event] = []
    for at, (index, begins) in enumerate(order):
        act, op = acts[index], OperationId(index)
        if begins:
            events.append(Invoke(op, f"c{index}", act.function, None, act.value, at))
        else:
            events.append(Ok(op, act.result, at) if act.outcome == "ok" else Failed(op, at))
    return History(events)


# Good by construction

Choice: TypeAlias = Callable[[Random, State], tuple[str, Value, Value]]
"""The next operation of a client who may peek at the state: function, key, value."""


def good_history(
    random: Random,
    choose: Choice,
    initial: State,
    *,
    operations: int,
    processes: int = 4,
    trouble: float = 0.2,
) -> History:
    """A history of an object that is linearizable, because it really takes each operation at a moment.

    With the given chance an operation comes to trouble: it fails, or is given up as unknown, and may
    then still take effect at any later time.
    """
    world = _World(random, choose, initial, trouble)
    while world.invoked < operations or world.waiting or world.answered:
        step = random.random()
        busy = len(world.waiting) + len(world.answered)
        if step < 0.4 and world.invoked < operations and busy < processes:
            world.invoke()
        elif world.answered and step < 0.7:
            world.answer()
        elif world.waiting:
            world.take()
    return world.recorder.history()


def register_client(random: Random, state: State) -> tuple[str, Value, Value]:
    """A client of a register with few values, so that mistakes are easy to make and to miss."""
    function = random.choice(["read", "write", "cas"])
    if function == "read":
        return function, None, None
    if function == "write":
        return function, None, random.randrange(3)
    expected = state if isinstance(state, int) and random.random() < 0.6 else random.randrange(3)
    return function, None, (expected, random.randrange(3))


class _World:
    def __init__(self, random: Random, choose: Choice, initial: State, trouble: float) -> None:
        self.random, self.choose, self.trouble = random, choose, trouble
        self.recorder = Recorder()
        self.states: dict[Value, State] = {}
        self.initial = initial
        self.invoked = 0
        self.at = 0
        #: invoked, not yet taken; and taken, with the answer on its way
        self.waiting: list[tuple[OperationId, str, Value, Value]] = []
        self.answered: list[tuple[OperationId, State]] = []
        #: given up by the client, but perhaps still on its way
        self.ghosts: list[tuple[str, Value, Value]] = []

    def invoke(self) -> None:
        function, key, value = self.choose(self.random, self.states.get(None, self.initial))
        op = self.recorder.invoke(f"c{self.invoked}", function, key, value, self._tick())
        self.waiting.append((op, function, key, value))
        self.invoked += 1

    def take(self) -> None:
        if self.ghosts and self.random.random() < 0.3:
            self._apply(*self.ghosts.pop(self.random.randrange(len(self.ghosts))))
        op, function, key, value = self.waiting.pop(self.random.randrange(len(self.waiting)))
        if self.random.random() < self.trouble:
            if self.random.random() < 0.5:
                self.recorder.failed(op, self._tick())
            else:
                self.recorder.unknown(op, self._tick())
                self.ghosts.append((function, key, value))
        else:
            self.answered.append((op, self._apply(function, key, value)))

    def answer(self) -> None:
        op, result = self.answered.pop(self.random.randrange(len(self.answered)))
        if self.random.random() < self.trouble / 2:
            self.recorder.unknown(op, self._tick())  # it happened, but the answer was lost
        else:
            self.recorder.ok(op, result, self._tick())

    def _apply(self, function: str, key: Value, value: Value) -> State:
        state, result = apply(function, value, self.states.get(key, self.initial))
        self.states[key] = state
        return result

    def _tick(self) -> int:
        self.at += self.random.randrange(2)  # equal times are allowed, and must not matter
        return self.at


# Mutated


def mutated(random: Random, history: History) -> History:
    """The history with one answer changed, or with two neighbouring events swapped."""
    events = list(history.events)
    answers = [op for op in history.operations if op.outcome == "ok" and op.function in _OBSERVERS]
    if answers and random.random() < 0.6:
        op = random.choice(answers)
        others = [other.result for other in answers if other.function == op.function]
        result = _changed(random, op.result, others)
        events[op.ended] = Ok(op.id, result, events[op.ended].at)
        return History(events)
    place = random.randrange(max(1, len(events) - 1))
    events[place : place + 2] = reversed(events[place : place + 2])
    swapped = _replayed(events)
    return history if swapped is None else swapped


_OBSERVERS = ("read", "get", "cas", "dequeue", "transfer", "exists", "create", "set")


def _changed(random: Random, result: Value, others: Sequence[Value]) -> Value:
    """Another answer: the opposite, what somebody else was answered, or one with an element less."""
    if isinstance(result, bool):
        return not result
    if isinstance(result, tuple) and result and random.random() < 0.5:
        gone = random.randrange(len(result))
        return (*result[:gone], *result[gone + 1 :])
    different = [other for other in others if other != result]
    return random.choice(different) if different else result


def _replayed(events: Sequence[Event]) -> History | None:
    """The events as a history, if a recorder could have taken them down in this order."""
    recorder = Recorder()
    try:
        for at, event in enumerate(events):
            recorder.replay(_at(event, at))
    except BadHistory:
        return None
    return recorder.history()


def _at(event: Event, at: int) -> Event:
    match event:
        case Invoke():
            return Invoke(event.op, event.process, event.function, event.key, event.value, at)
        case Ok():
            return Ok(event.op, event.value, at)
        case Failed():
            return Failed(event.op, at)
        case Unknown():
            return Unknown(event.op, at)
