"""Writing DataFrames to tables: all of it at once, once per token, or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import motet
from motet.errors.tables import StagingEnded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        ("name", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("price", pa.decimal128(12, 2)),
        ("tags", pa.list_(pa.string())),
    ]
)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[motet.Database]:
    with motet.open(tmp_path / "data") as database:
        database.create_table("sales", SCHEMA, order_by=["k"])
        yield database


def frame(spark: SparkSession, rows: int, tasks: int = 3) -> DataFrame:
    return spark.range(0, rows, 1, tasks).selectExpr(
        "id as k",
        "if(id % 5 = 0, null, concat('n-', id)) as name",
        "timestamp_micros(id * 1000001) as at",
        "cast(id / 4 as decimal(12,2)) as price",
        "array('a', null, cast(id as string)) as tags",
    )


def save(
    data: DataFrame, db: motet.Database, mode: str = "append", table: str = "sales", **options: str
) -> None:
    writer = data.write.format("motet").option("endpoint", db.endpoint).option("table", table)
    writer.options(**options).mode(mode).save()


def load(spark: SparkSession, db: motet.Database) -> DataFrame:
    return spark.read.format("motet").options(endpoint=db.endpoint, table="sales").load()


def test_what_was_written_is_read_back(spark: SparkSession, db: motet.Database) -> None:
    data = frame(spark, 1000)
    save(data, db)
    found = load(spark, db)
    assert found.count() == 1000
    assert found.exceptAll(data).count() == 0
    parts = db.snapshot("sales")["sales"].parts
    assert len(parts) == 3
    assert len({part.name.split("_")[1].split(".")[0] for part in parts}) == 1, "by one entry"
    assert db.table("sales").select().num_rows == 1000


def test_the_time_zone_of_the_session_changes_nothing(
    spark: SparkSession, db: motet.Database
) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    save(frame(session, 50), db)
    assert load(spark, db).exceptAll(frame(spark, 50)).count() == 0


def test_columns_go_by_name_and_fitting_types_are_widened(
    spark: SparkSession, db: motet.Database
) -> None:
    save(spark.range(4).selectExpr("'x' as name", "cast(id as int) as k"), db)
    rows = db.table("sales").select().to_pylist()
    assert [(row["k"], row["name"], row["at"]) for row in rows] == [
        (k, "x", None) for k in range(4)
    ]


def test_a_frame_without_rows_leaves_nothing(spark: SparkSession, db: motet.Database) -> None:
    save(frame(spark, 0), db)
    save(frame(spark, 0), db, token="not used")
    save(frame(spark, 5), db, token="not used")
    assert db.table("sales").select().num_rows == 5


def test_the_same_token_writes_once(spark: SparkSession, db: motet.Database) -> None:
    save(frame(spark, 10), db, token="batch-1")
    save(frame(spark, 10), db, token="batch-1")
    assert load(spark, db).count() == 10
    save(frame(spark, 10), db, token="batch-2")
    save(frame(spark, 10), db)
    save(frame(spark, 10), db)
    assert load(spark, db).count() == 40


def test_insert_into_a_view(spark: SparkSession, db: motet.Database) -> None:
    spark.sql(
        f"create temporary view written using motet options "
        f"(endpoint '{db.endpoint}', table 'sales')"
    )
    try:
        frame(spark, 10).createOrReplaceTempView("given")
        spark.sql("insert into written select * from given")
    finally:
        spark.catalog.dropTempView("written")
        spark.catalog.dropTempView("given")
    assert load(spark, db).exceptAll(frame(spark, 10)).count() == 0
    assert load(spark, db).count() == 10


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        (["id as k", "id as colour"], "colour"),
        (["'x' as name"], "k"),
        (["'x' as k"], "k"),
        (["id as k", "id as name"], "name"),
        (["id as k", "array(id) as tags"], "tags"),
    ],
)
def test_a_column_that_does_not_fit_is_named_before_any_task_starts(
    spark: SparkSession, db: motet.Database, columns: list[str], text: str
) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as caught:
        save(spark.range(4).selectExpr(*columns), db)
    assert "BAD_SCHEMA" in str(caught.value)
    assert text in str(caught.value).split("BAD_SCHEMA")[1]
    assert "Job aborted" not in str(caught.value)


@pytest.mark.parametrize(
    ("mode", "options", "text"),
    [
        (
            "append",
            {"partitionOverwriteMode": "dynamic"},
            "BAD_INPUT option partitionOverwriteMode",
        ),
        (
            "overwrite",
            {"partitionOverwriteMode": "some"},
            "BAD_INPUT option partitionOverwriteMode",
        ),
        ("append", {"table": "nowhere"}, "NO_SUCH_TABLE"),
        ("append", {"columns": "k"}, "BAD_INPUT option columns does not apply here"),
        ("append", {"token": ""}, "BAD_INPUT option token"),
        ("append", {"tokn": "x"}, "did you mean token?"),
        ("append", {"endpoint": "127.0.0.1"}, "BAD_INPUT option endpoint: '127.0.0.1'"),
    ],
)
def test_bad_input_is_told_before_any_task_starts(
    spark: SparkSession, db: motet.Database, mode: str, options: dict[str, str], text: str
) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as caught:
        save(frame(spark, 3), db, mode, **options)
    assert text in str(caught.value)
    assert "Job aborted" not in str(caught.value)


def test_a_null_where_none_may_be_fails_the_write_and_nothing_is_visible(
    spark: SparkSession, db: motet.Database
) -> None:
    from pyspark.errors import PySparkException

    data = spark.range(0, 100, 1, 4).selectExpr("if(id = 99, null, id) as k")
    with pytest.raises(PySparkException) as caught:
        save(data, db)
    assert "BAD_SCHEMA" in str(caught.value)
    assert db.snapshot("sales")["sales"].parts == ()


def test_a_task_that_fails_and_runs_again_counts_once(
    spark: SparkSession, db: motet.Database, tmp_path: Path
) -> None:
    """A task that has staged its rows and is then lost; another one does its work again."""
    from motet.pipeline.options import parse_options
    from motet.pipeline.table_writer import TableWriter

    asked = parse_options({"endpoint": db.endpoint, "table": "sales"})
    schema = frame(spark, 1).schema
    batches = frame(spark, 20, tasks=1).toArrow().to_batches()
    writer = TableWriter(asked, schema, overwrite=False)
    writer.write(iter(batches))
    second = writer.write(iter(batches))
    writer.commit([second])
    assert db.table("sales").select().num_rows == 20


@pytest.fixture
def by_day(db: motet.Database) -> motet.Database:
    """Two shards, and a partition for each day."""
    schema = pa.schema([("day", pa.date32()), ("k", pa.int64())])
    options = {"partition_by": "day", "shards": 2, "shard_by": "k"}
    db.create_table("days", schema, order_by=["day", "k"], **options)
    return db


def days(spark: SparkSession, first: int, behind: int, rows: int = 20) -> DataFrame:
    frame = spark.range(first * rows, behind * rows, 1, 2)
    return frame.selectExpr(
        f"date_add(date'2026-01-01', cast(id div {rows} as int)) as day", "id as k"
    )


def rows_by_day(db: motet.Database) -> dict[int, int]:
    found = Counter(day.day for day in db.table("days").select()["day"].to_pylist())
    return dict(sorted(found.items()))


def test_overwriting_drops_what_was_there(spark: SparkSession, by_day: motet.Database) -> None:
    """All of it, or of the partitions that get rows; at each version the old rows or the new ones."""
    save(days(spark, 0, 3), by_day, table="days")
    before = by_day.snapshot("days").version
    assert {part.shard for part in by_day.snapshot("days")["days"].parts} == {0, 1}
    save(days(spark, 2, 4, rows=5), by_day, "overwrite", "days", partitionOverwriteMode="dynamic")
    assert rows_by_day(by_day) == {1: 20, 2: 20, 3: 5, 4: 5}
    save(days(spark, 4, 5), by_day, "overwrite", "days")
    assert rows_by_day(by_day) == {5: 20}
    assert by_day.table("days").select(at=before).num_rows == 60
    reader = spark.read.format("motet").options(endpoint=by_day.endpoint, table="days")
    assert reader.load().count() == 20
    assert reader.option("at", str(before)).load().count() == 60


def test_overwriting_with_nothing_empties_the_table(
    spark: SparkSession, by_day: motet.Database
) -> None:
    save(days(spark, 0, 2), by_day, table="days")
    nothing = days(spark, 0, 0)
    save(nothing, by_day, "overwrite", "days", partitionOverwriteMode="dynamic")
    assert rows_by_day(by_day) == {1: 20, 2: 20}
    save(nothing, by_day, "overwrite", "days")
    assert rows_by_day(by_day) == {}
    save(nothing, by_day, "overwrite", "days")


def test_overwriting_with_a_token_happens_once(spark: SparkSession, db: motet.Database) -> None:
    save(frame(spark, 10), db)
    save(frame(spark, 5), db, "overwrite", token="nightly")
    save(frame(spark, 7), db)
    save(frame(spark, 5), db, "overwrite", token="nightly")
    assert load(spark, db).count() == 12


def test_a_token_with_other_rows_is_refused(spark: SparkSession, db: motet.Database) -> None:
    from pyspark.errors import PySparkException

    save(frame(spark, 10), db, token="batch-1")
    with pytest.raises(PySparkException, match="TOKEN_REUSED"):
        save(frame(spark, 11), db, token="batch-1")
    assert load(spark, db).count() == 10


def test_a_write_that_lasts_is_staged_in_a_job_that_publishing_ends(
    spark: SparkSession, db: motet.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first task is quick, the second one comes when the write has lasted a while."""
    from motet.pipeline import staging_lease
    from motet.pipeline.options import parse_options
    from motet.pipeline.table_writer import TableWriter

    asked = parse_options({"endpoint": db.endpoint, "table": "sales"})
    batches = frame(spark, 20, tasks=1).toArrow().to_batches()
    writer = TableWriter(asked, frame(spark, 1).schema, overwrite=False)
    first = writer.write(iter(batches))
    assert not first.has_opened
    monkeypatch.setattr(staging_lease, "renew_seconds", 0.0001)
    second = writer.write(iter(batches))
    assert second.has_opened
    db.renew_job(writer._job, ["sales"])
    writer.commit([first, second])
    assert db.table("sales").select().num_rows == 40
    with pytest.raises(StagingEnded, match="is published"):
        db.renew_job(writer._job, ["sales"])


def test_an_aborted_write_leaves_nothing_visible(spark: SparkSession, db: motet.Database) -> None:
    from motet.pipeline.options import parse_options
    from motet.pipeline.table_writer import TableWriter

    asked = parse_options({"endpoint": db.endpoint, "table": "sales"})
    writer = TableWriter(asked, frame(spark, 1).schema, overwrite=False)
    staged = writer.write(iter(frame(spark, 20, tasks=1).toArrow().to_batches()))
    writer.abort([staged, None])
    assert db.table("sales").select().num_rows == 0


def test_blocks_are_gathered_in_order_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    from motet.pipeline import table_writer

    monkeypatch.setattr(table_writer, "block_rows", 10)
    batches = [pa.RecordBatch.from_pydict({"k": [i] * (i % 5)}) for i in range(20)]
    blocks = list(table_writer.gathered(batches))
    assert [row for block in blocks for row in block["k"].to_pylist()] == [
        i for i in range(20) for _ in range(i % 5)
    ]
    assert all(10 <= block.num_rows < 15 for block in blocks[:-1])
    assert list(table_writer.gathered([])) == []
