"""The vectorised engine: a level is a few arrays, an action is a few array operations.

Breadth first as in the readable engine, with the same counts. States that were seen are kept as 64-bit
fingerprints in sorted runs, merged like a log-structured tree; the packed states of every level are kept too
(they are small), so that a counterexample is found backwards: a parent is whoever steps onto its child.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from motet.errors import BadInput
from motet.verify.explore.codec import Codec, fingerprint
from motet.verify.explore.instances import Instances, replay
from motet.verify.explore.kernels import Kernels, accept, numpy_or_refuse
from motet.verify.explore.result import Budget, Exploration, Progress, Watch
from motet.verify.model import Model
from motet.verify.model.base import wanted_properties

if TYPE_CHECKING:
    from motet.verify.explore.kernels import Column

_ROWS_AT_ONCE = 1 << 18


def kernels_of(model: Model[Any]) -> type[Kernels[Any]] | str:
    """The kernels of a model, or why there are none for it at this size."""
    kernels: type[Kernels[Any]] | None = model.kernels()
    if kernels is None:
        return f"{model.name} offers no kernels"
    return kernels.refuses(model) or kernels


def explore_packed(
    model: Model[Any],
    *,
    properties: Iterable[str] | None = None,
    symmetry: bool = False,
    budget: Budget | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Exploration:
    """Explore a model with its kernels, after they have been compared with its readable actions."""
    kernels = kernels_of(model)
    if isinstance(kernels, str):
        raise BadInput(kernels, hint="use --engine readable")
    watch = Watch(budget or Budget(), progress)
    accept(kernels, model)
    wanted = [p.title for p in wanted_properties(model, properties, liveness=False)]
    return _PackedSearch(model, kernels(model), wanted, symmetry, watch).run()


class _PackedSearch:
    def __init__(
        self,
        model: Model[Any],
        kernels: Kernels[Any],
        wanted: list[str],
        symmetry: bool,
        watch: Watch,
    ) -> None:
        self.np = numpy_or_refuse()
        self.model, self.kernels, self.symmetry, self.watch = model, kernels, symmetry, watch
        self.steps = list(kernels.steps())
        self.wanted = wanted
        offered = kernels.invariants()
        self.invariants = [(title, offered[title]) for title in wanted]
        self.runs: list[Any] = []
        self.levels: list[list[Column]] = []
        self.taken: dict[str, int] = dict.fromkeys((title for title, _ in self.steps), 0)
        self.generated = self.distinct = 0

    def run(self) -> Exploration:
        np = self.np
        rows = [self.kernels.pack(state) for state in self.model.initial()]
        level = [np.array(column, dtype=np.uint64) for column in zip(*rows, strict=True)]
        self.generated = len(rows)
        level = self._new(self._canonical(level))
        while len(level[0]):
            self.levels.append(level)
            self.distinct += len(level[0])
            wrong = self._violated(level)
            if wrong is not None:
                return self._result("violated", property=wrong[0], trace=self._trace(wrong[1]))
            reason = self.watch.look(self.distinct, self.generated, len(self.levels), len(level[0]))
            if reason is not None:
                return self._result("unknown", reason=reason)
            after, stuck = self._expand(level)
            if stuck is not None:
                return self._result("violated", property="Deadlock", trace=self._trace(stuck))
            level = self._new(after)
        return self._result("ok")

    def _canonical(self, columns: list[Column]) -> list[Column]:
        return self.kernels.canonical(columns) if self.symmetry else columns

    def _expand(self, level: list[Column]) -> tuple[list[Column], int | None]:
        """All states one step on, some of them more than once; and a row without any step."""
        np = self.np
        parts: list[list[Column]] = [[] for _ in level]
        for begin in range(0, len(level[0]), _ROWS_AT_ONCE):
            chunk = [column[begin : begin + _ROWS_AT_ONCE] for column in level]
            possible = np.zeros(len(chunk[0]), dtype=bool)
            fresh: list[list[Column]] = [[] for _ in level]
            for title, step in self.steps:
                rows, after = step(chunk)
                possible[rows] = True
                self.taken[title] += len(rows)
                self.generated += len(rows)
                for part, column in zip(fresh, after, strict=True):
                    part.append(column)
            if not self.model.may_end and not possible.all():
                return level, begin + int(np.flatnonzero(~possible)[0])
            columns = self._canonical([np.concatenate(part) for part in fresh])
            if len(level[0]) > _ROWS_AT_ONCE:  # else they are sorted once, when the seen ones go
                _, first = self._unique(columns)
                columns = [column[first] for column in columns]
            for part, column in zip(parts, columns, strict=True):
                part.append(column)
        return [np.concatenate(part) for part in parts], None

    def _fingerprints(self, columns: list[Column]) -> Any:
        """64 well-mixed bits for each row."""
        np = self.np
        mixed = np.zeros(len(columns[0]), dtype=np.uint64)
        for column in columns:
            mixed = (mixed ^ column) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
            mixed *= np.uint64(0xBF58476D1CE4E5B9)
            mixed ^= mixed >> np.uint64(32)
        return mixed

    def _unique(self, columns: list[Column]) -> tuple[Any, Any]:
        """The fingerprints in order, each once, and a row for each: equal rows are equal states."""
        np = self.np
        keys = self._fingerprints(columns)
        order = np.argsort(keys)
        keys = keys[order]
        is_first = np.ones(len(keys), dtype=bool)
        is_first[1:] = keys[1:] != keys[:-1]
        return keys[is_first], order[is_first]

    def _new(self, columns: list[Column]) -> list[Column]:
        """The rows that were not seen before; they count as seen from now on."""
        np = self.np
        keys, first = self._unique(columns)
        is_new = np.ones(len(keys), dtype=bool)
        for run in self.runs:
            at = np.searchsorted(run, keys)
            at[at == len(run)] = 0
            is_new &= run[at] != keys
        keys, first = keys[is_new], first[is_new]
        if len(keys):
            self.runs.append(keys)
        while len(self.runs) > 1 and len(self.runs[-2]) < 2 * len(self.runs[-1]):
            merged = np.concatenate([self.runs.pop(), self.runs.pop()])
            merged.sort(kind="stable")
            self.runs.append(merged)
        return [column[first] for column in columns]

    def _violated(self, level: list[Column]) -> tuple[str, int] | None:
        for title, holds in self.invariants:
            good = holds(level)
            if not good.all():
                return title, int(self.np.flatnonzero(~good)[0])
        return None

    def _trace(self, row: int) -> Any:
        """Backwards from a row of the last level, then forwards by the readable actions."""
        np = self.np
        path = [tuple(int(column[row]) for column in self.levels[-1])]
        for level in reversed(self.levels[:-1]):
            wanted = self._fingerprints([np.array([word], dtype=np.uint64) for word in path[-1]])[0]
            for _, step in self.steps:
                rows, after = step(level)
                hits = np.flatnonzero(self._fingerprints(self._canonical(after)) == wanted)
                if len(hits):
                    path.append(tuple(int(column[rows[hits[0]]]) for column in level))
                    break
        encode = Codec[Any](self.model.state_type).encode

        def key(state: Any) -> int:
            return fingerprint(encode(self._representative(state)))

        path.reverse()
        keys = [fingerprint(encode(self.kernels.unpack(packed))) for packed in path]
        return replay(Instances(self.model), keys, key)

    def _representative(self, state: Any) -> Any:
        if not self.symmetry:
            return state
        columns = [self.np.array([word], dtype=self.np.uint64) for word in self.kernels.pack(state)]
        return self.kernels.unpack(tuple(int(c[0]) for c in self._canonical(columns)))

    def _result(self, verdict: Any, **rest: Any) -> Exploration:
        return Exploration(
            model=self.model.name,
            settings=dict(self.model.settings),
            verdict=verdict,
            distinct=self.distinct,
            depth=len(self.levels),
            generated=self.generated,
            seconds=self.watch.seconds,
            cpu_seconds=self.watch.cpu_seconds,
            engine="vectorised, symmetric" if self.symmetry else "vectorised",
            properties=tuple(self.wanted),
            coverage=dict(self.taken),
            **rest,
        )
