"""The readable engine: breadth first over the very actions of a model, one state after the other.

It keeps a fingerprint and the index of a parent for each state it has seen, and whole states only of
the level it works on, so memory grows by about a hundred bytes for each state. States are numbered in
the order in which they are found, which is also the order in which they are expanded: so the graph, if
liveness asks for it, is three flat arrays.

A counterexample is the shortest there is, because a level is finished before the next begins.

With several processes, they take the steps and one process keeps the books. A level is cut into chunks.
Workers decode the states of a chunk, take every step, and answer with a fingerprint for each; the state
itself, and what the properties say of it, only the first time they see it. Chunks are booked in their order,
and a worker is given them in that order, so whatever is new to the books was new to the worker that sent it:
numbers, counts and the shortest trace are those of one process. Small levels are not worth a message, and are
taken by the process that keeps the books.
"""

from __future__ import annotations

import gc
import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, Generic, NamedTuple, TypeVar

from motet.verify.explore.codec import Codec, canonical_encoder, fingerprint
from motet.verify.explore.instances import Instances, Label, replay
from motet.verify.explore.liveness import Graph, check_liveness
from motet.verify.explore.result import Budget, Exploration, Progress, Watch
from motet.verify.model import Model, Record
from motet.verify.model.base import Property, wanted_properties
from motet.verify.parent import end_with_parent

S = TypeVar("S", bound=Record)

_LOOK_EVERY = 256


def explore_readable(
    model: Model[S],
    *,
    properties: Iterable[str] | None = None,
    symmetry: bool = False,
    liveness: bool = True,
    budget: Budget | None = None,
    progress: Callable[[Progress], None] | None = None,
    workers: int = 1,
) -> Exploration:
    """Explore a model; ``properties`` restricts what is checked. Symmetry leaves liveness out."""
    wanted = wanted_properties(model, properties, liveness=liveness and not symmetry)
    watch = Watch(budget or Budget(), progress)
    collecting = gc.isenabled()
    gc.disable()  # states are trees without cycles, and there are very many of them
    try:
        return _search(model, wanted, symmetry, watch, workers).run()
    finally:
        if collecting:
            gc.enable()


def _search(
    model: Model[S], wanted: tuple[Property, ...], symmetry: bool, watch: Watch, workers: int
) -> Search[S]:
    if workers == 1:
        return Search(model, wanted, symmetry, watch)
    return ParallelSearch(model, wanted, symmetry, watch, workers)


class Violated(Exception):
    """A property is violated by a state, or by the step from it to another."""

    def __init__(self, title: str, index: int, after: int | None = None) -> None:
        self.title, self.index, self.after = title, index, after


