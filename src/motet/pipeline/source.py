"""The data source ``motet``: tables and feeds of a database in Spark.

::

    spark.read.format("motet").option("table", "sales").load()
    spark.read.format("motet").option("streams", "orders,stock").option("up_to", "(…,…)").load()
    spark.readStream.format("motet").option("streams", "orders,stock").load()
    df.write.format("motet").option("table", "sales").mode("append").save()    # or overwrite

Spark finds it by itself. A batch that is loaded is a snapshot: whatever is done with the DataFrame reads the
same.

Filters are not pushed unless ``motet.pipeline.register`` has found that they can be; the option ``where`` is
there for all.

Importing this must be quick, since Spark does it whenever it looks for sources: what reads and writes is
imported when it is used.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, ClassVar

from msgspec.structs import replace
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class MotetSource(DataSource):
    """One use of the source, with its options."""

    #: where the database is when no option says so
    endpoint_default: ClassVar[str | None] = None
    #: Spark's setting for pushing filters is known to be on
    pushes_filters: ClassVar[bool] = False
    #: how many tasks of the session run at once, if known; else as many as this machine has cores
    side_by_side: ClassVar[int | None] = None

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        from motet.pipeline.options import parse_options

        self._asked = parse_options(options, self.endpoint_default)

    @classmethod
    def name(cls) -> str:
        return "motet"

    def schema(self) -> StructType:
        """The columns; from here on it is also settled at which version or clock they are read."""
        if self._asked.table is not None:
            from motet.pipeline.table_reader import table_snapshot, table_spark_schema

            snapshot = table_snapshot(self._asked)
            if self._asked.consistency == "sequential":
                self._asked = replace(self._asked, at=snapshot.version)
            return table_spark_schema(snapshot, self._asked)
        from motet.pipeline.feed_reader import load_feed

        schema, end = load_feed(self._asked)
        self._asked = replace(self._asked, up_to=end)
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        if self._asked.table is None:
            from motet.pipeline.feed_reader import FeedReader

            return FeedReader(self._asked, schema)
        from motet.pipeline.table_reader import PushingTableReader, TableReader

        kind = PushingTableReader if self.pushes_filters else TableReader
        return kind(self._asked, schema, self.side_by_side)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        from motet.pipeline.feed_reader import FeedStreamReader

        return FeedStreamReader(self._asked, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from motet.pipeline.table_writer import TableWriter

        return TableWriter(self._asked, schema, overwrite)

    def streamWriter(  # noqa: N802
        self,
        schema: StructType,  # noqa: ARG002
        overwrite: bool,  # noqa: ARG002
    ) -> DataSourceStreamWriter:
        from motet.pipeline.options import no_stream_writer

        raise no_stream_writer()
