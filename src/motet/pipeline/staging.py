"""Staging from a Spark task: the batches of one task become parts that nobody sees yet.

What a task hands to the driver is a list of parts, as bytes. Only what the driver publishes counts: the
parts of a task that failed, or that ran twice, stay behind as garbage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pyarrow as pa

from motet.client.sync import connect
from motet.core.tables.records import StagedPart

block_rows = 1_000_000
block_bytes = 256 << 20
"""A task gathers so much before it is sorted and written, whichever is reached first."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[StagedPart]).decode


def stage_batches(endpoint: str, table: str, batches: Iterable[pa.RecordBatch]) -> list[StagedPart]:
    """Write these rows as parts of a table, durable and not visible."""
    staged: list[StagedPart] = []
    blocks = gathered(batches)
    first = next(blocks, None)
    if first is None:
        return staged  # most tasks of a small job have nothing to do: no connection for them
    with connect(endpoint) as db:
        staged += db.stage(table, first)
        for block in blocks:
            staged += db.stage(table, block)
    return staged


def staged_to_bytes(parts: Sequence[StagedPart]) -> bytes:
    """Parts as they travel from a task to the driver."""
    return _encode(list(parts))


def staged_from_bytes(data: bytes) -> list[StagedPart]:
    """And back."""
    return _decode(data)


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together to blocks that are worth a part, in their order; empty ones are left out."""
    waiting: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        waiting.append(batch)
        rows += batch.num_rows
        size_bytes += batch.nbytes
        if rows >= block_rows or size_bytes >= block_bytes:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size_bytes = [], 0, 0
    if waiting:
        yield pa.Table.from_batches(waiting)
