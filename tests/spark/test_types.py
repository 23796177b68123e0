"""Every type, and names that need quotes, all the way: stream, feed, Spark, table, SQL, and back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import motet
from motet.pipeline.definition import load_pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ODD_NAMES = (
    "a b",
    "a.b",
    "grün",
    "it's",
    'a "quote"',
    "back`tick",
    "a,b",
    "a;b",
    "%s {x}",
    "new\nline",
    "slash\\",
    "select",
    "日本",
    "-- no comment",
)
TYPES = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("yes", pa.bool_()),
        ("i8", pa.int8()),
        ("i16", pa.int16()),
        ("i32", pa.int32()),
        ("i64", pa.int64()),
        ("f32", pa.float32()),
        ("f64", pa.float64()),
        ("text", pa.string()),
        ("data", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("price", pa.decimal128(9, 2)),
        ("wide", pa.decimal128(38, 10)),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("x", pa.int32()), ("a.b", pa.list_(pa.decimal128(5, 2)))])),
        ("items", pa.list_(pa.struct([("sku", pa.string()), ("raw", pa.binary())]))),
    ]
)
LOWEST: dict[str, Any] = {
    "id": 0,
    "yes": False,
    "i8": -(2**7),
    "i16": -(2**15),
    "i32": -(2**31),
    "i64": -(2**63),
    "f32": -3.4028234663852886e38,
    "f64": -1.7976931348623157e308,
    "text": "",
    "data": b"",
    "day": date(1, 1, 1),
    "at": datetime(1, 1, 1, tzinfo=UTC),
    "local": datetime(1, 1, 1),  # noqa: DTZ001 - this column has no zone
    "price": Decimal("-9999999.99"),
    "wide": Decimal("-" + "9" * 28 + "." + "9" * 10),
    "tags": [],
    "place": {"x": None, "a.b": []},
    "items": [],
}
HIGHEST: dict[str, Any] = {
    "id": 1,
    "yes": True,
    "i8": 2**7 - 1,
    "i16": 2**15 - 1,
    "i32": 2**31 - 1,
    "i64": 2**63 - 1,
    "f32": 1.401298464324817e-45,
    "f64": 5e-324,
    "text": "ä\0\n\"'\\ \U0001f600",
    "data": bytes(range(256)),
    "day": date(9999, 12, 31),
    "at": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    "local": datetime(9999, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001
    "price": Decimal("0.01"),
    "wide": Decimal("0.0000000001"),
    "tags": ["", None, "x"],
    "place": {"x": -1, "a.b": [Decimal("-999.99"), None]},
    "items": [{"sku": "s", "raw": b"\0"}, None, {"sku": None, "raw": None}],
}
OLD = {
    **HIGHEST,
    "id": 2,
    "day": date(1582, 10, 4),  # the last day of another calendar
    "at": datetime(1883, 11, 18, 17, 0, 0, 1, tzinfo=UTC),
    "local": datetime(1582, 10, 14, 0, 0, 0, 1),  # noqa: DTZ001
}
NULLS = {**dict.fromkeys(TYPES.names), "id": 3}
ROWS = [LOWEST, HIGHEST, OLD, NULLS]

COPY = """\
from motet import pipeline

@pipeline.table(engine="replacing", order_by=["id"], version="clock", tombstone="gone")
def latest(changes):
    rows = changes.stream("typed")
    return rows.selectExpr("coalesce(row.id, before.id) as id", "row", "clock", "op = 'delete' as gone")

@pipeline.table(engine="merge", order_by=["id"])
def copied(changes):
    return changes.stream("typed").where("op != 'delete'").select("row.*")
"""
WITH_AN_UNTYPED_STREAM = """
@pipeline.table(engine="merge", order_by=["key"])
def plain(changes):
    return changes.stream("plain").select("key", "row")
