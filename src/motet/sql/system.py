"""The system's own tables for SQL: what there is, as rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from motet.columnar.schema import decode_schema
from motet.core.clock.hlc import Clock
from motet.core.streams.messages import StreamInfo
from motet.core.tables.messages import TableInfo, VisiblePart, WriterInfo
from motet.core.tables.records import TableSpec

CLOCK = pa.struct([("logical", pa.int64()), ("counter", pa.int32())])
STRINGS = pa.list_(pa.string())


def tables_table(tables: Iterable[TableInfo]) -> pa.Table:
    """``system.tables``"""
    schema = pa.schema(
        [
            ("name", pa.string()),
            ("engine", pa.string()),
            ("order_by", STRINGS),
            ("version", pa.string()),
            ("tombstone", pa.string()),
            ("columns", STRINGS),
            ("shards", pa.int32()),
            ("parts", pa.int64()),
            ("rows", pa.int64()),
            ("bytes", pa.int64()),
            ("born", CLOCK),
        ]
    )
    rows = [
        {
            "name": info.spec.name,
            "engine": info.spec.engine,
            "order_by": list(info.spec.order_by),
            "version": info.spec.version,
            "tombstone": info.spec.tombstone,
            "columns": list(decode_schema(info.spec.schema).names),
            "shards": info.spec.shards,
            "parts": info.parts,
            "rows": info.rows,
            "bytes": info.size_bytes,
            "born": _clock(info.born),
        }
        for info in tables
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def parts_table(tables: Iterable[tuple[TableSpec, Sequence[VisiblePart]]]) -> pa.Table:
    """``system.parts``"""
    schema = pa.schema(
        [
            ("table", pa.string()),
            ("name", pa.string()),
            ("id", pa.string()),
            ("shard", pa.int32()),
            ("rows", pa.int64()),
            ("bytes", pa.int64()),
            ("clock", CLOCK),
            ("writer", pa.string()),
            ("epoch", pa.int64()),
        ]
    )
    rows = [
        {
            "table": spec.name,
            "name": str(visible.part.name),
            "id": visible.part.staged.id,
            "shard": visible.part.staged.shard,
            "rows": visible.part.staged.rows,
            "bytes": visible.part.staged.size_bytes,
            "clock": _clock(visible.clock),
            "writer": None if visible.step is None else visible.step.writer,
            "epoch": None if visible.step is None else visible.step.epoch,
        }
        for spec, parts in tables
        for visible in parts
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def streams_table(streams: Iterable[StreamInfo]) -> pa.Table:
    """``system.streams``"""
    schema = pa.schema(
        [
            ("name", pa.string()),
            ("shards", pa.int32()),
            ("entries", pa.int64()),
            ("typed", pa.bool_()),
            ("born", CLOCK),
        ]
    )
    rows = [
        {
            "name": info.name,
            "shards": info.shards,
            "entries": sum(info.entries),
            "typed": info.schema is not None,
            "born": _clock(info.born),
        }
        for info in streams
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def writers_table(writers: Iterable[WriterInfo]) -> pa.Table:
    """``system.writers``"""
    schema = pa.schema(
        [
            ("name", pa.string()),
            ("epoch", pa.int64()),
            ("through", CLOCK),
            ("rows", pa.int64()),
            ("steps", pa.int64()),
            ("tables", STRINGS),
            ("error", pa.string()),
        ]
    )
    rows = [
        {
            "name": info.writer,
            "epoch": None if info.step is None else info.step.epoch,
            "through": None if info.step is None else _clock(info.step.through),
            "rows": info.rows,
            "steps": info.steps,
            "tables": list(info.tables),
            "error": info.error,
        }
        for info in writers
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def _clock(clock: Clock) -> dict[str, int]:
    return {"logical": clock.logical, "counter": clock.counter}
