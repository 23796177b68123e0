"""The rows of a table from the files of its parts, as its engine means them.

With the engine ``replacing`` a key has one row: that with the highest version (in the order of keys: null
below everything, a struct field by field); of several with the same version, the last one of the block. A key
whose latest row has its tombstone set is not there. Parts are put one after the other, the oldest first, and
sorted together: merging parts that are sorted already would gain next to nothing of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pa_dataset
import pyarrow.parquet as pq

from motet.columnar.ordering import Ordering, Rows, check_sortable, take_rows
from motet.columnar.part_file import read_part
from motet.columnar.schema import decode_schema
from motet.core.tables.records import TableSpec
from motet.errors import BadSchema


def latest_rows(
    block: pa.Table, order_by: Sequence[str], version: str | None, tombstone: str | None
) -> pa.Table:
    """The latest row of each key that is not gone, sorted by key."""
    check_sortable(block.schema, (*order_by, *([version] if version is not None else [])))
    ordering = Ordering(block.num_rows)
    ordering.refine([block.column(name) for name in order_by])
    last_of_keys = _last_places(ordering)
    if version is not None:
        ordering.refine([block.column(version)])
    rows = ordering.order[last_of_keys]
    if tombstone is not None:
        rows = rows[~_is_set(block.column(tombstone), rows)]
    if len(rows) == block.num_rows and not ordering.moved:
        return block
    return take_rows(block, rows)


def _last_places(ordering: Ordering) -> Rows:
    """Where each run of equal rows ends."""
    starts = np.flatnonzero(ordering.is_first)
    return np.append(starts[1:], len(ordering.order))[: len(starts)] - 1


def _is_set(tombstones: pa.ChunkedArray, rows: Rows) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    filled: np.ndarray[tuple[int], np.dtype[np.bool_]] = tombstones.fill_null(False).to_numpy()
    return filled[rows]


def read_table(
    spec: TableSpec, sources: Sequence[str | BinaryIO], columns: Sequence[str] | None = None
) -> pa.Table:
    """All rows of some parts, oldest part first; of a table that replaces, the latest of each key."""
    schema = decode_schema(spec.schema)
    wanted = checked_columns(spec, schema, columns)
    if spec.engine == "merge":
        batches = [batch for source in sources for batch in read_part(source, schema, wanted)]
        return pa.Table.from_batches(batches, schema=_part_of(schema, wanted))
    needed = _needed(spec, schema, wanted)
    within = _part_of(schema, needed)
    blocks = [
        pa.Table.from_batches(list(read_part(source, schema, needed)), schema=within)
        for source in sources
    ]
    if not blocks:
        return _part_of(schema, wanted).empty_table()
    block = pa.concat_tables(blocks)
    return latest_rows(block, spec.order_by, spec.version, spec.tombstone).select(wanted)


def checked_columns(spec: TableSpec, schema: pa.Schema, columns: Sequence[str] | None) -> list[str]:
    """The columns to read; ``BadSchema`` names one that is not there."""
    if columns is None:
        return list(schema.names)
    wanted = [columns] if isinstance(columns, str) else list(columns)
    for column in wanted:
        if column not in schema.names:
            raise BadSchema(
                f"{spec.name} has no column {column!r}",
                hint=f"its columns are {', '.join(schema.names)}",
            )
    return wanted


def _needed(spec: TableSpec, schema: pa.Schema, wanted: Sequence[str]) -> list[str]:
    """What has to be read to tell which rows are the latest, and what was asked for."""
    needed = {*wanted, *spec.order_by, *_named(spec.version, spec.tombstone)}
    return [name for name in schema.names if name in needed]


def _named(*columns: str | None) -> Iterable[str]:
    return (column for column in columns if column is not None)


def _part_of(schema: pa.Schema, columns: Sequence[str]) -> pa.Schema:
    return pa.schema([schema.field(column) for column in columns])


class Spool:
    """Takes pieces of one schema, and is a table, or a dataset, at its end."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._schema = schema
        self._first: pa.Table | None = None
        self._writer: pq.ParquetWriter | None = None

    def add(self, piece: pa.Table) -> None:
        """One more piece."""
        if not piece.num_rows:
            return
        if self._first is None and self._writer is None:
            self._first = piece
            return
        if self._writer is None:
            self._writer = pq.ParquetWriter(str(self._path), self._schema)
            self._writer.write_table(self._first)
            self._first = None
        self._writer.write_table(piece)

    def done(self) -> Any:
        """All pieces, for whatever takes Arrow; the file is to be kept as long as that is used."""
        if self._writer is None:
            return self._schema.empty_table() if self._first is None else self._first
        self._writer.close()
        return pa_dataset.dataset(str(self._path), schema=self._schema, format="parquet")
