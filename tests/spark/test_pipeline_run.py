"""A pipeline that runs: its tables equal a plain fold of the feed, whatever happens in between."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.spark.pipeline_shop import PIPELINE, folded, open_shop, published, rows, sell

import motet
from motet.core.mergetree.version import Version
from motet.errors import (
    BadCheckpoint,
    BadPipeline,
    BadSchema,
    PipelineFailed,
    TableExists,
    WriterFenced,
)
from motet.ids import Zxid
from motet.pipeline.definition import load_pipeline

if TYPE_CHECKING:
    from motet.pipeline.batch import BatchReport
    from motet.pipeline.run import RunReport

pytestmark = pytest.mark.usefixtures("spark")


class Shop:
    """A database, a pipeline file and a checkpoint."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.db = open_shop(folder / "data")
        self.file = folder / "shop.py"
        self.file.write_text(PIPELINE)
        self.checkpoint = folder / "checkpoint"

    def run(self, changes_max: int = 1000, **options: Any) -> RunReport:
        from motet.pipeline.run import run_pipeline

        given = {"once": True, "checkpoint": self.checkpoint, **options}
        return run_pipeline(self.db, load_pipeline(self.file), changes_max=changes_max, **given)

    def steps(self) -> int:
        info = self.db.writer("shop")
        return 0 if info is None else info.steps


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    made.db.close()


def test_tables_equal_the_feed_folded_by_a_plain_program(shop: Shop) -> None:
    sell(shop.db, 0, 40)
    reports: list[BatchReport] = []
    done = shop.run(report=reports.append)
    assert published(shop.db) == folded(shop.db)
    assert (done.steps, len(reports)) == (1, 1)
    (report,) = reports
    assert (report.changes, report.changes_after, report.lag_ms) == (80, 0, 0)
    info = shop.db.writer("shop")
    assert info is not None
    assert info.step is not None
    assert info.step.through == done.clock == report.clock
    assert (info.rows, set(info.tables)) == (report.rows, {"stock_now", "sales", "sales_by_batch"})
    snapshot = shop.db.snapshot("stock_now", "sales", "sales_by_batch")
    parts = [len(table.parts) for table in snapshot.tables.values()]
    assert parts == [1, 1, 1], "few rows make few parts"


def test_a_run_goes_on_where_the_last_one_ended(shop: Shop) -> None:
    sell(shop.db, 0, 20)
    assert shop.run().steps == 1
    assert shop.run().steps == 0, "nothing is new"
    sell(shop.db, 20, 30)
    assert shop.run().steps == 1
    assert published(shop.db) == folded(shop.db)


def test_all_tables_of_a_step_become_visible_at_one_version(shop: Shop) -> None:
    """Just before a step's version they all are as the step before has left them."""
    sell(shop.db, 0, 30)
    shop.run(changes_max=20)
    steps = shop.db.writer_steps("shop")
    assert len(steps) > 1
    for number, step in enumerate(steps, 1):
        before = Version(step.version.incarnation, Zxid(step.version.zxid - 1))
        assert part_counts(shop.db, step.version) == [number] * 3
        assert part_counts(shop.db, before) == [number - 1] * 3


def part_counts(db: motet.Database, version: Version) -> list[int]:
    snapshot = db.snapshot("stock_now", "sales", "sales_by_batch", at=version)
    return [len(table.parts) for table in snapshot.tables.values()]


def copy_of(folder: Path) -> Path:
    copy = folder.with_name("old")
    shutil.copytree(folder, copy)
    return copy


def restore_deleted(shop: Shop, old: Path) -> None:
    shutil.rmtree(shop.checkpoint)


def restore_old(shop: Shop, old: Path) -> None:
    shutil.rmtree(shop.checkpoint)
    shutil.move(old, shop.checkpoint)


def restore_uncommitted(shop: Shop, old: Path) -> None:
    """As if the driver had been killed after it published, before Spark noted that."""
    commits = shop.checkpoint / "commits"
    last = max(int(path.name) for path in commits.glob("[0-9]*"))
    (commits / f"{last}").unlink()
    (commits / f".{last}.crc").unlink()


@pytest.mark.parametrize(
    ("restore", "changes_max"),
    [
        pytest.param(restore_deleted, 4, id="deleted"),
        pytest.param(restore_old, 4, id="old", marks=pytest.mark.long),
        pytest.param(restore_old, 1000, id="old and cut otherwise", marks=pytest.mark.long),
        pytest.param(restore_uncommitted, 4, id="uncommitted", marks=pytest.mark.long),
    ],
)
def test_whatever_becomes_of_the_checkpoint_the_tables_are_the_same(
    shop: Shop, restore: Callable[[Shop, Path], None], changes_max: int
) -> None:
    """An old one cut otherwise begins before what is done, and ends behind it."""
    sell(shop.db, 0, 3)
    shop.run(changes_max=4)
    old = copy_of(shop.checkpoint)
    sell(shop.db, 3, 6)
    shop.run(changes_max=4)
    before = shop.steps()
    restore(shop, old)
    sell(shop.db, 6, 9)
    shop.run(changes_max=changes_max)
    assert published(shop.db) == folded(shop.db)
    assert shop.steps() > before > 2


