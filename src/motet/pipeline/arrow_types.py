"""Arrow and Spark schemas, into each other, with nothing lost.

Every type of a table or a stream has one type in Spark and the other way round, nullability included.
Spark takes a batch only if its schema is exactly the one it expects, so batches are made to fit here.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from motet.errors import BadSchema


def spark_schema(schema: pa.Schema) -> StructType:
    """What Spark is told about a table or a feed."""
    return from_arrow_schema(schema)


def arrow_schema(schema: StructType) -> pa.Schema:
    """What Spark expects of a batch, and what it hands us when it writes."""
    return to_arrow_schema(schema, timezone="UTC")


def picked(schema: StructType, columns: Sequence[str], what: str) -> StructType:
    """These columns, in this order; all of them if none is named."""
    if not columns:
        return schema
    return StructType([_field(schema, name, what) for name in columns])


def check_asked(asked: StructType, schema: StructType, columns: Sequence[str], what: str) -> None:
    """Refuse a schema of the user's that is not a choice of the columns there are."""
    if not asked.fields:
        raise BadSchema(f"the schema that was given for {what} has no columns")
    if columns and list(columns) != asked.names:
        raise BadSchema(
            f"option columns says {', '.join(columns)}, the schema that was given says "
            f"{', '.join(asked.names)}",
            hint="give one of them",
        )
    for field in asked.fields:
        own = _field(schema, field.name, what)
        if field.dataType.simpleString() != own.dataType.simpleString():
            raise BadSchema(
                f"column {field.name} of {what} is {own.dataType.simpleString()}, "
                f"not {field.dataType.simpleString()}",
                hint="read it as what it is, and cast it in the query",
            )
        if (own.nullable and not field.nullable) or _promises(field.dataType, own.dataType):
            raise BadSchema(
                f"column {field.name} of {what} may be null, or have nulls inside",
                hint="leave NOT NULL out of the schema",
            )


def quoted(column: str) -> str:
    """The name of a column as Spark reads it where an expression may stand: dots and all."""
    escaped = column.replace("`", "``")
    return f"`{escaped}`"


def numbered(rows: DataFrame) -> DataFrame:
    """The same columns under plain names: ``mapInArrow`` takes a name with a dot for a field in a struct."""
    return rows.toDF(*(f"c{place}" for place in range(len(rows.columns))))


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch with exactly this schema; its columns may come in another order, and more of them."""
    if batch.schema.names != schema.names:
        batch = batch.select(schema.names)
    return batch if batch.schema.equals(schema) else batch.cast(schema)


def _field(schema: StructType, name: str, what: str) -> StructField:
    for field in schema.fields:
        if field.name == name:
            return field
    close = difflib.get_close_matches(name, schema.names, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else f"its columns are {', '.join(schema.names)}"
    raise BadSchema(f"{what} has no column {name}", hint=hint)


def _promises(asked: DataType, own: DataType) -> bool:
    """Whether a type of the same shape says of something inside that it is never null, and it may be."""
    if isinstance(asked, ArrayType) and isinstance(own, ArrayType):
        is_stricter = own.containsNull and not asked.containsNull
        return is_stricter or _promises(asked.elementType, own.elementType)
    if isinstance(asked, StructType) and isinstance(own, StructType):
        pairs = zip(asked.fields, own.fields, strict=True)
        return any(
            (mine.nullable and not theirs.nullable) or _promises(theirs.dataType, mine.dataType)
            for theirs, mine in pairs
        )
    return False
