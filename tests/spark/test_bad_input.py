"""Pipelines that go wrong in the middle, or run side by side: what is visible is whole, nothing is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.pipeline_shop import PIPELINE, folded, open_shop, published, rows, sell

import motet
from motet.errors import BadPipeline, PipelineFailed
from motet.pipeline.definition import load_pipeline

if TYPE_CHECKING:
    from motet.pipeline.run import RunReport

pytestmark = pytest.mark.usefixtures("spark")

#: a fourth table, whose rows cannot be made once there is an order of that name
FRAGILE = """
@f.udf("string")
def checked(key):
    if key == "o-9":
        raise ValueError("o-9 is not for sale")
    return key

@pipeline.table(engine="merge", order_by=["name"])
def checked_orders(changes):
    return changes.stream("orders").select(checked(f.col("key").cast("string")).alias("name"))
"""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[motet.Database]:
    with open_shop(tmp_path / "data") as opened:
        yield opened


def run(db: motet.Database, file: Path, **options: Any) -> RunReport:
    from motet.pipeline.run import run_pipeline

    notes = file.with_suffix(".notes")
    return run_pipeline(db, load_pipeline(file), once=True, checkpoint=notes, **options)


def test_one_table_that_fails_holds_all_of_them_at_the_last_whole_step(
    db: motet.Database, tmp_path: Path
) -> None:
    file = tmp_path / "shop.py"
    file.write_text(PIPELINE + FRAGILE)
    sell(db, 0, 9)
    run(db, file, changes_max=6)
    before = published(db)
    assert before == folded(db)
    sell(db, 9, 12)
    with pytest.raises(PipelineFailed, match="o-9 is not for sale"):
        run(db, file, changes_max=6)
    assert published(db) == before
    assert len(rows(db, "checked_orders")) == 9
    info = db.writer("shop")
    assert info is not None
    assert "o-9 is not for sale" in info.error
    file.write_text((PIPELINE + FRAGILE).replace('"o-9"', '"no such order"'))
    run(db, file, changes_max=6)
    assert published(db) == folded(db)
    assert sorted(row["name"] for row in rows(db, "checked_orders")) == sorted(
        f"o-{i}" for i in range(12)
    )


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (
            '@pipeline.table(engine="merge", order_by=["keys"])',
            "table wrong: rows cannot be sorted by the column 'keys'",
        ),
        (
            '@pipeline.table(engine="replacing", order_by=["key"], version="keys")',
            "table wrong: rows cannot be sorted by the column 'keys'",
        ),
        (
            '@pipeline.table(engine="replacing", order_by=["key"], tombstone="op")',
            "table wrong: the tombstone column 'op' has to be a boolean",
        ),
    ],
)
def test_a_table_that_could_never_be_filled_is_refused_before_another_is_made(
    db: motet.Database, tmp_path: Path, table: str, text: str
) -> None:
    function = (
        "def wrong(changes): return changes.all().selectExpr('key', 'array(key) as keys', 'op')"
    )
    file = tmp_path / "shop.py"
    file.write_text(f"{PIPELINE}\n{table}\n{function}\n")
    sell(db, 0, 3)
    with pytest.raises(BadPipeline) as caught:
        run(db, file)
    assert text in caught.value.what
    assert db.tables() == []
    assert db.writers() == []


def test_two_pipelines_at_once_on_one_database_do_not_see_each_other(
    db: motet.Database, tmp_path: Path
) -> None:
    shop, keys = tmp_path / "shop.py", tmp_path / "keys.py"
    shop.write_text(PIPELINE)
    keys.write_text(
        "from motet import pipeline\n"
        "@pipeline.table(engine='merge', order_by=['name'])\n"
        "def names(changes):\n"
        "    return changes.stream('orders').selectExpr('cast(key as string) as name')\n"
    )
    sell(db, 0, 9)
    failures: list[BaseException] = []

    def attempt(file: Path) -> None:
        try:
            run(db, file, changes_max=6, stop=threading.Event())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=attempt, args=(file,)) for file in (shop, keys)]
    for thread in threads:
        thread.start()
    sell(db, 9, 12)
    for thread in threads:
        thread.join()
    assert failures == []
    for file in (shop, keys):
        run(db, file)
    assert published(db) == folded(db)
    assert sorted(row["name"] for row in rows(db, "names")) == sorted(f"o-{i}" for i in range(12))
