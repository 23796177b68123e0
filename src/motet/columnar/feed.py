"""The change feed as an Arrow table: eleven columns, always the same but for ``row`` and ``before``.

These two are JSON text, unless every stream of the feed has a schema. Then they are the struct of the one
stream; of several streams a struct with a field for each, of which one is filled.

A raw entry is anybody's bytes. As JSON text it is its value if that is UTF-8, else ``{"$base64": "…"}``. In a
typed feed it is a row if its value is JSON of the schema, else null.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import lru_cache, reduce
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from motet.columnar.rows import row_codec
from motet.columnar.schema import decode_schema
from motet.core.streams.change import FeedChange, RowChange, Run
from motet.errors import BadSchema
from motet.ids import StreamName

CLOCK = pa.struct([("logical", pa.int64()), ("counter", pa.int32())])
AT = pa.timestamp("us", tz="UTC")

block_bytes_max = (1 << 31) - 1
"""What Arrow's reader of JSON takes as one block."""


class FeedStream(Protocol):
    """What has to be known of a stream to read its feed."""

    @property
    def name(self) -> StreamName:
        """How it is called."""

    @property
    def schema(self) -> bytes | None:
        """As ``encode_schema`` made it; None for rows of JSON."""


def feed_schema(streams: Sequence[FeedStream]) -> pa.Schema:
    """The columns of the feed of these streams."""
    rows = _rows_type(streams)
    return pa.schema(
        [
            ("clock", CLOCK),
            ("transaction", pa.string()),
            ("index", pa.int32()),
            ("count", pa.int32()),
            ("stream", pa.string()),
            ("shard", pa.int32()),
            ("key", pa.binary()),
            ("op", pa.string()),
            ("row", rows),
            ("before", rows),
            ("at", AT),
        ]
    )


def feed_table(runs: Sequence[Run], streams: Sequence[FeedStream]) -> pa.Table:
    """Changes of these streams, in the order they are given."""
    changes = [change for run in runs for change in run.changes]
    shared = _Shared(runs)
    columns = [
        shared.clocks(runs),
        shared.column([run.transaction for run in runs], pa.string()),
        pa.array([change.index for change in changes], pa.int32()),
        shared.column([run.count for run in runs], pa.int32()),
        shared.column([run.stream for run in runs], pa.string()),
        shared.column([run.shard for run in runs], pa.int32()),
        pa.array([change.key for change in changes], pa.binary()),
        pa.array([change.op for change in changes], pa.string()),
        *_row_columns(runs, changes, streams),
        shared.column([run.at_ms * 1000 for run in runs], pa.int64()).cast(AT),
    ]
    return pa.Table.from_arrays(columns, schema=feed_schema(streams))


class _Shared:
    """Columns of what the changes of a run share."""

    def __init__(self, runs: Sequence[Run]) -> None:
        sizes = [len(run.changes) for run in runs]
        #: the run of each change; None: each run has one
        self._places: pa.Array | None = None
        if sizes.count(1) != len(sizes):
            self._places = pa.array(np.repeat(np.arange(len(sizes)), sizes))

    def column(self, values: Sequence[object], kind: pa.DataType) -> pa.Array:
        """A value for each run, repeated for its changes."""
        return self._repeated(pa.array(values, kind))

    def clocks(self, runs: Sequence[Run]) -> pa.Array:
        """The clocks of the changes; null where the clock was off."""
        return self._repeated(clock_column(runs))

    def _repeated(self, column: pa.Array) -> pa.Array:
        return column if self._places is None else column.take(self._places)


def clock_column(clocked: Sequence[Run] | Sequence[FeedChange]) -> pa.StructArray:
    """The clocks of runs, or of changes; null where the clock was off."""
    hidden = [not each.has_clock for each in clocked]
    return pa.StructArray.from_arrays(
        [
            pa.array([each.clock.logical for each in clocked], pa.int64()),
            pa.array([each.clock.counter for each in clocked], pa.int32()),
        ],
        fields=CLOCK.fields,
        mask=pa.array(hidden, pa.bool_()) if True in hidden else None,
    )


def _is_typed(streams: Sequence[FeedStream]) -> bool:
    return all(stream.schema is not None for stream in streams)


def _struct_type(stream: FeedStream) -> pa.DataType:
    assert stream.schema is not None, "the feed is typed"
    return pa.struct(list(decode_schema(stream.schema)))


def _rows_type(streams: Sequence[FeedStream]) -> pa.DataType:
    if not _is_typed(streams):
        return pa.string()
    if len(streams) == 1:
        return _struct_type(streams[0])
    return pa.struct([pa.field(stream.name, _struct_type(stream)) for stream in streams])


def _row_columns(
    runs: Sequence[Run], changes: Sequence[RowChange], streams: Sequence[FeedStream]
) -> list[pa.Array]:
    """``row`` and ``before``."""
    rows = [change.row for change in changes]
    befores = [change.before for change in changes]
    if not _is_typed(streams):
        texts = [_text(change) for change in changes] if _has_raw(changes) else rows
        return [pa.array(texts, pa.string()), pa.array(befores, pa.string())]
    return [
        _typed_column(runs, changes, rows, streams),
        _typed_column(runs, changes, befores, streams),
    ]


