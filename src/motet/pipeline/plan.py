"""What a pipeline will do, found out before it does anything: its streams, its tables and their schemas.

Each table function is called once with a feed that has all columns and no rows. What it returns has the
schema that every later call has; which streams it asked for is noted. Whatever is wrong with a function is
``BadPipeline`` here, and nothing has been read or published.

A function gets the changes of one slice of the feed: ``changes.stream("stock")`` is a Spark DataFrame with
the columns of the feed. ``row`` and ``before`` are structs if the stream has a schema, or if one is given
for its JSON; else they are JSON texts. They are the same whichever other streams the pipeline reads.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, StringType, StructField, StructType

from motet.client.publication import WriterInfo
from motet.columnar.definitions import make_definition
from motet.columnar.feed import feed_schema
from motet.columnar.schema import decode_schema, encode_schema
from motet.core.clock.writer_step import WriterStep
from motet.core.onelog.messages import StreamInfo
from motet.errors import BadInput, BadPipeline, MotetError, NoSuchStream, NoSuchTable
from motet.ids import TableId
from motet.pipeline.analysis import across_batches, is_row_wise, marked
from motet.pipeline.arrow_types import arrow_schema, quoted, spark_schema
from motet.pipeline.definition import Pipeline, TableDefinition, line_of
from motet.pipeline.failure import first_line

if TYPE_CHECKING:
    from pyspark.sql import Column

    from motet.client.sync import Database


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


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """A table, and what its rows look like."""

    definition: TableDefinition
    schema: pa.Schema
    #: its rows do not depend on how the feed is cut into slices
    is_row_wise: bool

    @property
    def name(self) -> str:
        return self.definition.name

    def rows_of(self, changes: Changes) -> DataFrame:
        """The rows that a slice of the feed makes, with the columns in the order of the table."""
        return self.definition.function(changes).select(*map(quoted, self.schema.names))


@dataclass(frozen=True, slots=True)
class Plan:
    """A pipeline that can be run on a database."""

    name: str
    streams: tuple[StreamInfo, ...]
    #: of all streams of the database
    schemas: Mapping[str, StructType | None]
    tables: tuple[PlannedTable, ...]

    @property
    def stream_names(self) -> tuple[str, ...]:
        return tuple(str(info.name) for info in self.streams)

    def changes(self, feed: DataFrame) -> Changes:
        """A slice of the feed of our streams, as table functions get it."""
        return Changes(feed, self.stream_names, self.schemas)


def make_plan(spark: SparkSession, pipeline: Pipeline, streams: Sequence[StreamInfo]) -> Plan:
    """Call each table function once, with no rows, and see what it is about."""
    if not streams:
        raise BadPipeline(
            "the database has no streams to read", hint="create them first: `motet stream create`"
        )
    schemas = {str(info.name): _row_schema(info) for info in streams}
    feed = spark.createDataFrame([], spark_schema(feed_schema(streams)))
    asked: dict[str, None] = {}
    tables = []
    for definition in pipeline.tables:
        changes = Changes(feed, tuple(schemas), schemas, mark=marked)
        tables.append(_plan_table(definition, changes))
        asked.update(changes.asked)
    if not asked:
        raise BadPipeline(f"no table of {pipeline.name} reads a stream", hint="changes.stream(…)")
    read = tuple(info for info in streams if info.name in asked)
    return Plan(pipeline.name, read, schemas, tuple(tables))


def create_tables(db: Database, plan: Plan, last: WriterInfo | None) -> None:
    """Make sure that all tables are there, and are ours; what cannot be is refused before one is made."""
    known = {info.name for info in db.tables()}
    for writer in db.writers():
        for table in plan.tables:
            if writer.writer != plan.name and table.name in writer.tables:
                raise BadPipeline(
                    f"table {table.name} belongs to pipeline {writer.writer}",
                    hint="give the table another name, or run it under the name of that pipeline",
                )
    has_published = last is not None and last.step is not None
    for table in plan.tables:
        if has_published and table.name not in known:
            raise BadPipeline(
                f"table {table.name} is new, and {plan.name} has published already: "
                "it would lack everything before",
                hint="put it into a file of its own, which is a pipeline of its own",
            )
    for table in plan.tables:
        made = table.definition
        db.create_table(
            table.name,
            table.schema,
            order_by=list(made.order_by),
            partition_by=made.partition_by,
            shards=made.shards,
            engine=made.engine,
            version=made.version,
            tombstone=made.tombstone,
        )


def check_feed(name: str, last: WriterStep | None, feed: Database | None) -> None:
    """``BadPipeline`` when the tables reflect the feed of another database than this one."""
    ours = None if feed is None else feed.database_id
    if last is not None and last.feed != ours:
        theirs = "the database they are in" if last.feed is None else f"database {last.feed:016x}"
        raise BadPipeline(
            f"the tables of {name} reflect the feed of {theirs}",
            hint="name that one, or give the pipeline and its tables other names",
        )


def check_tables(db: Database, plan: Plan) -> None:
    """``NoSuchTable`` unless all tables are there."""
    known = {info.name for info in db.tables()}
    for table in plan.tables:
        if table.name not in known:
            raise NoSuchTable(f"there is no table {table.name}", hint="run the pipeline first")


def _row_schema(info: StreamInfo) -> StructType | None:
    return None if info.schema is None else spark_schema(decode_schema(info.schema))


def _plan_table(definition: TableDefinition, changes: Changes) -> PlannedTable:
    what = f"table {definition.name}"
    file = Path(definition.function.__code__.co_filename)
    try:
        result = definition.function(changes)
        schema = result.schema if _is_table(result) else None
    except PySparkException as error:
        raise BadPipeline(f"{what}{line_of(error, file)}: {first_line(error)}") from error
    except MotetError as error:
        raise type(error)(
            f"{what}{line_of(error, file)}: {error.what}", hint=error.advice
        ) from None
    except Exception as error:
        where = line_of(error, file)
        raise BadPipeline(f"{what}{where}: {type(error).__name__}: {error}") from error
    if schema is None:
        raise BadPipeline(
            f"{what}: the function returns {type(result).__name__}, not a DataFrame",
            hint="return changes.stream(…).select(…)",
        )
    _check_columns(definition, schema.names)
    columns = decode_schema(encode_schema(_table_schema(definition, schema.fields), what=what))
    _check_definition(definition, columns)
    if not definition.per_batch:
        _check_batches(definition, result, changes)
    return PlannedTable(definition, columns, is_row_wise(result, definition.engine))


def _check_batches(definition: TableDefinition, result: DataFrame, changes: Changes) -> None:
    """Refuse what would lose rows without a word, since it looks at one batch at a time."""
    why = across_batches(result, changes.asked)
    if why is not None:
        code = definition.function.__code__
        raise BadPipeline(
            f"table {definition.name} (function {code.co_name}, line {code.co_firstlineno}) {why}: a "
            "function sees one batch of changes, so what belongs together and comes in two batches would be "
            "missing",
            hint="make a table of each stream and put them together where you read them; or, if a result for "
            "each batch is what you want, declare it: @pipeline.table(…, per_batch=True)",
        )


def _is_table(result: object) -> bool:
    """Whether a function, whatever it promised, has returned what becomes a table."""
    return isinstance(result, DataFrame)


def _check_columns(definition: TableDefinition, columns: list[str]) -> None:
    for option, column in definition.special_columns():
        if column not in columns:
            close = difflib.get_close_matches(str(column), columns, n=1)
            raise BadPipeline(
                f"table {definition.name}: {option} names {column}, which the result does not have",
                hint=f"did you mean {close[0]}?"
                if close
                else f"its columns are {', '.join(columns)}",
            )


def _check_definition(definition: TableDefinition, columns: pa.Schema) -> None:
    """Refuse what the database would, before the tables beside this one are made."""
    try:
        make_definition(
            *(definition.name, TableId(""), columns, definition.order_by),
            partition_by=definition.partition_by,
            shards=definition.shards,
            engine=definition.engine,
            version=definition.version,
            tombstone=definition.tombstone,
        )
    except BadInput as error:
        raise BadPipeline(f"table {definition.name}: {error.what}", hint=error.advice) from None


def _table_schema(definition: TableDefinition, fields: list[StructField]) -> pa.Schema:
    """The columns of the table: those of its key are never null, all others may be."""
    return arrow_schema(
        StructType(
            [
                StructField(
                    field.name, _nullable(field.dataType), field.name not in definition.order_by
                )
                for field in fields
            ]
        )
    )


def _nullable(kind: DataType) -> DataType:
    """The same type with nulls allowed everywhere inside: whether Spark can rule them out may change."""
    if isinstance(kind, StructType):
        return StructType(
            [StructField(field.name, _nullable(field.dataType)) for field in kind.fields]
        )
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType))
    return kind
