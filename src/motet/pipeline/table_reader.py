"""Reading a table: one snapshot for all tasks, straight from the files of its parts.

Only the columns that are asked for are read, and of them only the ranges of rows that can meet the
conditions. Of a table that replaces, conditions on the key are applied while reading; others only when the
latest rows are known, or a row that was replaced long ago would come back.

Spark 4.3 plans a read when a DataFrame is first used, and keeps the plan. So the snapshot is taken when the
DataFrame is loaded, and all its uses read the same; to see what came later, load it again.

A table that keeps all its rows is read part by part, neighbours together. A task costs Spark and its worker
as much as a few hundred thousand rows: so there are as many tasks as run side by side, or a multiple of that
where they would get too long, and fewer where there is little to read. A table that keeps the latest row of a
key needs all rows of a key in one task: a small one is read by a single task, a large one in ranges of the
first column of its key, each task taking its range from every part. Nulls are a range of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.datasource import Filter as SparkFilter
from pyspark.sql.types import StructType

from motet.client.parts import PartsLocator, open_parts
from motet.client.publication import TableSnapshot
from motet.client.sync import connect
from motet.columnar.filters import Filter, GreaterOrEqual, IsNull, Less, can_filter, rows_kept
from motet.columnar.latest import latest_rows
from motet.columnar.part_file import read_part
from motet.columnar.part_layout import row_group_rows
from motet.ids import ObjectKey
from motet.pipeline.arrow_types import arrow_schema, check_asked, fitted, picked, spark_schema
from motet.pipeline.options import SourceOptions
from motet.pipeline.session import cores, settle_in
from motet.pipeline.where import parse_where, translated

task_rows_min, task_bytes_min = 500_000, 16 << 20
"""A task gets about so many rows at least, or bytes in files: less is not worth a task."""

task_rows_max, task_bytes_max = 4_000_000, 128 << 20
"""A task gets about so many at most: it shows progress, and one that fails is not too much to do again."""

replacing_task_rows = 1_000_000
"""A table that replaces is cut into ranges of about so many rows."""

File = tuple[ObjectKey, int]


class TableTask(InputPartition):
    """What one task reads: some files, and of them the rows in a range of the key."""

    def __init__(
        self, locator: PartsLocator, files: tuple[File, ...], key_range: tuple[Filter, ...] = ()
    ) -> None:
        super().__init__(None)
        self.locator = locator
        #: of parts, oldest first, with their sizes in bytes
        self.files = files
        self.key_range = key_range


@contextmanager
def open_files(
    locator: PartsLocator, files: tuple[File, ...]
) -> Iterator[Iterator[str | BinaryIO]]:
    """Files of parts as they are read: from this machine's disk, or in ranges from a node."""
    store = open_parts(locator)
    try:
        yield (store.source(key, size_bytes) for key, size_bytes in files)
    finally:
        asyncio.run(store.close())


def plan(snapshot: TableSnapshot, locator: PartsLocator, side_by_side: int) -> list[TableTask]:
    """The tasks of a read, of which so many can run at once; at least one, since Spark wants one."""
    files = tuple(snapshot.files())
    if snapshot.spec.engine == "merge":
        return [TableTask(locator, group) for group in _groups(snapshot, files, side_by_side)]
    return [TableTask(locator, files, ends) for ends in _key_ranges(snapshot, files, locator)]