"""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[motet.Database]:
    with motet.open(tmp_path / "data") as opened:
        opened.create_stream("typed", schema=TYPES)
        opened.create_stream("plain")
        yield opened


def fill(db: motet.Database) -> None:
    """All rows, each in a transaction; and one that is there for a while only."""
    for row in ROWS:
        with db.transaction() as txn:
            txn.change("typed", key=str(row["id"]), op="insert", row=row)
    gone = {**HIGHEST, "id": 4}
    with db.transaction() as txn:
        txn.change("typed", key="4", op="insert", row=gone)
    with db.transaction() as txn:
        txn.change("typed", key="4", op="delete", before=gone)


def run(db: motet.Database, folder: Path, text: str) -> None:
    from motet.pipeline.run import run_pipeline

    file = folder / "copy.py"
    file.write_text(text)
    run_pipeline(db, load_pipeline(file, "copies"), once=True, checkpoint=folder / "notes")


def is_right(db: motet.Database, folder: Path) -> bool:
    """Whether `motet pipeline check` would find no difference."""
    from motet.pipeline.check import check_pipeline

    checks = check_pipeline(db, load_pipeline(folder / "copy.py", "copies"))
    return all(one.difference.is_none for one in checks)


def load(spark: SparkSession, db: motet.Database, table: str) -> DataFrame:
    return spark.read.format("motet").options(endpoint=db.endpoint, table=table).load()


@pytest.mark.parametrize("others", ["", WITH_AN_UNTYPED_STREAM], ids=["typed", "mixed"])
def test_values_of_all_types_come_out_of_a_pipeline_as_they_went_in(
    spark: SparkSession, db: motet.Database, tmp_path: Path, others: str
) -> None:
    fill(db)
    run(db, tmp_path, COPY + others)
    written = {**HIGHEST, "id": 4}
    assert db.table("copied").select().to_pylist() == [*ROWS, written]
    assert db.sql("select * from copied order by id").to_pylist() == [*ROWS, written]
    latest = db.table("latest").select(["id", "row"]).to_pylist()
    assert latest == [{"id": row["id"], "row": row} for row in ROWS]
    assert db.sql("select id from latest order by id").to_pylist() == [{"id": i} for i in range(4)]
    assert is_right(db, tmp_path)


def test_values_of_all_types_go_through_spark_and_back_into_a_stream(
    spark: SparkSession, db: motet.Database
) -> None:
    first = db.create_table("first", TYPES, order_by=["id"])
    second = db.create_table("second", TYPES, order_by=["id"])
    first.insert(ROWS)
    assert first.select().schema == TYPES
    frame = load(spark, db, "first")
    frame.write.format("motet").options(endpoint=db.endpoint, table="second").mode("append").save()
    assert second.select().to_pylist() == ROWS
    for row in second.select().to_pylist():
        with db.transaction() as txn:
            txn.change("typed", key=str(row["id"]), op="insert", row=row)
    db.visible_clock("typed", wait=True)
    page = db.changes("typed")
    assert [change.row for change in page.changes] == ROWS
    assert page.to_arrow()["row"].to_pylist() == ROWS
    feed = spark.read.format("motet").options(endpoint=db.endpoint, streams="typed").load()
    assert feed.select("row.*").toArrow().sort_by("id").to_pylist() == ROWS


def test_what_is_no_number_stays_that_in_a_table(spark: SparkSession, db: motet.Database) -> None:
    schema = pa.schema([("id", pa.int64()), ("f32", pa.float32()), ("f64", pa.float64())])
    numbers = [float("-inf"), -0.0, float("inf"), float("nan")]
    db.create_table("numbers", schema, order_by=["f64"]).insert(
        [{"id": i, "f32": number, "f64": number} for i, number in enumerate(numbers)]
    )
    for found in (
        db.table("numbers").select(),
        db.sql("select * from numbers"),
        load(spark, db, "numbers").toArrow(),
    ):
        rows = sorted(found.to_pylist(), key=lambda row: int(row["id"]))
        assert [repr(row["f64"]) for row in rows] == ["-inf", "-0.0", "inf", "nan"]
        assert [repr(row["f32"]) for row in rows] == ["-inf", "-0.0", "inf", "nan"]


def test_a_column_with_a_dot_is_not_a_field_of_another_one(
    spark: SparkSession, db: motet.Database, tmp_path: Path
) -> None:
    with db.transaction() as txn:
        txn.change("plain", key="k", op="insert", row={"a": {"b": "within"}, "a.b": "beside"})
    run(
        db,
        tmp_path,
        "from motet import pipeline\n"
        "@pipeline.table(engine='merge', order_by=['a.b'])\n"
        "def dotted(changes):\n"
        "    rows = changes.stream('plain', schema='a struct<b string>, `a.b` string')\n"
        "    return rows.select('row.*')\n",
    )
    wanted = [{"a": {"b": "within"}, "a.b": "beside"}]
    assert db.table("dotted").select().to_pylist() == wanted
    frame = load(spark, db, "dotted")
    assert frame.toArrow().to_pylist() == wanted
    frame.write.format("motet").options(endpoint=db.endpoint, table="dotted").mode("append").save()
    assert db.table("dotted").select().to_pylist() == wanted * 2


def test_columns_may_be_called_anything(
    spark: SparkSession, db: motet.Database, tmp_path: Path
) -> None:
    names = ["id", *ODD_NAMES]
    schema = pa.schema([(name, pa.int64()) for name in names])
    db.create_stream("odd", schema=schema)
    rows = [{name: 100 * i + place for place, name in enumerate(names)} for i in range(3)]
    for row in rows:
        with db.transaction() as txn:
            txn.change("odd", key=str(row["id"]), op="insert", row=row)
    run(
        db,
        tmp_path,
        "from motet import pipeline\n"
        f"@pipeline.table(engine='replacing', order_by={names[1:]!r}, version='id')\n"
        "def odd_now(changes): return changes.stream('odd').select('row.*')\n",
    )
    assert db.table("odd_now").select(names).to_pylist() == rows
    for name in names:
        assert db.table("odd_now").select([name]).to_pylist() == [{name: row[name]} for row in rows]
        quoted, ticked = '"' + name.replace('"', '""') + '"', "`" + name.replace("`", "``") + "`"
        found = db.sql(f"select {quoted} from odd_now where {quoted} >= 200")
        assert found.to_pylist() == [{name: rows[2][name]}]
        frame = load(spark, db, "odd_now").where(f"{ticked} >= 200").select(ticked)
        assert frame.toArrow().to_pylist() == [{name: rows[2][name]}]
    db.create_table("odd_copy", schema, order_by=["a.b"])
    load(spark, db, "odd_now").write.format("motet").options(
        endpoint=db.endpoint, table="odd_copy"
    ).mode("append").save()
    assert db.table("odd_copy").select(names).to_pylist() == rows
    assert is_right(db, tmp_path)
