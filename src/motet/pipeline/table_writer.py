"""Writing a DataFrame to a table: tasks stage parts, the driver publishes them in one step.

A column that does not fit is refused on the driver, before any task starts. Nothing is visible until every
task has ended; then all of it is, or nothing. With a token, the same write again changes nothing.

What a task hands to the driver is a list of parts, as bytes. Only what the driver publishes counts: the parts
of a task that failed, or that ran twice, stay as garbage that nobody sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from motet.client.sync import connect
from motet.columnar.block import block_of
from motet.core.tables.records import StagedPart
from motet.errors import BadInput
from motet.pipeline.arrow_types import arrow_schema, fitted
from motet.pipeline.options import SourceOptions
from motet.pipeline.session import settle_in

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


class TaskStaged(WriterCommitMessage):
    """The parts that one task has staged."""

    def __init__(self, parts: bytes) -> None:
        self.parts = parts


class TableWriter(DataSourceArrowWriter):
    """One write to one table."""

    def __init__(self, options: SourceOptions, schema: StructType, overwrite: bool) -> None:
        self._endpoint = options.endpoint
        self._table = options.table_name("write a table")
        self._token = options.token
        if overwrite:
            raise BadInput(
                f"table {self._table} cannot be overwritten",
                hint="mode('append'); a table of engine replacing keeps the latest row of a key",
            )
        self._schema = arrow_schema(schema)
        with connect(self._endpoint) as db:
            own = db.snapshot(self._table)[self._table].schema
        block_of(self._schema.empty_table(), own)  # says which column does not fit

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskStaged:
        settle_in()
        batches = (fitted(batch, self._schema) for batch in iterator)
        return TaskStaged(staged_to_bytes(stage_batches(self._endpoint, self._table, batches)))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        parts = [
            part
            for message in messages
            if isinstance(message, TaskStaged)
            for part in staged_from_bytes(message.parts)
        ]
        with connect(self._endpoint) as db:
            if parts:
                db.publish(parts, token=self._token)
            elif self._token is not None:  # that nothing was written is remembered, too
                db.table(self._table).insert(self._schema.empty_table(), token=self._token)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing was published, so there is nothing to take back."""