def _has_raw(changes: Sequence[RowChange]) -> bool:
    return any(change.op == "append" for change in changes)


def _text(change: RowChange) -> bytes | str | None:
    if change.op != "append" or change.row is None:
        return change.row
    try:
        return change.row.decode()
    except UnicodeDecodeError:
        return f'{{"$base64": "{b64encode(change.row).decode()}"}}'


def _typed_column(
    runs: Sequence[Run],
    changes: Sequence[RowChange],
    rows: Sequence[bytes | None],
    streams: Sequence[FeedStream],
) -> pa.Array:
    columns = [_stream_column(runs, changes, rows, stream) for stream in streams]
    if len(columns) == 1:
        return columns[0]
    is_null = reduce(pc.and_, [column.is_null() for column in columns])
    return pa.StructArray.from_arrays(columns, fields=_rows_type(streams).fields, mask=is_null)


def _stream_column(
    runs: Sequence[Run],
    changes: Sequence[RowChange],
    rows: Sequence[bytes | None],
    stream: FeedStream,
) -> pa.StructArray:
    """The rows of one stream in their places, and null in all others."""
    assert stream.schema is not None, "the feed is typed"
    if any(run.stream != stream.name for run in runs):
        rows = _of_stream(runs, rows, stream.name)
    if _has_raw(changes):
        rows = [
            _row_of_entry(row, stream.schema) if change.op == "append" and row is not None else row
            for change, row in zip(changes, rows, strict=True)
        ]
    found = [row for row in rows if row is not None]
    if len(found) == len(rows) and found:
        return rows_array(found, stream)
    if not found:
        return pa.nulls(len(rows), _struct_type(stream))
    is_there = np.array([row is not None for row in rows])
    places = pa.array(np.cumsum(is_there) - 1, mask=~is_there)
    return rows_array(found, stream).take(places)


def _of_stream(
    runs: Sequence[Run], rows: Sequence[bytes | None], stream: StreamName
) -> list[bytes | None]:
    """The rows of one stream, and None in the places of others."""
    found: list[bytes | None] = []
    for run in runs:
        end = len(found) + len(run.changes)
        is_mine = run.stream == stream
        found += rows[len(found) : end] if is_mine else [None] * len(run.changes)
    return found


def _row_of_entry(value: bytes, schema: bytes) -> bytes | None:
    """The value of a raw entry as a row would be written, None if it is none."""
    codec = row_codec(schema)
    try:
        return codec.encode(codec.decode(value))
    except BadSchema:
        return None


def rows_array(rows: Sequence[bytes], stream: FeedStream) -> pa.StructArray:
    """Rows of a stream as structs. Arrow reads the JSON itself where it can; what it cannot, we do."""
    assert stream.schema is not None, "the feed is typed"
    wire = _wire_schema(stream.schema)
    if wire is not None:
        try:
            return _read_natively(rows, wire, decode_schema(stream.schema))
        except pa.ArrowInvalid:
            pass  # a row that nobody of ours wrote: below it is read, or refused by name
    return _read_one_by_one(rows, stream)


def _read_natively(rows: Sequence[bytes], wire: pa.Schema, schema: pa.Schema) -> pa.StructArray:
    data = b"\n".join(rows)
    table = pa_json.read_json(
        pa.BufferReader(data),
        # One block, in this thread: a worker of Spark is a fork, which has no other threads.
        read_options=pa_json.ReadOptions(
            use_threads=False, block_size=min(len(data) + 1, block_bytes_max)
        ),
        parse_options=pa_json.ParseOptions(explicit_schema=wire, unexpected_field_behavior="error"),
    )
    if table.num_rows != len(rows):
        raise pa.ArrowInvalid("there is not one row in each text")
    return table.cast(schema).combine_chunks().to_struct_array().combine_chunks()


def _read_one_by_one(rows: Sequence[bytes], stream: FeedStream) -> pa.StructArray:
    assert stream.schema is not None, "the feed is typed"
    decode = row_codec(stream.schema).decode
    try:
        return pa.array([decode(row) for row in rows], _struct_type(stream))
    except BadSchema as error:
        raise BadSchema(
            f"a row of stream {stream.name!r} is not of its schema: {error.what}"
        ) from None


@lru_cache(maxsize=1024)
def _wire_schema(schema: bytes) -> pa.Schema | None:
    """What Arrow's own reader is told to expect, None if it cannot read these rows."""
    fields = []
    for field in decode_schema(schema):
        if pa.types.is_date(field.type):
            field = field.with_type(
                pa.string()
            )  # it takes numbers for dates, and casts text itself
        elif not _is_readable(field.type):
            return None
        fields.append(field)
    return pa.schema(fields)


def _is_readable(kind: pa.DataType) -> bool:
    """Not base64, nor a date within something, nor a struct that can be null while its fields cannot."""
    if pa.types.is_struct(kind):
        return all(field.nullable and _is_readable(field.type) for field in kind.fields)
    if pa.types.is_list(kind):
        return kind.value_field.nullable and _is_readable(kind.value_type)
    return not pa.types.is_binary(kind) and not pa.types.is_date(kind)
