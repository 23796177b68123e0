"""A table with a column of every type, and ways to look at it through Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from msgspec.structs import replace

import motet
from motet.client.publication import PartLocation
from motet.client.table_files import local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        ("small", pa.int8()),
        ("flag", pa.bool_()),
        ("ratio", pa.float64()),
        ("name", pa.string()),
        ("data", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("price", pa.decimal128(12, 2)),
        ("tags", pa.list_(pa.string())),
        ("pair", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ]
)


def rows(first: int, behind: int) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "k": k,
                "small": k % 100,
                "flag": k % 2 == 0,
                "ratio": float("nan") if k % 7 == 0 else k / 4,
                "name": None if k % 5 == 0 else f"n-{k:05}",
                "data": bytes([k % 256]),
                "day": date(2026, 1, 1 + k % 28),
                "at": datetime(2026, 1, 1, 0, k % 60, tzinfo=UTC),
                "local": datetime(2026, 1, 1, 0, k % 60),  # noqa: DTZ001
                "price": Decimal(k) / 4 if k % 4 == 0 else Decimal(f"{k}.50"),
                "tags": [f"t{k % 3}", None],
                "pair": {"x": k, "y": None},
            }
            for k in range(first, behind)
        ],
        schema=SCHEMA,
    )


def fill_sales(db: motet.Database) -> None:
    """Three parts of a hundred rows, which do not overlap."""
    table = db.create_table("sales", SCHEMA, order_by=["k"])
    for first in (0, 100, 200):
        table.insert(rows(first, first + 100))


def load(spark: SparkSession, db: motet.Database, table: str, **options: str) -> DataFrame:
    reader = spark.read.format("motet").option("endpoint", db.endpoint).option("table", table)
    return reader.options(**options).load()


def files_of(db: motet.Database, table: str) -> list[Path]:
    paths = [local_path(location) for location in db.snapshot(table)[table].files()]
    return [path for path in paths if path is not None]


def from_afar(location: PartLocation) -> PartLocation:
    """As another machine sees it: the nodes can be reached, and their folders cannot."""
    return replace(location, nodes=tuple(replace(node, folder="") for node in location.nodes))


def read_directly(
    db: motet.Database, table: str, *, is_far: bool = False, side_by_side: int = 2, **options: str
) -> list[list[Any]]:
    """The rows of each task, without Spark's machinery around it; as from afar, over HTTP."""
    from motet.pipeline.options import parse_options
    from motet.pipeline.table_reader import TableReader, table_snapshot, table_spark_schema

    asked = parse_options({"endpoint": db.endpoint, "table": table, **options})
    schema = table_spark_schema(table_snapshot(asked), asked)
    reader = TableReader(asked, schema, side_by_side)
    tasks = reader.partitions()
    for task in tasks if is_far else []:
        task.parts = tuple(from_afar(location) for location in task.parts)
    return [[row for batch in reader.read(task) for row in batch.to_pylist()] for task in tasks]