def test_killed_between_publishing_and_telling_spark(shop: Shop) -> None:
    sell(shop.db, 0, 20)

    def fail(batch: BatchReport) -> None:
        raise RuntimeError("killed here")

    with pytest.raises(PipelineFailed, match="killed here"):
        shop.run(changes_max=10, report=fail)
    assert shop.steps() == 1
    shop.run(changes_max=10)
    assert published(shop.db) == folded(shop.db)


def test_a_checkpoint_that_is_ahead_of_the_tables_is_refused(shop: Shop) -> None:
    sell(shop.db, 0, 10)
    shop.run()
    shop.db.close()
    shutil.copytree(shop.folder / "data", shop.folder / "older")
    shop.db = motet.open(shop.folder / "data")
    sell(shop.db, 10, 20)
    shop.run()
    shop.db.close()
    shop.db = motet.open(shop.folder / "older")
    sell(shop.db, 20, 30)
    with pytest.raises(BadCheckpoint):
        shop.run()
    shutil.rmtree(shop.checkpoint)
    shop.run()
    assert published(shop.db) == folded(shop.db)


RIVAL = """
import motet
from motet import Clock
from motet.core.clock.writer_step import WriterStep

calls = 0

@pipeline.table(engine="merge", order_by=["sku"])
def last_one(changes):
    global calls
    calls += 1
    if calls == 2:  # the first call is the one that tries it without rows
        with motet.connect({endpoint!r}) as db:
            db.stream("other").append(key="x", value=b"what moves the clock")
            further = db.visible_clock("other", wait=True)
            db.publish([], step=WriterStep("shop", 0, None, {clock}))
    return changes.stream("orders", schema="sku string").select("row.sku")
"""


@pytest.mark.parametrize("how_far", ["less", pytest.param("more", marks=pytest.mark.long)])
def test_a_second_driver_ends_the_run_of_the_first(shop: Shop, how_far: str) -> None:
    sell(shop.db, 0, 10)
    seen = shop.db.visible_clock(wait=True)
    sell(shop.db, 10, 12)
    clock = f"Clock({seen.logical}, {seen.counter})" if how_far == "less" else "further"
    shop.file.write_text(PIPELINE + RIVAL.format(endpoint=shop.db.endpoint, clock=clock))
    with pytest.raises(WriterFenced):
        shop.run()
    assert [info.rows for info in shop.db.tables()] == [0, 0, 0, 0]
    info = shop.db.writer("shop")
    assert info is not None
    assert (info.steps, info.error) == (1, ""), "the other one is well"
    rest = shop.run()
    assert (rest.steps > 0) == (how_far == "less")
    assert len(rows(shop.db, "sales")) == (2 if how_far == "less" else 0)


def test_a_row_that_does_not_fit_ends_the_run_and_is_remembered_until_it_works(shop: Shop) -> None:
    sell(shop.db, 0, 10)
    shop.run()
    with shop.db.transaction() as txn:
        txn.change("orders", key="o-x", op="insert", row={"sku": "s-1", "qty": "many"})
    said: list[str] = []
    with pytest.raises(PipelineFailed, match=r"qty|many|parse"):
        shop.run(say=said.append)
    assert said[-1] == "batch 1 has failed: looking for the table and the change"
    info = shop.db.writer("shop")
    assert info is not None
    where = "table sales (function sales, shop.py line 10; the insert of orders key o-x at (17"
    assert info.error.startswith(f"PIPELINE_FAILED shop has stopped: {where}")
    assert info.steps == 1, "nothing of the batch was published"
    shop.file.write_text(PIPELINE.replace("qty int", "qty string"))
    with pytest.raises(TableExists):
        shop.run()
    text = PIPELINE.replace('"sku string, qty int")', '"sku string, qty string")')
    text = text.replace('"row.qty", "trans', 'f.expr("try_cast(row.qty as int) qty"), "trans')
    text = text.replace('f.sum("row.qty")', 'f.expr("sum(try_cast(row.qty as int))")')
    shop.file.write_text(text)
    shop.run()
    info = shop.db.writer("shop")
    assert info is not None
    assert (info.error, info.steps) == ("", 2)


def test_a_key_that_is_null_names_its_column(shop: Shop) -> None:
    with shop.db.transaction() as txn:
        txn.change("orders", key="o-x", op="insert", row={"qty": 1})
    with pytest.raises(BadSchema, match=r"table sales \(function sales, .* key o-x at .*sku"):
        shop.run()
    assert shop.steps() == 0


