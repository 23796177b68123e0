"""Raw records of a shard and Arrow tables, into each other, block by block: no record is looked at by itself.

A block of records is what Arrow calls two binary arrays, so it is made of their buffers and read as such.
Only a stream of several shards needs the single keys, to see where each goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from motet.columnar.feed import AT, CLOCK, clock_column
from motet.core.clock.hlc import Clock
from motet.core.streams.change import FeedChange
from motet.core.streams.entries import Records
from motet.errors import BadInput, BadSchema, TooLarge
from motet.format.record_block import block_count
from motet.ids import Epoch, Offset
from motet.limits import (
    append_batch_bytes_max,
    block_records_max,
    entry_bytes_max,
    key_bytes_max,
    row_bytes_max,
)

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
    """The records of these entries after an offset, at most so many."""
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
    keys = _binary_array(data, start, ends[:count])
    return keys, _binary_array(data, start + int(ends[count - 1]), ends[count:])


def _binary_array(data: pa.Buffer, start: int, ends: np.ndarray) -> pa.BinaryArray:
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends
    body = data.slice(start, int(ends[-1]))
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(ends), [None, pa.py_buffer(offsets.tobytes()), body]
    )


class Column(NamedTuple):
    """A binary array as it lies in memory."""

    #: row i is ``data[offsets[i]:offsets[i + 1]]``
    offsets: np.ndarray
    data: memoryview


class KeyValues:
    """Rows with a key and a value each."""

    def __init__(self, keys: pa.BinaryArray, values: pa.BinaryArray) -> None:
        self._arrays = keys, values
        self._columns = _in_memory(keys), _in_memory(values)

    @classmethod
    def of(cls, data: object) -> KeyValues:
        """The columns ``key`` and ``value`` of anything Arrow; an error names the one that does not fit."""
        if not hasattr(data, "__arrow_c_stream__"):
            raise BadInput(
                f"{type(data).__name__} is not something Arrow",
                hint="hand in a pyarrow.Table or a DataFrame",
            )
        table = pa.table(data)
        rows = cls(_binary(table, "key"), _binary(table, "value"))
        rows._check()
        return rows

    def __len__(self) -> int:
        return len(self._arrays[0])

    def rows(self) -> list[tuple[bytes, bytes]]:
        """One by one."""
        keys, values = self._arrays
        return list(zip(keys.to_pylist(), values.to_pylist(), strict=True))

    def by_shard(self, shard_of: Callable[[bytes], int]) -> list[tuple[int, list[int], KeyValues]]:
        """What goes to each shard that gets something, with the numbers of its rows here."""
        keys, values = self._arrays
        of_rows = np.array([shard_of(key) for key in keys.to_pylist()], np.int64)
        found = []
        for shard in np.unique(of_rows):
            numbers = np.flatnonzero(of_rows == shard)
            found.append(
                (int(shard), numbers.tolist(), KeyValues(keys.take(numbers), values.take(numbers)))
            )
        return found

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """All rows in blocks that each fit into an entry, with how many each has."""
        keys, values = self._columns
        ends = (keys.offsets[1:] - keys.offsets[0]) + (values.offsets[1:] - values.offsets[0])
        start = before = 0
        while start < len(ends):
            fits = int(np.searchsorted(ends, before + entry_bytes_max, side="right"))
            end = max(start + 1, min(fits, start + block_records_max))
            yield end - start, self._block(start, end)
            start, before = end, int(ends[end - 1])

    def _block(self, start: int, end: int) -> bytes:
        """Rows as :mod:`motet.format.record_block` has them."""
        counts: list[bytes] = [(end - start).to_bytes(4, "little")]
        bodies: list[memoryview] = []
        for offsets, data in self._columns:
            first = offsets[start]
            counts.append((offsets[start + 1 : end + 1] - first).astype("<u4").tobytes())
            bodies.append(data[first : offsets[end]])
        return b"".join((*counts, *bodies))

    def _check(self) -> None:
        if not len(self):
            return
        keys, values = (np.diff(column.offsets) for column in self._columns)
        if keys.min() < 1:
            raise BadInput("a key has at least one byte")
        for what, longest, most in (
            ("a key", int(keys.max()), key_bytes_max),
            ("a value", int(values.max()), row_bytes_max),
        ):
            if longest > most:
                raise TooLarge(f"{what} of {longest} bytes exceeds the limit of {most}")


def _binary(table: pa.Table, name: str) -> pa.BinaryArray:
    if name not in table.column_names:
        raise BadSchema(f"there is no column {name!r}", hint="append_batch takes key and value")
    column = table.column(name)
    if column.null_count:
        raise BadSchema(f"column {name!r} has a null", hint="every entry has a key and a value")
    if column.nbytes > append_batch_bytes_max:
        raise TooLarge(
            f"column {name!r} of {column.nbytes} bytes exceeds the limit of {append_batch_bytes_max}",
            hint="hand in fewer rows at once",
        )
    try:
        made = column.cast(pa.binary())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise BadSchema(f"column {name!r} is not bytes or text: {error}") from None
    if made.num_chunks == 1:
        return made.chunk(0)  # as it is: putting chunks together copies them
    return pa.concat_arrays(made.chunks) if made.num_chunks else pa.array([], pa.binary())


def _in_memory(array: pa.BinaryArray) -> Column:
    _, offsets, data = array.buffers()
    if not len(array):
        return Column(np.zeros(1, np.int64), memoryview(b""))
    found = np.frombuffer(offsets, np.int32, len(array) + 1, 4 * array.offset)
    return Column(found.astype(np.int64), memoryview(b"" if data is None else data))