def tasks_for(rows: int, size_bytes: int, side_by_side: int) -> int:
    """Into how many tasks so much is cut, if its parts allow."""
    most = max(-(-rows // task_rows_min), -(-size_bytes // task_bytes_min), 1)
    rounds_rows = -(-rows // (task_rows_max * side_by_side))
    rounds_bytes = -(-size_bytes // (task_bytes_max * side_by_side))
    return min(most, side_by_side * max(rounds_rows, rounds_bytes, 1))


def _groups(
    snapshot: TableSnapshot, files: tuple[File, ...], side_by_side: int
) -> list[tuple[File, ...]]:
    """Neighbours together: a part goes to the task to which its middle row belongs."""
    total = max(snapshot.rows, 1)
    tasks = tasks_for(total, sum(size_bytes for _, size_bytes in files), side_by_side)
    groups: list[list[File]] = [[] for _ in range(tasks)]
    before = 0
    for file, visible in zip(files, snapshot.parts, strict=True):
        rows = visible.part.staged.rows
        groups[min((2 * before + rows) * tasks // (2 * total), tasks - 1)].append(file)
        before += rows
    return [tuple(group) for group in groups if group] or [()]


def _key_ranges(
    snapshot: TableSnapshot, files: tuple[File, ...], locator: PartsLocator
) -> list[tuple[Filter, ...]]:
    """Filters that share the rows out; together they keep every row, and each row is kept by one."""
    if snapshot.rows <= replacing_task_rows:
        return [()]
    schema: pa.Schema = snapshot.schema
    column = snapshot.spec.order_by[0]
    lows = _lows(files, locator, column)
    cuts = _cuts(lows, -(-snapshot.rows // replacing_task_rows))
    if not cuts or not all(can_filter(Less(column, cut), schema) for cut in cuts):
        return [()]
    starts = [(), *((GreaterOrEqual(column, cut),) for cut in cuts)]
    ends = [*((Less(column, cut),) for cut in cuts), ()]
    ranges: list[tuple[Filter, ...]] = [(*s, *e) for s, e in zip(starts, ends, strict=True)]
    return [(IsNull(column),), *ranges] if schema.field(column).nullable else ranges


def _lows(files: tuple[File, ...], locator: PartsLocator, column: str) -> list[tuple[Any, int]]:
    """The lowest key of each row group and its rows, as far as the files tell."""
    found = []
    with open_files(locator, files) as sources:
        for source in sources:
            with pq.ParquetFile(source) as file:
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
    """Reads a table at one clock."""

    def __init__(
        self, options: SourceOptions, schema: StructType, side_by_side: int | None = None
    ) -> None:
        self._endpoint = options.endpoint
        #: tasks of the session that can run at once
        self._side_by_side = side_by_side or cores()
        name = options.table_name("read a table")
        snapshot = table_snapshot(options)
        self._spec, self._clock = snapshot.spec, snapshot.clock
        self._own: pa.Schema = snapshot.schema
        check_asked(schema, spark_schema(self._own), options.columns, f"table {name}")
        self._schema = arrow_schema(schema)
        where = options.where
        self._filters = [] if where is None else parse_where(where, self._own)

    def partitions(self) -> list[TableTask]:
        settle_in()
        with connect(self._endpoint) as db:
            snapshot = db.snapshot(self._spec.name, at=self._clock)[self._spec.name]
            return plan(snapshot, db.parts_locator(), self._side_by_side)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TableTask)
        settle_in()
        is_merge = self._spec.engine == "merge"
        for batch in self._all_rows(partition) if is_merge else self._latest_rows(partition):
            yield fitted(batch, self._schema)

    def _all_rows(self, task: TableTask) -> Iterator[pa.RecordBatch]:
        with open_files(task.locator, task.files) as sources:
            for source in sources:
                yield from read_part(source, self._own, self._schema.names, self._filters)

    def _latest_rows(self, task: TableTask) -> Iterator[pa.RecordBatch]:
        spec = self._spec
        early = [each for each in self._filters if each.column in spec.order_by]
        late = [each for each in self._filters if each.column not in spec.order_by]
        needed = {*self._schema.names, *spec.order_by, *(each.column for each in late)}
        needed |= {name for name in (spec.version, spec.tombstone) if name is not None}
        within = pa.schema([field for field in self._own if field.name in needed])
        with open_files(task.locator, task.files) as sources:
            batches = [
                batch
                for source in sources
                for batch in read_part(source, self._own, within.names, [*early, *task.key_range])
            ]
        rows = pa.Table.from_batches(batches, schema=within)
        latest = latest_rows(rows, spec.order_by, spec.version, spec.tombstone)
        for batch in latest.to_batches(max_chunksize=row_group_rows):
            yield rows_kept(batch, late)


class PushingTableReader(TableReader):
    """The same, taking over the filters of a query that it can apply exactly as Spark would."""

    def pushFilters(self, filters: list[SparkFilter]) -> Iterable[SparkFilter]:  # noqa: N802
        made = [(given, translated(given, self._own)) for given in filters]
        self._filters += [ours for _, ours in made if ours is not None]
        return [given for given, ours in made if ours is None]


def table_snapshot(options: SourceOptions) -> TableSnapshot:
    """The table at the clock that is asked for, or now."""
    assert options.table is not None
    settle_in()
    with connect(options.endpoint) as db:
        return db.snapshot(options.table, at=options.at)[options.table]


def table_spark_schema(snapshot: TableSnapshot, options: SourceOptions) -> StructType:
    """The columns of a table as Spark sees them."""
    return picked(spark_schema(snapshot.schema), options.columns, f"table {options.table}")
