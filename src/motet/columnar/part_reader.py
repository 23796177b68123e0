"""Reading the rows of parts by the columns that the table has now.

Columns of a file are found by their ids: one that was renamed keeps its values, one that was added later is
null, one that is gone is left alone. Row groups that cannot have a row that is wanted are not read, and whole
parts not even opened.

With the engine ``replacing`` a key has one row, the latest (:mod:`motet.columnar.latest`). Versions of a key
are in one shard and one partition (T10), so these are read one after the other, and within them only parts
whose ranges of keys overlap are put together. Filters on columns of the key are applied as files are read;
the others see the latest rows alone: an older row must not show where the latest one does not pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from motet.columnar.filters import Bounds, Filter, bounds_in, check_filters, may_be_true, rows_kept
from motet.columnar.latest import latest_rows
from motet.columnar.part_facts import comparable_key, leaves_of, may_match
from motet.columnar.part_layout import row_group_rows
from motet.columnar.part_schema import column_ids, id_of, retyped, table_schema
from motet.columnar.part_sources import PartSource, damaged
from motet.core.metadata.definitions import TableDefinition
from motet.errors import BadSchema


def read_table(
    definition: TableDefinition,
    sources: Sequence[PartSource],
    columns: Sequence[str] | None = None,
    filters: Sequence[Filter] = (),
    *,
    final: bool = True,
) -> pa.Table:
    """The rows of some parts, oldest part first, that pass all filters, with these columns."""
    wanted = selected_columns(definition, columns)
    schema = pa.schema([table_schema(definition).field(name) for name in wanted])
    batches = read_batches(definition, sources, wanted, filters, final=final)
    return pa.Table.from_batches(batches, schema=schema)


def read_batches(
    definition: TableDefinition,
    sources: Sequence[PartSource],
    columns: Sequence[str] | None = None,
    filters: Sequence[Filter] = (),
    *,
    final: bool = True,
) -> Iterator[pa.RecordBatch]:
    """The same as it is read, so that no more than some overlapping parts are in memory."""
    wanted = selected_columns(definition, columns)
    check_filters(filters, table_schema(definition))
    if definition.engine == "merge" or not final:
        for source in sources:
            yield from read_part(definition, source, wanted, filters)
        return
    of_key = [each for each in filters if each.column in definition.order_by]
    others = [each for each in filters if each.column not in definition.order_by]
    needed = _needed(definition, [*wanted, *(each.column for each in others)])
    for group in overlapping(definition, sources):
        rows = _together(definition, group, needed, of_key)
        latest = latest_rows(rows, definition.order_by, definition.version, definition.tombstone)
        for batch in latest.to_batches(max_chunksize=row_group_rows):
            kept = rows_kept(batch, others)
            if kept.num_rows:
                yield kept.select(wanted)


def read_part(
    definition: TableDefinition,
    source: PartSource,
    columns: Sequence[str] | None = None,
    filters: Sequence[Filter] = (),
) -> Iterator[pa.RecordBatch]:
    """The rows of one part that pass all filters, in its order, with these columns."""
    wanted = selected_columns(definition, columns)
    check_filters(filters, table_schema(definition))
    if not may_match(definition, source.manifest, filters):
        return
    needed = list(dict.fromkeys([*wanted, *(each.column for each in filters)]))
    with source.open() as file:
        for batch in _Columns(definition, source, file).read(needed, filters):
            kept = rows_kept(batch, filters)
            if kept.num_rows:
                yield kept.select(wanted)


def selected_columns(definition: TableDefinition, columns: Sequence[str] | None) -> list[str]:
    """The columns to read, all for None; ``BadSchema`` names one that is not there."""
    known = [column.name for column in definition.columns]
    if columns is None:
        return known
    wanted = [columns] if isinstance(columns, str) else list(columns)
    for column in wanted:
        if column not in known:
            raise BadSchema(
                f"there is no column {column!r}", hint=f"the columns are {', '.join(known)}"
            )
    return wanted


class _Columns:
    """The columns of a file, as those of the table."""

    def __init__(
        self, definition: TableDefinition, source: PartSource, file: pq.ParquetFile
    ) -> None:
        self._schema = table_schema(definition)
        self._ids = column_ids(definition)
        self._manifest = source.manifest
        self._file = file
        fields = list(file.schema_arrow)
        #: id -> its name in the file, and its first leaf
        self._found: dict[int, tuple[str, int]] = {}
        leaf = 0
        for field in fields:
            number = id_of(field)
            if number is not None:
                self._found[number] = field.name, leaf
            leaf += leaves_of(field.type)

    def read(self, columns: Sequence[str], filters: Sequence[Filter]) -> Iterator[pa.RecordBatch]:
        """These columns of the row groups in which a row may pass."""
        groups = self._groups(filters)
        stored = [self._found[n][0] for n in map(self._ids.get, columns) if n in self._found]
        schema = pa.schema([self._schema.field(name) for name in columns])
        try:
            for batch in self._file.iter_batches(
                batch_size=row_group_rows,
                row_groups=groups,
                columns=stored,
                use_threads=False,  # a Spark task has one core, and others have theirs
            ):
                yield self._conformed(batch, columns, schema)
        except (pa.ArrowException, OSError) as error:
            raise damaged(self._manifest, f"it cannot be read: {error}") from error

    def _conformed(
        self, batch: pa.RecordBatch, columns: Sequence[str], schema: pa.Schema
    ) -> pa.RecordBatch:
        if not columns:
            return batch.select([])
        given = {id_of(field): place for place, field in enumerate(batch.schema)}
        arrays = []
        for name, field in zip(columns, schema, strict=True):
            place = given.get(self._ids[name])
            if place is None:
                arrays.append(pa.nulls(batch.num_rows, field.type))
            else:
                arrays.append(retyped(batch.column(place), field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _groups(self, filters: Sequence[Filter]) -> list[int]:
        metadata = self._file.metadata
        return [
            group
            for group in range(metadata.num_row_groups)
            if all(self._may_pass(metadata.row_group(group), each) for each in filters)
        ]

    def _may_pass(self, group: Any, each: Filter) -> bool:
        kind = self._schema.field(each.column).type
        return may_be_true(each, kind, self._bounds(group, each.column, kind))

    def _bounds(self, group: Any, column: str, kind: pa.DataType) -> Bounds:
        found = self._found.get(self._ids[column])
        if found is None:
            return Bounds(group.num_rows, group.num_rows, None, None)
        return bounds_in(group, None if pa.types.is_nested(kind) else found[1])


def overlapping(
    definition: TableDefinition, sources: Sequence[PartSource]
) -> Iterator[list[PartSource]]:
    """Parts that may have rows of one key, together and oldest first; others apart."""
    places: dict[tuple[int, str], list[PartSource]] = {}
    for source in sources:
        place = source.manifest.shard, source.manifest.partition
        places.setdefault(place, []).append(source)
    schema = table_schema(definition)
    kinds = [schema.field(name).type for name in definition.order_by]
    for together in places.values():
        yield from _by_range(together, kinds)


def _by_range(
    sources: Sequence[PartSource], kinds: Sequence[pa.DataType]
) -> Iterator[list[PartSource]]:
    ranges = []
    for age, source in enumerate(sources):
        low = comparable_key(source.manifest.low_key, kinds)
        high = comparable_key(source.manifest.high_key, kinds)
        if low is None or high is None:  # a key that is too long to be known whole
            yield list(sources)
            return
        ranges.append((low, high, age))
    ranges.sort(key=lambda each: each[0])
    group: list[int] = []
    top: tuple[object, ...] = ()
    for low, high, age in ranges:
        if group and low > top:
            yield [sources[each] for each in sorted(group)]
            group = []
        top = max(top, high) if group else high
        group.append(age)
    if group:
        yield [sources[each] for each in sorted(group)]


def _together(
    definition: TableDefinition,
    sources: Sequence[PartSource],
    columns: Sequence[str],
    filters: Sequence[Filter],
) -> pa.Table:
    schema = pa.schema([table_schema(definition).field(name) for name in columns])
    batches = [b for source in sources for b in read_part(definition, source, columns, filters)]
    return pa.Table.from_batches(batches, schema=schema)


def _needed(definition: TableDefinition, wanted: Sequence[str]) -> list[str]:
    """What has to be read to tell which rows are the latest, and what is asked for."""
    needed = {*wanted, *definition.order_by, definition.version, definition.tombstone}
    return [column.name for column in definition.columns if column.name in needed]
