"""Reading a table: one snapshot for all tasks, straight from the files of its parts.

Only the columns that are asked for are read, and of them only the ranges of rows that can meet the
conditions. Of a table that replaces, conditions on the key are applied while reading; others only when the
latest rows are known, or a row that was replaced long ago would come back.

Spark 4.3 plans a read when a DataFrame is first used, and keeps the plan. So the snapshot is taken when the
DataFrame is loaded, and all its uses read the same; to see what came later, load it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from motet.client.publication import TableSnapshot
from motet.client.sync import connect
from motet.columnar.filters import rows_kept
from motet.columnar.latest import latest_rows
from motet.columnar.part_file import read_part, row_group_rows
from motet.pipeline.arrow_types import arrow_schema, check_asked, fitted, picked, spark_schema
from motet.pipeline.options import SourceOptions
from motet.pipeline.pushdown import translated
from motet.pipeline.session import cores
from motet.pipeline.spark_worker import settle_in
from motet.pipeline.table_plan import TableTask, open_files, plan
from motet.pipeline.where import parse_where


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

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
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
