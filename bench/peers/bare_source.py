"""A data source in Python with nothing to it, against which ours is measured in ``spark_scan.py``.

It is given Parquet files and a number of tasks, decodes the files and hands the batches to Spark: no
snapshots, no engines, no filters, nothing that is checked. What it takes, Spark's interface for sources in
Python takes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

BATCH_ROWS = 128 * 1024


def bare_source() -> type[DataSource]:
    """The class, made here so that it travels to Spark's workers by value."""

    class BareTask(InputPartition):
        def __init__(self, files: list[str]) -> None:
            super().__init__(None)
            self.files = files

    class BareReader(DataSourceReader):
        def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
            self._files: list[str] = json.loads(options["files"])
            self._tasks = int(options["tasks"])
            self._schema = to_arrow_schema(schema, timezone="UTC")

        def partitions(self) -> list[Any]:
            return [BareTask(self._files[task :: self._tasks]) for task in range(self._tasks)]

        def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
            for path in partition.files:
                file = pq.ParquetFile(path, memory_map=True)
                names = self._schema.names
                for batch in file.iter_batches(BATCH_ROWS, columns=names, use_threads=False):
                    yield batch if batch.schema == self._schema else batch.cast(self._schema)

    class BareSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return "bare"

        def schema(self) -> StructType:
            return from_arrow_schema(pq.read_schema(json.loads(self.options["files"])[0]))

        def reader(self, schema: StructType) -> DataSourceReader:
            return BareReader(self.options, schema)

    return BareSource
