"""The system's own tables for SQL: what there is, as rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import pyarrow as pa

from motet.columnar.feed import AT, CLOCK, clock_column, feed_schema
from motet.columnar.schema import decode_schema
from motet.core.clock.hlc import Clock
from motet.core.onelog.messages import StreamInfo
from motet.core.streams.change import FeedChange
from motet.core.tables.messages import TableInfo, VisiblePart, WriterInfo
from motet.core.tables.records import TableSpec
from motet.ids import StreamName

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
            ("created", CLOCK),
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
            "created": _clock(info.created),
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
            ("created", CLOCK),
        ]
    )
    rows = [
        {
            "name": info.name,
            "shards": info.shards,
            "entries": sum(info.entries) if info.entries else None,
            "typed": info.schema is not None,
            "created": _clock(info.created) if info.entries else None,
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


def changes_schema() -> pa.Schema:
    """``system.changes``: the columns of the feed; rows are JSON, whatever their stream."""
    return feed_schema([JsonStream()])


class JsonStream(msgspec.Struct, frozen=True):
    """Stands for any stream, its rows taken as JSON."""

    name: StreamName = StreamName("")
    schema: bytes | None = None


def commit_clock_schema() -> pa.Schema:
    """``system.transaction_commit_clock``"""
    return pa.schema([("transaction", pa.string()), ("commit_clock", CLOCK), ("timestamp", AT)])


def commit_clock_table(changes: Sequence[FeedChange]) -> pa.Table:
    """The transactions of a page of the feed, each once: a page never splits one."""
    firsts = [
        change
        for place, change in enumerate(changes)
        if not place or changes[place - 1].transaction != change.transaction
    ]
    columns = [
        pa.array([change.transaction for change in firsts], pa.string()),
        clock_column(firsts),
        pa.array([change.at_ms * 1000 for change in firsts], pa.int64()).cast(AT),
    ]
    return pa.Table.from_arrays(columns, schema=commit_clock_schema())


STANDINGS: dict[str, pa.Schema] = {
    "shards": pa.schema(
        [
            ("stream", pa.string()),
            ("shard", pa.int32()),
            ("leader", pa.string()),
            ("ensemble", STRINGS),
            ("closed", CLOCK),
            ("behind_ms", pa.int64()),
            ("held_by", pa.string()),
            ("error", pa.string()),
        ]
    ),
    "nodes": pa.schema(
        [
            ("node", pa.string()),
            ("endpoint", pa.string()),
            ("roles", STRINGS),
            ("shards", pa.int32()),
            ("leads", pa.int32()),
        ]
    ),
    "clock": pa.schema(
        [("clock", CLOCK), ("visible", CLOCK), ("behind_ms", pa.int64()), ("enabled", pa.bool_())]
    ),
    "incomplete_transactions": pa.schema(
        [
            ("transaction", pa.string()),
            ("stream", pa.string()),
            ("shard", pa.int32()),
            ("home", pa.string()),
            ("prepared", CLOCK),
        ]
    ),
}
"""Tables about how the system stands."""


def standing_table(name: str, rows: Sequence[Mapping[str, object]]) -> pa.Table:
    """One of ``STANDINGS``; a clock in it is a ``Clock``."""
    plain = [
        {key: _clock(value) if isinstance(value, Clock) else value for key, value in row.items()}
        for row in rows
    ]
    return pa.Table.from_pylist(plain, schema=STANDINGS[name])