class Search(Generic[S]):
    """One exploration: what has been seen, and what is asked of each state and each step."""

    engine = "readable"

    def __init__(
        self, model: Model[S], wanted: tuple[Property, ...], symmetry: bool, watch: Watch
    ) -> None:
        self.model, self.wanted, self.symmetry, self.watch = model, wanted, symmetry, watch
        self.instances = Instances(model)
        self.codec: Codec[S] = Codec(model.state_type)
        self.canonical: Callable[[S], bytes] = (
            canonical_encoder(model, self.codec.encode) if symmetry else self.codec.encode
        )
        self.invariants = [
            (p.title, getattr(model, p.name)) for p in wanted if p.kind == "invariant"
        ]
        self.bounds = [getattr(model, function.__name__) for function in model.bounds()]
        self.steps = [(p.title, getattr(model, p.name)) for p in wanted if p.kind == "step"]
        temporal = [p for p in wanted if p.kind not in ("invariant", "step")]
        self.graph: Graph[S] | None = Graph(model, temporal) if temporal else None
        #: fingerprint -> number of the state; states are numbered as they are found
        self.index: dict[int, int] = {}
        self.parents = array("q")
        self.taken = [0] * len(self.instances.actions)
        self.generated = self.depth = 0

    def run(self) -> Exploration:
        try:
            reason = self._levels()
        except Violated as found:
            path = self._path(found.index)
            if found.after is not None:
                path.append(found.after)
            trace = replay(self.instances, path, self._fingerprint)
            self.depth = max(self.depth, len(trace))
            return self._result("violated", property=found.title, trace=trace)
        if reason is not None:
            return self._result("unknown", reason=reason)
        if self.graph is not None:
            lasso = check_liveness(self.graph)
            if lasso is not None:
                path = [self._fingerprint_of(index) for index in lasso.path]
                trace = replay(self.instances, path, self._fingerprint)
                return self._result(
                    "violated", property=lasso.title, trace=trace, loops_to=lasso.loops_to
                )
        return self._result("ok")

    def _levels(self) -> str | None:
        """Level by level until nothing is new; answers why it stopped early, if it did."""
        level: list[tuple[int, S]] = []
        for state in self.model.initial():
            self.generated += 1
            self._meet(state, -1, level)
        while level:
            self.depth += 1
            found: list[tuple[int, S]] = []
            reason = self._expand_level(level, found)
            if reason is not None:
                return reason
            level = found
        return None

    def _expand_level(self, level: list[tuple[int, S]], found: list[tuple[int, S]]) -> str | None:
        for done, (index, state) in enumerate(level):
            if done % _LOOK_EVERY == 0:
                queue = len(level) - done + len(found)
                reason = self.watch.look(len(self.index), self.generated, self.depth, queue)
                if reason is not None:
                    return reason
            self._expand(index, state, found)
        return None

    def _expand(self, index: int, state: S, found: list[tuple[int, S]]) -> None:
        steps = self.instances.successors(state)
        if not steps and not self.model.may_end:
            raise Violated("Deadlock", index)
        self.generated += len(steps)
        taken, graph = self.taken, self.graph
        edges: list[tuple[int, Label]] = []
        for label, after in steps:
            taken[label[0]] += 1
            target = self._meet(after, index, found)
            fault = self.step_fault(state, after) if self.steps else None
            if fault is not None:
                raise Violated(fault, index, self._fingerprint(after))
            if graph is not None and target >= 0:
                edges.append((target, label))
        if graph is not None:
            graph.add_edges(index, edges)

    def _meet(self, state: S, parent: int, found: list[tuple[int, S]]) -> int:
        """Look at a state; answers its number, or -1 if a bound keeps it out."""
        data = self.canonical(state)
        key = fingerprint(data)
        known = self.index.get(key)
        if known is not None:
            return known
        fault, is_outside = self.judged(state, data)
        if is_outside and fault is None:
            return -1
        number = self._number(key, parent)
        if fault is not None:
            raise Violated(fault, number)
        self._keep(number, state, parent, found)
        return number

    def judged(self, state: S, data: bytes) -> tuple[str | None, bool]:
        """The property that a state violates, if it does, and whether a bound keeps it out."""
        fault = self.codec.type_fault(data)
        if fault is not None:
            return f"TypeOK: {fault}", False
        is_outside = any(not within(state) for within in self.bounds)
        for title, holds in self.invariants:
            if not holds(state):
                return title, is_outside
        return None, is_outside

    def step_fault(self, before: S, after: S) -> str | None:
        """The property that a step violates, if it does."""
        for title, allows in self.steps:
            if not allows(before, after):
                return title
        return None

    def _number(self, key: int, parent: int) -> int:
        """The next number, for a state that is new."""
        number = self.index[key] = len(self.index)
        self.parents.append(parent)
        return number

    def _keep(self, number: int, state: S, parent: int, found: list[tuple[int, S]]) -> None:
        if self.graph is not None:
            self.graph.add_state(state, is_initial=parent < 0)
        found.append((number, state))

    def _fingerprint(self, state: S) -> int:
        return fingerprint(self.canonical(state))

    def _fingerprint_of(self, index: int) -> int:
        if not hasattr(self, "_by_index"):
            self._by_index = list(self.index)  # a dict keeps the order in which states were found
        return self._by_index[index]

    def _path(self, index: int) -> list[int]:
        path = []
        while index >= 0:
            path.append(self._fingerprint_of(index))
            index = self.parents[index]
        path.reverse()
        return path

    def _result(self, verdict: Any, **rest: Any) -> Exploration:
        return Exploration(
            model=self.model.name,
            settings=dict(self.model.settings),
            verdict=verdict,
            distinct=len(self.index),
            depth=self.depth,
            generated=self.generated,
            seconds=self.watch.seconds,
            cpu_seconds=self.watch.cpu_seconds,
            engine=self.engine + (", symmetric" if self.symmetry else ""),
            properties=("TypeOK", *(p.title for p in self.wanted)),
            coverage={
                action.title: times
                for action, times in zip(self.instances.actions, self.taken, strict=True)
            },
            **rest,
        )


# With several processes

CHUNK = 256
"""States of a level that a worker is given at a time."""
WORTH_IT = 4 * CHUNK
"""Levels below this size stay in one process."""


