"""What a table function gets: the changes of one slice of the feed, stream by stream.

``changes.stream("stock")`` is a Spark DataFrame with the columns of the feed. ``row`` and ``before`` are
structs if the stream has a schema, or if one is given for its JSON; else they are JSON texts. They are the
same whichever other streams the pipeline reads.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructType

from motet.errors import BadPipeline, NoSuchStream
from motet.pipeline.failure import first_line

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ROWS = ("row", "before")
"""The columns of the feed that depend on the stream."""

PARSING = {"mode": "FAILFAST"}
"""A row that does not fit its schema ends the pipeline: it would be lost otherwise, without a word."""


class Changes:
    """The changes of some streams in one slice of the feed, in the order of their clocks."""

    def __init__(
        self,
        feed: DataFrame,
        streams: tuple[str, ...],
        schemas: Mapping[str, StructType | None],
        *,
        mark: Callable[[DataFrame, tuple[str, ...]], DataFrame] = lambda rows, _: rows,
    ) -> None:
        self._feed = feed
        #: makes the changes of some streams known in a plan
        self._mark = mark
        self._streams = streams
        #: of every stream of the database; None for one whose rows are JSON
        self._schemas = schemas
        #: the streams that were asked for, each once
        self.asked: dict[str, None] = {}

    def stream(self, name: str, schema: str | StructType | None = None) -> DataFrame:
        """The changes of one stream.

        ``schema``, as DDL or a ``StructType``, says what the JSON of its rows is; a row that does not fit
        ends the pipeline.
        """
        if name not in self._streams:
            close = difflib.get_close_matches(str(name), self._streams, n=1)
            hint = f"did you mean {close[0]}?" if close else None
            raise NoSuchStream(f"there is no stream {name!r}", hint=hint)
        self.asked[name] = None
        own = self._schemas[name]
        if own is not None and schema is not None:
            raise BadPipeline(
                f"stream {name} has a schema, and another one is given", hint="leave schema out"
            )
        rows = self._feed.where(f.col("stream") == name)
        rows = rows.withColumns({column: self._row(column, name, schema) for column in ROWS})
        return self._mark(rows, (name,))

    def all(self) -> DataFrame:
        """The changes of all streams of the database; ``row`` is JSON unless all of them have schemas."""
        self.asked.update(dict.fromkeys(self._streams))
        return self._mark(self._feed, self._streams)

    def _row(self, column: str, name: str, schema: str | StructType | None) -> Column:
        own = self._schemas[name]
        row = f.col(column)
        if not isinstance(self._feed.schema[column].dataType, StringType):
            return row if len(self._streams) == 1 else row.getField(name)
        if own is not None:
            # Among streams without a schema. A raw entry has no row of that schema.
            parsed = f.from_json(row, own, PARSING)
            return f.when(f.col("op") != "append", parsed)
        return row if schema is None else f.from_json(row, struct_of(schema, name), PARSING)


def struct_of(schema: str | StructType, stream: str) -> StructType:
    """A schema that was given for a stream; ``BadPipeline`` if it is none."""
    found: object = schema
    if isinstance(schema, str):
        try:
            found = StructType.fromDDL(schema)
        except PySparkException as error:
            raise BadPipeline(f"the schema of stream {stream}: {first_line(error)}") from None
    if not isinstance(found, StructType):
        raise BadPipeline(
            f"the schema of stream {stream} is {schema!r}",
            hint='for instance "sku string, left int"',
        )
    return found
