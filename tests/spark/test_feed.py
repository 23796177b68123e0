"""The feed as a batch: exactly its eleven columns, exactly the changes between two clocks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import motet
from motet.client.change import Change
from motet.core.clock.hlc import Clock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

COLUMNS = [
    ("clock", "struct<logical:bigint,counter:int>"),
    ("transaction", "string"),
    ("index", "int"),
    ("count", "int"),
    ("stream", "string"),
    ("shard", "int"),
    ("key", "binary"),
    ("op", "string"),
    ("row", "string"),
    ("before", "string"),
    ("at", "timestamp"),
]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[motet.Database]:
    with motet.open(tmp_path / "data") as database:
        yield database


@pytest.fixture
def filled(db: motet.Database) -> motet.Database:
    """Transactions of one to three changes over two streams of JSON rows."""
    db.create_stream("orders", shards=3)
    db.create_stream("stock", shards=2)
    for i in range(20):
        with db.transaction() as txn:
            txn.change("orders", key=f"o-{i}", op="insert", row={"sku": "ä", "qty": i})
            for j in range(i % 3):
                txn.change(
                    "stock", key=f"s-{j}", op="update", row={"left": i}, before={"left": i - 1}
                )
    return db


def load(spark: SparkSession, db: motet.Database, streams: str, **options: str) -> DataFrame:
    reader = spark.read.format("motet").option("endpoint", db.endpoint).option("streams", streams)
    return reader.options(**options).load()


def everything(db: motet.Database, *streams: str) -> list[Change]:
    found: list[Change] = []
    cursor: str | None = None
    has_more = True
    while has_more:
        page = db.changes(*streams, after=cursor, limit=10_000)
        found += page.changes
        cursor, has_more = page.cursor, page.more
    return found


def place(row: Row) -> tuple[Clock, str, int]:
    return Clock(*row["clock"]), row["transaction"], row["index"]


def place_of(change: Change) -> tuple[Clock, str, int]:
    return change.raw.clock, change.transaction, change.index


def test_every_change_with_every_column(spark: SparkSession, filled: motet.Database) -> None:
    frame = load(spark, filled, "orders,stock")
    assert [(f.name, f.dataType.simpleString()) for f in frame.schema.fields] == COLUMNS
    rows = frame.collect()
    changes = everything(filled, "orders", "stock")
    assert len(rows) == len(changes) == 39
    for row, change in zip(rows, changes, strict=True):
        assert place(row) == place_of(change)
        assert (row["count"], row["stream"], row["shard"]) == (
            change.count,
            change.stream,
            change.shard,
        )
        assert (bytes(row["key"]), row["op"]) == (change.key, change.op)
        assert json.loads(row["row"]) == change.row
        assert (None if row["before"] is None else json.loads(row["before"])) == change.before
        at: datetime = row["at"]
        assert at.astimezone(UTC) == change.at


def test_between_two_clocks(spark: SparkSession, filled: motet.Database) -> None:
    clocks = sorted({change.raw.clock for change in everything(filled, "stock")})
    after, up_to = clocks[3], clocks[8]
    rows = load(spark, filled, "stock", after=str(after), up_to=str(up_to)).collect()
    assert {Clock(*row["clock"]) for row in rows} == set(clocks[4:9])
    assert load(spark, filled, "stock", after=str(clocks[-1])).collect() == []
    nothing = load(spark, filled, "stock", after=str(after), up_to=str(after))
    assert nothing.collect() == []


def test_a_feed_without_changes(spark: SparkSession, db: motet.Database) -> None:
    db.create_stream("quiet")
    assert load(spark, db, "quiet").collect() == []


def test_what_is_loaded_stays_as_it_is(spark: SparkSession, filled: motet.Database) -> None:
    early = load(spark, filled, "orders", columns="key,op")
    with filled.transaction() as txn:
        txn.change("orders", key="late", op="delete")
    late = load(spark, filled, "orders", columns="key,op")
    assert late.count() == 21, "what was committed before is there"
    assert early.count() == early.where("op = 'insert'").count() == 20
    assert early.where("op = 'delete'").count() == 0


def test_columns_are_chosen_by_option_and_by_schema(
    spark: SparkSession, filled: motet.Database
) -> None:
    chosen = load(spark, filled, "orders", columns="op,clock")
    assert chosen.columns == ["op", "clock"]
    assert {row["op"] for row in chosen.collect()} == {"insert"}
    reader = spark.read.format("motet").schema("key binary, count int")
    rows = reader.options(endpoint=filled.endpoint, streams="orders").load().collect()
    assert sorted(bytes(row["key"]) for row in rows) == sorted(f"o-{i}".encode() for i in range(20))


SCHEMA = pa.schema(
    [
        pa.field("sku", pa.string(), nullable=False),
        ("qty", pa.int32()),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("tags", pa.list_(pa.string())),
    ]
)


def typed_row(i: int) -> dict[str, Any]:
    return {
        "sku": f"s-{i}",
        "qty": i,
        "price": None,
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "tags": ["a", "b"],
    }


def test_the_row_of_one_typed_stream_is_its_struct(spark: SparkSession, db: motet.Database) -> None:
    db.create_stream("orders", schema=SCHEMA)
    with db.transaction() as txn:
        txn.change("orders", key="a", op="insert", row=typed_row(1))
        txn.change("orders", key="b", op="delete", before=typed_row(2))
    frame = load(spark, db, "orders")
    wanted = "struct<sku:string,qty:int,price:decimal(10,2),at:timestamp,tags:array<string>>"
    assert frame.schema["row"].dataType.simpleString() == wanted
    assert frame.schema["before"].dataType.simpleString() == wanted
    inserted, deleted = frame.collect()
    assert inserted["row"]["sku"] == "s-1"
    assert inserted["row"]["tags"] == ["a", "b"]
    assert inserted["row"]["at"].astimezone(UTC) == typed_row(1)["at"]
    assert deleted["row"] is None
    assert deleted["before"]["qty"] == 2


def test_the_row_of_several_typed_streams_has_a_field_for_each(
    spark: SparkSession, db: motet.Database
) -> None:
    db.create_stream("orders", schema=SCHEMA)
    db.create_stream("stock", schema=pa.schema([("left", pa.int64())]))
    with db.transaction() as txn:
        txn.change("orders", key="a", op="insert", row=typed_row(1))
        txn.change("stock", key="b", op="update", row={"left": 5})
    orders, stock = load(spark, db, "orders,stock").select("row").collect()
    assert (orders["row"]["orders"]["qty"], orders["row"]["stock"]) == (1, None)
    assert (stock["row"]["orders"], stock["row"]["stock"]["left"]) == (None, 5)


def test_a_typed_and_an_untyped_stream_together_are_json(
    spark: SparkSession, db: motet.Database
) -> None:
    db.create_stream("orders", schema=SCHEMA)
    db.create_stream("notes")
    with db.transaction() as txn:
        txn.change("orders", key="a", op="insert", row=typed_row(1))
        txn.change("notes", key="b", op="insert", row={"x": [1, None]})
    orders, notes = load(spark, db, "orders,notes").collect()
    assert json.loads(orders["row"])["qty"] == 1
    assert json.loads(notes["row"]) == {"x": [1, None]}


def test_raw_entries_are_text_or_base64(spark: SparkSession, db: motet.Database) -> None:
    db.create_stream("raw", shards=1)
    db.stream("raw").append("a", "grün".encode())
    db.stream("raw").append("b", b"\xff\x00")
    text, data = load(spark, db, "raw").collect()
    assert (text["op"], text["row"]) == ("append", "grün")
    assert json.loads(data["row"]) == {"$base64": "/wA="}


def test_a_large_slice_is_cut_between_transactions_into_stretches_in_order(
    filled: motet.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    from motet.pipeline import feed_reader
    from motet.pipeline.options import parse_options

    monkeypatch.setattr(feed_reader, "split_changes", 10)
    asked = parse_options({"endpoint": filled.endpoint, "streams": "orders,stock"})
    reader = feed_reader.FeedReader(asked, feed_reader.load_feed(asked)[0])
    tasks = [
        [row for batch in reader.read(split) for row in batch.to_pylist()]
        for split in reader.partitions()
    ]
    assert len(tasks) == 4
    assert all(tasks)
    for rows in tasks:
        found = Counter(row["transaction"] for row in rows)
        assert found == {row["transaction"]: row["count"] for row in rows}
    places = [
        (Clock(**row["clock"]), row["transaction"], row["index"]) for rows in tasks for row in rows
    ]
    assert places == [place_of(change) for change in everything(filled, "orders", "stock")]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"streams": "nowhere"}, "NO_SUCH_STREAM there is no stream 'nowhere'"),
        ({"streams": "order"}, "did you mean orders"),
        ({"up_to": "(4398046511103,0)"}, "BAD_INPUT option up_to: (4398046511103,0) is above"),
        ({"after": "(4398046511103,0)"}, "BAD_INPUT option after: (4398046511103,0) is above"),
        ({"after": "long ago"}, "BAD_INPUT option after: 'long ago' is not a clock"),
        ({"columns": "clok"}, "did you mean clock"),
        ({"token": "x"}, "BAD_INPUT option token does not apply here"),
    ],
)
def test_bad_input_is_told_before_any_task_starts(
    spark: SparkSession, filled: motet.Database, options: dict[str, str], text: str
) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as caught:
        load(spark, filled, **{"streams": "orders", **options}).collect()
    assert text in str(caught.value)
    assert "Job aborted" not in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("key string", "BAD_SCHEMA column key of the feed is binary, not string"),
        ("clock struct<logical:bigint,counter:int> not null", "clock of the feed may be null"),
        ("colour string", "BAD_SCHEMA the feed has no column colour"),
    ],
)
def test_a_schema_that_does_not_fit_names_the_column(
    spark: SparkSession, filled: motet.Database, schema: str, text: str
) -> None:
    from pyspark.errors import PySparkException

    reader = spark.read.format("motet").schema(schema)
    with pytest.raises(PySparkException) as caught:
        reader.options(endpoint=filled.endpoint, streams="orders").load().collect()
    assert text in str(caught.value)
