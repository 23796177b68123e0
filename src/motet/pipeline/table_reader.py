"""Reading a table: one snapshot for all tasks, straight from the files of its parts.

Only the columns that are asked for are read, and of them only the ranges of rows that can meet the
conditions. Of a table that replaces, conditions on the key are applied while reading; others only when the
latest rows are known, or a row that was replaced long ago would come back.

Spark 4.3 plans a read when a DataFrame is first used, and keeps the plan. So the version is settled when the
DataFrame is loaded, and all its uses read the same; to see what came later, load it again. An *eventual* read
has no version: it is what some replica of each shard has when the read is planned.

A task gets parts and says nothing to the keeper: it opens them in a folder of its own machine, or over HTTP
at any node that has them. A table that keeps all its rows is read part by part, neighbours together. A task
costs Spark and its worker as much as a few hundred thousand rows: so there are as many tasks as run side by
side, or a multiple of that where they would get too long, and fewer where there is little to read.

A table that keeps the latest row of a key needs all rows of a key in one task. These are in one shard and
partition, which is called a place here: small places are read together by one task, a large one in ranges of
the first column of its key, each task taking its range from every part of the place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from msgspec.structs import replace
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.datasource import Filter as SparkFilter
from pyspark.sql.types import StructType

from motet.client.publication import PartLocation, ShownPart, TableSnapshot
from motet.client.sync import connect
from motet.client.table_files import open_parts
from motet.columnar.filters import Filter, GreaterOrEqual, Less, can_filter
from motet.columnar.part_reader import read_batches
from motet.pipeline.arrow_types import arrow_schema, check_asked, fitted, picked, spark_schema
from motet.pipeline.options import SourceOptions
from motet.pipeline.session import cores, settle_in
from motet.pipeline.where import parse_where, translated

task_rows_min, task_bytes_min = 500_000, 16 << 20
"""A task gets about so many rows at least, or bytes in files: less is not worth a task."""

task_rows_max, task_bytes_max = 4_000_000, 128 << 20
"""A task gets about so many at most: it shows progress, and one that fails is not too much to do again."""

replacing_task_rows = 1_000_000
"""A table that replaces is cut into tasks of about so many rows."""


class TableTask(InputPartition):
    """What one task reads: some parts, and of them the rows in a range of the key."""

    def __init__(self, parts: Sequence[PartLocation], key_range: tuple[Filter, ...] = ()) -> None:
        super().__init__(None)
        #: of each shard oldest first
        self.parts = tuple(parts)
        self.key_range = key_range


def plan(snapshot: TableSnapshot, side_by_side: int) -> list[TableTask]:
    """The tasks of a read, of which so many can run at once; at least one, since Spark wants one."""
    if snapshot.definition.engine == "merge":
        tasks = [TableTask(group) for group in _groups(snapshot, side_by_side)]
    else:
        tasks = list(_tasks_by_place(snapshot))
    return tasks or [TableTask(())]


def tasks_for(rows: int, size_bytes: int, side_by_side: int) -> int:
    """Into how many tasks so much is cut, if its parts allow."""
    most = max(-(-rows // task_rows_min), -(-size_bytes // task_bytes_min), 1)
    rounds_rows = -(-rows // (task_rows_max * side_by_side))
    rounds_bytes = -(-size_bytes // (task_bytes_max * side_by_side))
    return min(most, side_by_side * max(rounds_rows, rounds_bytes, 1))


def _groups(snapshot: TableSnapshot, side_by_side: int) -> list[list[PartLocation]]:
    """Neighbours together: a part goes to the task to which its middle row belongs."""
    total = max(snapshot.rows, 1)
    tasks = tasks_for(total, sum(part.size_bytes for part in snapshot.parts), side_by_side)
    groups: list[list[PartLocation]] = [[] for _ in range(tasks)]
    before = 0
    for part in snapshot.parts:
        group = min((2 * before + part.rows) * tasks // (2 * total), tasks - 1)
        groups[group].append(part.location)
        before += part.rows
    return [group for group in groups if group]


def _tasks_by_place(snapshot: TableSnapshot) -> Iterator[TableTask]:
    """Small places together, a large one in ranges."""
    places: dict[tuple[int, str], list[ShownPart]] = {}
    for part in snapshot.parts:
        places.setdefault((part.shard, part.partition), []).append(part)
    together: list[PartLocation] = []
    rows_together = 0
    for parts in places.values():
        rows = sum(part.rows for part in parts)
        locations = [part.location for part in parts]
        if rows > replacing_task_rows:
            yield from _ranges(snapshot, locations, rows)
            continue
        if together and rows_together + rows > replacing_task_rows:
            yield TableTask(together)
            together, rows_together = [], 0
        together, rows_together = together + locations, rows_together + rows
    if together:
        yield TableTask(together)


def _ranges(
    snapshot: TableSnapshot, locations: list[PartLocation], rows: int
) -> Iterator[TableTask]:
    """The parts of one place, cut by filters that keep every row in one task. A key has no nulls."""
    schema: pa.Schema = snapshot.schema
    column = snapshot.definition.order_by[0]
    cuts = _cuts(_lows(locations, column), -(-rows // replacing_task_rows))
    if not all(can_filter(Less(column, cut), schema) for cut in cuts):
        cuts = []
    starts = [(), *((GreaterOrEqual(column, cut),) for cut in cuts)]
    ends = [*((Less(column, cut),) for cut in cuts), ()]
    for start, end in zip(starts, ends, strict=True):
        yield TableTask(locations, (*start, *end))


def _lows(locations: list[PartLocation], column: str) -> list[tuple[Any, int]]:
    """The lowest key of each row group and its rows, as far as the files tell."""
    found = []
    with open_parts(locations) as sources:
        for source in sources:
            with source.open() as file:
                groups = [file.metadata.row_group(n) for n in range(file.metadata.num_row_groups)]
            for group in groups:
                low = _low(group, column)
                found += [] if low is None else [(low, group.num_rows)]
    return found


def _low(group: Any, column: str) -> Any:
    for place in map(group.column, range(group.num_columns)):
        statistics = place.statistics
        if place.path_in_schema == column and statistics is not None and statistics.has_min_max:
            try:
                return statistics.min
            except (ValueError, OverflowError):  # a time that Python cannot say
                return None
    return None


def _cuts(lows: list[tuple[Any, int]], tasks: int) -> list[Any]:
    """Keys that cut the rows into about so many ranges of the same size."""
    lows.sort(key=lambda low: low[0])
    total = sum(rows for _, rows in lows)
    cuts: list[Any] = []
    before = 0
    for low, rows in lows:
        is_due = before * tasks >= total * (len(cuts) + 1)
        if is_due and low > lows[0][0] and (not cuts or low > cuts[-1]):
            cuts.append(low)
        before += rows
    return cuts


class TableReader(DataSourceReader):
    """Reads a table at one version."""

    def __init__(
        self, options: SourceOptions, schema: StructType, side_by_side: int | None = None
    ) -> None:
        self._options = options
        #: tasks of the session that can run at once
        self._side_by_side = side_by_side or cores()
        name = options.table_name("read a table")
        snapshot = table_snapshot(options)
        if options.consistency == "sequential":
            self._options = replace(options, at=snapshot.version)
        self._definition = snapshot.definition
        self._own: pa.Schema = snapshot.schema
        check_asked(schema, spark_schema(self._own), options.columns, f"table {name}")
        self._schema = arrow_schema(schema)
        where = options.where
        self._filters = [] if where is None else parse_where(where, self._own)

    def partitions(self) -> list[TableTask]:
        return plan(table_snapshot(self._options), self._side_by_side)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TableTask)
        settle_in()
        filters = [*self._filters, *partition.key_range]
        with open_parts(partition.parts) as sources:
            for batch in read_batches(self._definition, sources, self._schema.names, filters):
                yield fitted(batch, self._schema)


class PushingTableReader(TableReader):
    """The same, taking over the filters of a query that it can apply exactly as Spark would."""

    def pushFilters(self, filters: list[SparkFilter]) -> Iterable[SparkFilter]:  # noqa: N802
        made = [(given, translated(given, self._own)) for given in filters]
        self._filters += [ours for _, ours in made if ours is not None]
        return [given for given, ours in made if ours is None]


def table_snapshot(options: SourceOptions) -> TableSnapshot:
    """The table at the version that is asked for, or now."""
    assert options.table is not None
    settle_in()
    with connect(options.endpoint) as db:
        return db.table(options.table).snapshot(options.at, options.consistency)


def table_spark_schema(snapshot: TableSnapshot, options: SourceOptions) -> StructType:
    """The columns of a table as Spark sees them."""
    return picked(spark_schema(snapshot.schema), options.columns, f"table {options.table}")