BROKEN = """
def half(qty):
    return 1 / (qty - 2)

@pipeline.table(engine="merge", order_by=["sku"])
def halves(changes):
    if broken: raise OSError("no such place")
    orders = changes.stream("orders", schema="sku string, qty int")
    return orders.groupBy("row.sku").agg(f.sum(f.udf(half, "double")("row.qty")).alias("h"))
"""


def test_an_error_names_the_table_its_function_and_the_change(shop: Shop) -> None:
    """Also when the function groups, and when it fails itself."""
    sell(shop.db, 0, 3)
    shop.file.write_text(PIPELINE + BROKEN.replace("broken", "False"))
    name = r"table halves \(function halves, shop.py line \d+"
    with pytest.raises(
        PipelineFailed, match=rf"{name}; the insert of orders key o-1 at .*division"
    ):
        shop.run()
    calls = "calls = []\n" + BROKEN.replace("broken", "calls or calls.append(1)")
    shop.file.write_text(PIPELINE + calls)
    with pytest.raises(PipelineFailed, match=rf"{name}\): OSError: no such place"):
        shop.run()
    assert shop.steps() == 0


def test_a_batch_that_has_begun_is_finished_when_it_is_to_stop(shop: Shop) -> None:
    sell(shop.db, 0, 20)
    stop = threading.Event()

    def enough(batch: BatchReport) -> None:
        stop.set()

    done = shop.run(changes_max=10, once=False, report=enough, stop=stop)
    assert done.steps >= 1
    shop.run(changes_max=10)
    assert published(shop.db) == folded(shop.db)


def test_a_pipeline_that_follows_sees_what_is_written_meanwhile(shop: Shop) -> None:
    stop = threading.Event()
    sell(shop.db, 0, 5)

    def more(batch: BatchReport) -> None:
        if batch.batch < 3:
            sell(shop.db, 5 * (batch.batch + 1), 5 * (batch.batch + 2))
        else:
            stop.set()

    shop.run(once=False, report=more, stop=stop)
    assert published(shop.db) == folded(shop.db)


@pytest.mark.long
def test_changes_of_other_streams_alone_are_a_step_without_rows(shop: Shop) -> None:
    sell(shop.db, 0, 3)
    shop.run()
    for _ in range(3):
        shop.db.stream("other").append(key="x", value=b"nothing")
    shop.run()
    info = shop.db.writer("shop")
    assert info is not None
    before = info.rows
    sell(shop.db, 3, 6)
    shop.run()
    assert published(shop.db) == folded(shop.db)
    assert shop.run().steps == 0
    assert before > 0


def test_what_has_published_gets_no_new_table_and_shares_none_with_another(shop: Shop) -> None:
    sell(shop.db, 0, 3)
    shop.run()
    shop.file.write_text(PIPELINE + PIPELINE.split("\n\n")[2].replace("def sales", "def more"))
    with pytest.raises(BadPipeline, match=r"table more is new.*a file of its own"):
        shop.run()
    assert "more" not in [info.name for info in shop.db.tables()]
    shop.file.write_text(PIPELINE)
    shop.file = shop.file.rename(shop.folder / "other.py")
    with pytest.raises(BadPipeline, match="belongs to pipeline shop"):
        shop.run(checkpoint=shop.folder / "other")
    with pytest.raises(BadCheckpoint, match="pipeline shop"):
        shop.run()


TYPED = """\
from motet import pipeline

@pipeline.table(engine="merge", order_by=["name"])
def people(changes):
    return changes.stream("typed").select("row.*", "before")
"""
OTHERS = """
@pipeline.table(engine="merge", order_by=["key"])
def texts(changes):
    return changes.stream("plain").select("key", "row")
"""


@pytest.mark.parametrize("others", ["none", "typed", "mixed"])
def test_typed_rows_arrive_as_they_were_written(shop: Shop, others: str) -> None:
    from datetime import UTC, date, datetime
    from decimal import Decimal

    schema = pa.schema(
        [
            pa.field("name", pa.string(), nullable=False),
            ("n", pa.int64()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("price", pa.decimal128(9, 2)),
            ("raw", pa.binary()),
            ("tags", pa.list_(pa.string())),
        ]
    )
    row = {
        "name": "ä",
        "n": -(2**62),
        "day": date(1999, 12, 31),
        "at": datetime(2024, 2, 29, 1, 2, 3, 456789, tzinfo=UTC),
        "price": Decimal("-12.50"),
        "raw": b"\x00\xff",
        "tags": ["x", None],
    }
    shop.db.create_stream("typed", schema=schema)
    shop.db.create_stream("plain", schema=schema if others == "typed" else None)
    with shop.db.transaction() as txn:
        txn.change("typed", key="a", op="insert", row=row)
    shop.file.write_text(TYPED if others == "none" else TYPED + OTHERS)
    shop.run()
    (found,) = rows(shop.db, "people")
    assert found == row | {"before": None}
