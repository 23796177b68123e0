"""Exploring a model on Spark, level by level: for more states than the memory of one machine holds.

A level is a folder of Parquet files with a row for each of its states: fingerprint, parent's fingerprint, and
the state itself. The next level is all steps from it, each state once, without those of any level before.
The first levels are small, and taken here, in this process, until a level has ``hand_over`` states.

Every level costs two jobs of Spark's, some seconds even for a handful of states: that is told per level, so
that nobody has to guess where the time went. It pays where states do not fit into memory, not before.

Invariants and properties of steps are checked, and deadlock. Liveness wants the whole graph, and is not.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from motet.errors import BadInput
from motet.pipeline.failure import SPARK_ERRORS, failure_of
from motet.verify.explore.breadth import Search
from motet.verify.explore.codec import fingerprint
from motet.verify.explore.result import Budget, Exploration, LevelCost, Progress
from motet.verify.explore.trace import replay
from motet.verify.explore.watch import Watch
from motet.verify.model import Model
from motet.verify.model.select import wanted_properties

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

hand_over_states = 20_000
"""A level of so many states is taken on Spark, and all behind it."""

rows_max = 10_000
"""Rows of one batch that a worker hands back."""

SCHEMA = "fp bigint, parent bigint, data binary, fault string, after bigint, told string"
"""``after`` is the state that a step leads to which violates ``fault``; ``told`` are a worker's counts."""


class Row(NamedTuple):
    """A state that was met, a fault, or what a worker has counted."""

    fp: int
    parent: int
    data: bytes
    fault: str | None = None
    after: int | None = None
    told: str | None = None


class Found(Exception):
    """A property is violated by the state of this fingerprint, or by a step from it."""

    def __init__(self, title: str, fp: int, after: int | None) -> None:
        self.title, self.fp, self.after = title, fp, after


