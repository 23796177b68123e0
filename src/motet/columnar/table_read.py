"""The rows of a table from the files of its parts, as its engine means them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import BinaryIO

import pyarrow as pa

from motet.columnar.latest import latest_rows
from motet.columnar.part_file import read_part
from motet.columnar.schema import decode_schema
from motet.core.tables.records import TableSpec
from motet.errors import BadSchema


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
