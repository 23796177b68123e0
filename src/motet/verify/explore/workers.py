"""The readable engine with several processes: they take the steps, one process keeps the books.

A level is cut into chunks. Workers decode the states of a chunk, take every step, and answer with a
fingerprint for each; the state itself, and what the properties say of it, only the first time they see
it. Chunks are booked in their order, and a worker is given them in that order, so whatever is new to the
books was new to the worker that sent it: numbers, counts and the shortest trace are those of one process.

Small levels are not worth a message, and are taken by the process that keeps the books.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, Generic, NamedTuple, TypeVar

from motet.verify.explore.breadth import Search, Violated
from motet.verify.explore.codec import fingerprint
from motet.verify.explore.instances import Label
from motet.verify.explore.result import Budget
from motet.verify.explore.watch import Watch
from motet.verify.model import Model, Record
from motet.verify.model.base import Property
from motet.verify.parent import end_with_parent

S = TypeVar("S", bound=Record)

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
