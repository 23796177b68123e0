"""Writing a DataFrame to a table: tasks stage parts, the driver publishes them in one step.

A column that does not fit is refused on the driver, before any task starts. Nothing is visible until every
task has ended; then all of it is, or nothing. With a token, the same write again changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from motet.client.sync import connect
from motet.columnar.block import block_of
from motet.errors import BadInput
from motet.pipeline.arrow_types import arrow_schema, fitted
from motet.pipeline.options import SourceOptions
from motet.pipeline.spark_worker import settle_in
from motet.pipeline.staging import stage_batches, staged_from_bytes, staged_to_bytes


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