class Found(NamedTuple):
    """A step: where it leads, and what is to be said of it."""

    label: Label
    key: int
    #: the state, unless this worker has sent it before
    data: bytes | None
    #: the property it violates, by itself or together with the state before it
    fault: str | None
    step_fault: str | None
    is_outside: bool


class Chunk(NamedTuple):
    """The steps of each state of a chunk, and the time it took."""

    steps: list[list[Found]]
    cpu_seconds: float


class ParallelSearch(Search[S], Generic[S]):
    """A search whose large levels are expanded by other processes."""

    def __init__(
        self,
        model: Model[S],
        wanted: tuple[Property, ...],
        symmetry: bool,
        watch: Watch,
        workers: int,
    ) -> None:
        super().__init__(model, wanted, symmetry, watch)
        self.workers = workers
        self.engine = f"readable, {workers} workers"

    def _levels(self) -> str | None:
        context = get_context("spawn")
        arguments = (self.model, self.wanted, self.symmetry)
        with ProcessPoolExecutor(self.workers, context, _hire, arguments) as pool:
            self.pool = pool
            try:
                return super()._levels()
            finally:
                pool.shutdown(cancel_futures=True)

    def _expand_level(self, level: list[tuple[int, S]], found: list[tuple[int, S]]) -> str | None:
        if len(level) < WORTH_IT:
            return super()._expand_level(level, found)
        chunks = [
            [self.codec.encode(state) for _, state in level[at : at + CHUNK]]
            for at in range(0, len(level), CHUNK)
        ]
        numbers = (index for index, _ in level)
        done = 0
        for chunk in self.pool.map(_expand_chunk, chunks):
            queue = len(level) - done + len(found)
            reason = self.watch.look(len(self.index), self.generated, self.depth, queue)
            if reason is not None:
                return reason
            self.watch.add_cpu(chunk.cpu_seconds)
            done += len(chunk.steps)
            for steps in chunk.steps:
                self._book(next(numbers), steps, found)
        return None

    def _book(self, index: int, steps: list[Found], found: list[tuple[int, S]]) -> None:
        if not steps and not self.model.may_end:
            raise Violated("Deadlock", index)
        self.generated += len(steps)
        edges: list[tuple[int, Label]] = []
        for step in steps:
            self.taken[step.label[0]] += 1
            target = self._book_step(step, index, found)
            if step.step_fault is not None:
                raise Violated(step.step_fault, index, step.key)
            if target >= 0:
                edges.append((target, step.label))
        if self.graph is not None:
            self.graph.add_edges(index, edges)

    def _book_step(self, step: Found, parent: int, found: list[tuple[int, S]]) -> int:
        known = self.index.get(step.key)
        if known is not None:
            return known
        if step.fault is not None:
            number = self._number(step.key, parent)
            raise Violated(step.fault, number)
        if step.is_outside:
            return -1
        assert step.data is not None, "a worker sends what it has not sent before"
        state: S = self.codec.decode(step.data)
        self._keep(self._number(step.key, parent), state, parent, found)
        return self.index[step.key]


class _Worker(Generic[S]):
    """What a worker keeps between chunks: the model, made ready, and what it has sent."""

    def __init__(self, model: Model[S], wanted: tuple[Property, ...], symmetry: bool) -> None:
        self.search = Search(model, wanted, symmetry, Watch(Budget(), None))
        self.sent: set[int] = set()

    def expand(self, data: bytes) -> Iterator[Found]:
        search = self.search
        state = search.codec.decode(data)
        wants_labels = search.graph is not None
        for label, after in search.instances.successors(state):
            encoded = search.canonical(after)
            key = fingerprint(encoded)
            fault, is_outside, sent = None, False, None
            if key not in self.sent:
                fault, is_outside = search.judged(after, encoded)
                sent = encoded
                if not is_outside:
                    self.sent.add(key)
            step_fault = search.step_fault(state, after)
            short = label if wants_labels else (label[0], ())
            yield Found(short, key, sent, fault, step_fault, is_outside)


_worker: list[_Worker[Any]] = []


def _hire(model: Model[Any], wanted: tuple[Property, ...], symmetry: bool) -> None:
    end_with_parent()
    _worker[:] = [_Worker(model, wanted, symmetry)]


def _expand_chunk(chunk: list[bytes]) -> Chunk:
    began = time.process_time()
    (worker,) = _worker
    steps = [list(worker.expand(data)) for data in chunk]
    return Chunk(steps, time.process_time() - began)
