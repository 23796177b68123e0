"""Writing a DataFrame to a table: tasks stage parts, the driver publishes them in one step.

A column that does not fit is refused on the driver, before any task starts. Nothing is visible until every
task has ended; then all of it is, or nothing. With a token, the same write again changes nothing.

What a task hands to the driver is a list of parts, as bytes. Only what the driver publishes counts: the parts
of a task that failed, or that ran twice, are let go by the replicas. Between planning and publishing Spark
runs nothing of ours but tasks, so these hold the lease of a write that takes long.

To overwrite is to drop, in the same step, what partitions had before: all that the table has when the write
is published, or with ``partitionOverwriteMode=dynamic`` those that get rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from motet.client.publication import TablePart
from motet.client.sync import Database, connect
from motet.columnar.block import block_of
from motet.errors import BadInput
from motet.pipeline.arrow_types import arrow_schema, fitted
from motet.pipeline.options import SourceOptions
from motet.pipeline.session import settle_in
from motet.pipeline.staging_lease import StagingLease, new_job

block_rows = 1_000_000
block_bytes = 256 << 20
"""A task gathers so much before it is sorted and written, whichever is reached first."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[TablePart]).decode


def stage_batches(
    endpoint: str, table: str, job: str, batches: Iterable[pa.RecordBatch]
) -> list[TablePart]:
    """Have these rows held as parts of a table, not visible yet. Somebody else holds the lease of the job."""
    blocks = gathered(batches)
    first = next(blocks, None)
    if first is None:
        return []  # most tasks of a small job have nothing to do: no connection for them
    with connect(endpoint) as db:
        return _staged(db, table, job, first, blocks)


def _staged(
    db: Database, table: str, job: str, first: pa.Table, others: Iterable[pa.Table]
) -> list[TablePart]:
    parts = db.stage(table, first, job=job)
    for block in others:
        parts += db.stage(table, block, job=job)
    return parts


def parts_to_bytes(parts: Sequence[TablePart]) -> bytes:
    """Parts as they travel from a task to the driver."""
    return _encode(list(parts))


def parts_from_bytes(data: bytes) -> list[TablePart]:
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
    """The parts that one task has staged, and whether it has opened the staging job."""

    def __init__(self, parts: bytes, *, has_opened: bool = False) -> None:
        self.parts = parts
        self.has_opened = has_opened


class TableWriter(DataSourceArrowWriter):
    """One write to one table."""

    def __init__(self, options: SourceOptions, schema: StructType, overwrite: bool) -> None:
        self._endpoint = options.endpoint
        self._table = options.table_name("write a table")
        self._token = options.token
        self._overwrite = overwrite
        self._is_dynamic = options.overwrite_mode == "dynamic"
        if not overwrite and options.overwrite_mode is not None:
            raise BadInput(
                "option partitionOverwriteMode is given, and nothing is overwritten",
                hint="mode('overwrite'), or leave it out",
            )
        self._schema = arrow_schema(schema)
        self._job, self._began = new_job(), time.time()
        with connect(self._endpoint) as db:
            own = db.snapshot(self._table)[self._table].schema
        block_of(self._schema.empty_table(), own)  # says which column does not fit

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskStaged:
        settle_in()
        blocks = gathered(fitted(batch, self._schema) for batch in iterator)
        first = next(blocks, None)
        if first is None:
            return TaskStaged(parts_to_bytes([]))
        with connect(self._endpoint) as db:
            lease = StagingLease(db, self._job, [self._table], self._began)
            with lease:
                parts = _staged(db, self._table, self._job, first, blocks)
            return TaskStaged(parts_to_bytes(parts), has_opened=lease.is_open)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        staged = [message for message in messages if isinstance(message, TaskStaged)]
        parts = [part for message in staged for part in parts_from_bytes(message.parts)]
        job = self._job if any(message.has_opened for message in staged) else None
        with connect(self._endpoint) as db:
            partitions = self._replaced(db, parts)
            if parts or partitions:
                replace = {self._table: partitions}
                db.publish(parts, token=self._token, replace=replace, job=job)

    def _replaced(self, db: Database, parts: Sequence[TablePart]) -> list[str]:
        """The partitions of which nothing older than this write stays."""
        if not self._overwrite:
            return []
        written = {part.staged.header.partition for part in parts}
        if self._is_dynamic:
            return sorted(written)
        there = db.snapshot(self._table)[self._table].parts
        return sorted(written | {part.partition for part in there})

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Nothing was published, so there is nothing to take back."""
