"""Raw records of a shard as an Arrow table: from the blocks as they were logged, no record looked at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from motet.columnar.feed import AT, CLOCK, clock_column
from motet.core.clock.hlc import Clock
from motet.core.streams.change import FeedChange
from motet.core.streams.entries import Records
from motet.format.record_block import block_count
from motet.ids import Epoch, Offset

SCHEMA = pa.schema(
    [
        ("offset", pa.int64()),
        ("epoch", pa.int64()),
        ("clock", CLOCK),
        ("at", AT),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)
"""The columns of raw records."""


def records_table(
    entries: Sequence[tuple[Epoch, Clock, Records]], after: Offset, limit: int
) -> pa.Table:
    """The records of these entries behind an offset, at most so many."""
    batches = []
    for epoch, clock, records in entries:
        offset = records.first_offset
        for chunk in records.chunks:
            shown = clock if records.has_clock else None
            batches.append(_batch(epoch, shown, records.at_ms, offset, chunk.block))
            offset = Offset(offset + chunk.count)
    table = pa.Table.from_batches(batches, SCHEMA)
    skipped = 0
    if entries:
        skipped = max(0, after + 1 - entries[0][2].first_offset)
    return table.slice(skipped, limit)


def entries_table(entries: Sequence[tuple[FeedChange, int]]) -> pa.Table:
    """Entries that are at hand one by one, each with its epoch."""
    changes = [change for change, _ in entries]
    columns = [
        pa.array([change.offset for change in changes], pa.int64()),
        pa.array([epoch for _, epoch in entries], pa.int64()),
        clock_column(changes),
        pa.array([change.at_ms * 1000 for change in changes], pa.int64()).cast(AT),
        pa.array([change.key for change in changes], pa.binary()),
        pa.array([change.row for change in changes], pa.binary()),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def _batch(
    epoch: Epoch, clock: Clock | None, at_ms: int, first: Offset, block: bytes
) -> pa.RecordBatch:
    count = block_count(block)
    keys, values = block_columns(block)
    columns = [
        pa.array(np.arange(first, first + count)),
        pa.array(np.full(count, epoch)),
        _clocks(clock, count),
        pa.array(np.full(count, at_ms * 1000)).cast(pa.timestamp("us")).cast(AT),
        keys,
        values,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _clocks(clock: Clock | None, count: int) -> pa.Array:
    if clock is None:
        return pa.nulls(count, CLOCK)
    return pa.StructArray.from_arrays(
        [
            pa.array(np.full(count, clock.logical)),
            pa.array(np.full(count, clock.counter, np.int32)),
        ],
        fields=CLOCK.fields,
    )


def block_columns(block: bytes) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """Keys and values of a block, without a copy of their bytes."""
    count = block_count(block)
    ends = np.frombuffer(block, "<u4", 2 * count, 4)
    data = pa.py_buffer(block)
    start = 4 + 8 * count
    keys = _column(data, start, ends[:count])
    return keys, _column(data, start + int(ends[count - 1]), ends[count:])


def _column(data: pa.Buffer, start: int, ends: np.ndarray) -> pa.BinaryArray:
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends
    body = data.slice(start, int(ends[-1]))
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(ends), [None, pa.py_buffer(offsets.tobytes()), body]
    )