def explore_levels(
    spark: SparkSession,
    model: Model[Any],
    *,
    properties: Iterable[str] | None = None,
    budget: Budget | None = None,
    progress: Callable[[Progress], None] | None = None,
    hand_over: int = hand_over_states,
) -> Exploration:
    """Explore a model; counts and verdict are those of the readable engine."""
    names = None if properties is None else list(properties)
    wanted = wanted_properties(model, names, liveness=False)
    asked = wanted_properties(model, names)
    if names is not None and len(asked) > len(wanted):
        raise BadInput("liveness is not checked on Spark", hint="leave out that property")
    if model.is_of_one_process:
        raise BadInput(f"{model.name} is explored in one process", hint="choose another engine")
    folder = Path(tempfile.mkdtemp(prefix="motet-levels-"))
    try:
        return Levels(spark, model, names, folder, budget or Budget(), progress, hand_over).run()
    except SPARK_ERRORS as error:
        raise failure_of(error, "the exploration") from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class Levels:
    """One exploration."""

    def __init__(
        self,
        spark: SparkSession,
        model: Model[Any],
        names: list[str] | None,
        folder: Path,
        budget: Budget,
        progress: Callable[[Progress], None] | None,
        hand_over: int,
    ) -> None:
        self._spark, self._model, self._names, self._folder = spark, model, names, folder
        self._watch = Watch(budget, progress)
        self._hand_over = hand_over
        self._worker = Worker(type(model), dict(model.settings), names)
        self.search = self._worker.search()
        self.distinct = self.generated = 0
        self.costs: list[LevelCost] = []
        self._taken: dict[str, int] = {}

    def run(self) -> Exploration:
        try:
            reason = self._levels()
        except Found as found:
            path = self._path(found.fp)
            if found.after is not None:
                path.append(found.after)
            steps = replay(self.search.instances, [unsigned(fp) for fp in path], self._fingerprint)
            return self._result("violated", property=found.title, trace=steps)
        return self._result("ok" if reason is None else "unknown", reason=reason)

    def _levels(self) -> str | None:
        rows = list(self._first())
        reason = self._keep(rows, 0.0, seen=(seen := {row.fp for row in rows}))
        while rows and reason is None and len(rows) < self._hand_over:
            began = time.monotonic()
            rows = [row for row in self._worker.expand(rows) if self._is_new(row, seen)]
            reason = self._keep(rows, began, seen)
        while rows and reason is None:
            reason, count = self._next_on_spark()
            if not count:
                break
        return reason

    def _first(self) -> Iterator[Row]:
        known: set[int] = set()
        for state in self._model.initial():
            self.generated += 1
            row, _ = self._worker.met(self.search, state, 0)
            if row is not None and row.fp not in known:
                known.add(row.fp)
                yield row

    def _is_new(self, row: Row, seen: set[int]) -> bool:
        if row.told is not None:
            self._count(row.told)
            return False
        if row.after is None and row.fp in seen and row.fault is None:
            return False
        seen.add(row.fp)
        return True

    def _keep(self, rows: list[Row], began: float, seen: set[int]) -> str | None:
        """Write down a level that was found here."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        states = [row for row in rows if row.after is None]
        self._write_cost(len(states), time.monotonic() - began if began else 0.0, "here")
        if states:
            table = pa.table(
                {
                    "fp": pa.array([row.fp for row in states], pa.int64()),
                    "parent": pa.array([row.parent for row in states], pa.int64()),
                    "data": pa.array([row.data for row in states], pa.binary()),
                }
            )
            target = self._level(len(self.costs) - 1)
            target.mkdir()
            pq.write_table(table, target / "here.parquet")
        faults = [row for row in rows if row.fault is not None]
        if faults:
            raise Found(str(faults[0].fault), faults[0].fp, faults[0].after)
        return self._watch.look(len(seen), self.generated, len(self.costs), len(states))

    # On Spark

    def _next_on_spark(self) -> tuple[str | None, int]:
        """One more level: every step from the last one, and of what they lead to all that is new."""
        began = time.monotonic()
        number = len(self.costs)
        raw = str(self._folder / "steps")
        level = self._spark.read.parquet(str(self._level(number - 1))).select("fp", "data")
        level.mapInArrow(self._worker, SCHEMA).write.mode("overwrite").parquet(raw)
        steps = self._spark.read.parquet(raw)
        for told in steps.where("told is not null").select("told").collect():
            self._count(told[0])
        new = self._new(steps)
        new.write.parquet(str(self._level(number)))
        count = self._spark.read.parquet(str(self._level(number))).count()
        if not count:
            shutil.rmtree(self._level(number))
        self._write_cost(count, time.monotonic() - began, "spark")
        faults = steps.where("fault is not null").orderBy("fp").limit(1).collect()
        if faults:
            raise Found(faults[0]["fault"], faults[0]["fp"], faults[0]["after"])
        reason = self._watch.look(self.distinct, self.generated, len(self.costs), count)
        return reason, count

    def _new(self, steps: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        met = steps.where("told is null and after is null")
        once = met.groupBy("fp").agg(f.min("parent").alias("parent"), f.first("data").alias("data"))
        before = [str(self._level(number)) for number in range(len(self.costs))]
        seen = self._spark.read.parquet(*before).select("fp")
        return once.join(seen, "fp", "left_anti")

    # Counting

    def _level(self, number: int) -> Path:
        return self._folder / f"level-{number:04}"

    def _count(self, told: str) -> None:
        counts = json.loads(told)
        self.generated += counts.pop("generated")
        for title, times in counts.items():
            self._taken[title] = self._taken.get(title, 0) + times

    def _write_cost(self, states: int, seconds: float, where: str) -> None:
        self.distinct += states
        if states or not self.costs:
            self.costs.append(LevelCost(len(self.costs) + 1, states, round(seconds, 2), where))

    def _fingerprint(self, state: Any) -> int:
        return fingerprint(self.search.canonical(state))

    def _path(self, fp: int) -> list[int]:
        """Back from a state to the beginning, a level at a time."""
        import pyarrow.parquet as pq

        path = [fp]
        for number in reversed(range(len(self.costs))):
            if not self._level(number).exists():
                continue
            table = pq.read_table(self._level(number), filters=[("fp", "=", path[0])])
            if table.num_rows and table["parent"][0].as_py() != 0:
                path.insert(0, table["parent"][0].as_py())
        return path

    def _result(self, verdict: Any, **rest: Any) -> Exploration:
        search = self.search
        return Exploration(
            model=self._model.name,
            settings=dict(self._model.settings),
            verdict=verdict,
            distinct=self.distinct,
            depth=max(len(self.costs), len(rest.get("trace", ()))),
            generated=self.generated,
            seconds=self._watch.seconds,
            cpu_seconds=self._watch.cpu_seconds,
            engine="spark",
            properties=("TypeOK", *(p.title for p in search.wanted)),
            coverage={
                action.title: self._taken.get(action.title, 0)
                for action in search.instances.actions
            },
            levels=tuple(self.costs),
            **rest,
        )


class Worker:
    """What a worker of Spark's does; made of what can travel there."""

    def __init__(
        self, model: type[Model[Any]], settings: dict[str, int], names: list[str] | None
    ) -> None:
        self._model, self._settings, self._names = model, settings, names

    def search(self) -> Search[Any]:
        """The readable engine, for what it knows of one state."""
        model = self._model(**self._settings)
        wanted = wanted_properties(model, self._names, liveness=False)
        return Search(model, wanted, False, Watch(Budget(), None))

    def met(self, search: Search[Any], state: Any, parent: int) -> tuple[Row | None, int]:
        """A state as a row, if no bound keeps it out; and its fingerprint."""
        data = search.canonical(state)
        key = signed(fingerprint(data))
        fault, is_outside = search.judged(state, data)
        if is_outside and fault is None:
            return None, key
        return Row(key, parent, data, fault), key

    def expand(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Every step from these states; in the end what was counted."""
        search = self.search()
        generated, taken = 0, dict.fromkeys((a.title for a in search.instances.actions), 0)
        known: set[int] = set()
        for row in rows:
            state = search.codec.decode(row.data)
            steps = search.instances.successors(state)
            generated += len(steps)
            if not steps and not search.model.may_end:
                yield Row(row.fp, row.parent, b"", "Deadlock", row.fp)
            for label, after in steps:
                taken[search.instances.actions[label[0]].title] += 1
                found, key = self.met(search, after, row.fp)
                fault = search.step_fault(state, after)
                if fault is not None:
                    yield Row(row.fp, row.parent, b"", fault, key)
                if found is not None and key not in known:
                    known.add(key)
                    yield found
        yield Row(0, 0, b"", told=json.dumps({"generated": generated, **taken}))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same in Arrow."""
        waiting: list[Row] = []
        for row in self.expand(_rows(batches)):
            waiting.append(row)
            if len(waiting) >= rows_max:
                yield _batch(waiting)
                waiting = []
        yield _batch(waiting)


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    for batch in batches:
        for fp, data in zip(
            batch.column("fp").to_pylist(), batch.column("data").to_pylist(), strict=True
        ):
            yield Row(fp, 0, data)


def _batch(rows: list[Row]) -> pa.RecordBatch:
    import pyarrow as pa

    types = [pa.int64(), pa.int64(), pa.binary(), pa.string(), pa.int64(), pa.string()]
    columns = list(zip(*rows, strict=True)) or [()] * len(types)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(Row._fields))


def signed(fp: int) -> int:
    """A fingerprint as a column of Spark's can hold it."""
    return fp - (1 << 64) if fp >= 1 << 63 else fp


def unsigned(fp: int) -> int:
    """And back."""
    return fp + (1 << 64) if fp < 0 else fp
