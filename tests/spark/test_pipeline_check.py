"""Checking tables: recomputed by batch jobs they are equal, and a planted difference is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.pipeline_shop import PIPELINE, open_shop, sell

import motet
from motet.core.clock.writer_step import WriterStep
from motet.errors import BadPipeline, NoSuchTable
from motet.ids import WriterName
from motet.pipeline.definition import Pipeline, load_pipeline

if TYPE_CHECKING:
    from motet.pipeline.check import TableCheck

pytestmark = pytest.mark.usefixtures("spark")

ALL_TOGETHER = """
@pipeline.table(engine="merge", order_by=["n"])
def counted(changes):
    return changes.stream("orders").agg(f.count("*").alias("n"))
"""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[motet.Database]:
    with open_shop(tmp_path / "data") as opened:
        yield opened


@pytest.fixture
def shop(tmp_path: Path) -> Pipeline:
    file = tmp_path / "shop.py"
    file.write_text(PIPELINE + ALL_TOGETHER)
    return load_pipeline(file)


def run(db: motet.Database, shop: Pipeline, checkpoint: Path) -> None:
    from motet.pipeline.run import run_pipeline

    run_pipeline(db, shop, once=True, checkpoint=checkpoint, changes_max=10)


def check(db: motet.Database, shop: Pipeline) -> dict[str, TableCheck]:
    from motet.pipeline.check import check_pipeline

    return {one.table: one for one in check_pipeline(db, shop)}


@pytest.mark.long
def test_tables_are_equal_and_those_that_see_slices_are_made_of_the_same_ones(
    db: motet.Database, shop: Pipeline, tmp_path: Path
) -> None:
    sell(db, 0, 10)
    run(db, shop, tmp_path / "checkpoint")
    for _ in range(3):
        db.stream("other").append(key="x", value=b"a slice without changes of ours")
    run(db, shop, tmp_path / "checkpoint")
    sell(db, 10, 14)
    run(db, shop, tmp_path / "checkpoint")
    sell(db, 14, 16)  # not worked on yet, and so not looked at
    checks = check(db, shop)
    assert {name: one.difference.examples for name, one in checks.items()} == dict.fromkeys(
        ("stock_now", "sales", "sales_by_batch", "counted"), ()
    )
    info = db.writer("shop")
    assert info is not None
    assert info.step is not None
    assert {one.clock for one in checks.values()} == {info.step.through}
    assert (checks["sales"].rows, checks["sales"].slices) == (14, 1)
    assert checks["counted"].slices == checks["sales_by_batch"].slices > 2
    assert checks["counted"].rows == checks["counted"].slices


def test_planted_rows_and_rows_that_were_left_out_are_found(
    db: motet.Database, shop: Pipeline, tmp_path: Path
) -> None:
    sell(db, 0, 6)
    run(db, shop, tmp_path / "checkpoint")
    db.table("sales").insert([{"sku": "planted", "qty": 1, "transaction": "none"}])
    clock = {"logical": 1 << 41, "counter": 0}
    db.table("stock_now").insert([{"sku": "s-0", "left": -1, "clock": clock, "gone": False}])
    # And a step that claims to have worked on more than it has.
    sell(db, 6, 8)
    info = db.writer("shop")
    assert info is not None
    last = info.step
    assert last is not None
    through = db.visible_clock(wait=True)
    db.publish([], step=WriterStep(last.writer, last.epoch + 1, last.through, through))
    found = {name: one.difference for name, one in check(db, shop).items()}
    counts = {name: (one.missing, one.extra) for name, one in found.items()}
    assert counts == {
        "stock_now": (2, 1),  # s-6 is new, s-0 is another one
        "sales": (2, 1),
        "sales_by_batch": (2, 0),
        "counted": (1, 0),
    }
    extra = [text for kind, text in found["sales"].examples if kind == "extra"]
    assert len(extra) == 1
    assert '"sku":"planted"' in extra[0]


def test_what_has_never_been_published_cannot_be_checked(
    db: motet.Database, shop: Pipeline, tmp_path: Path
) -> None:
    with pytest.raises(BadPipeline, match="not published anything yet"):
        check(db, shop)
    db.publish([], step=WriterStep(WriterName("shop"), 0, None, db.visible_clock(wait=True)))
    with pytest.raises(NoSuchTable, match="stock_now"):
        check(db, shop)


def test_what_is_published_meanwhile_is_not_looked_at(
    db: motet.Database, shop: Pipeline, tmp_path: Path
) -> None:
    """The moment is the version of the last step that was known when the check began."""
    from motet.pipeline import check as checking

    sell(db, 0, 4)
    run(db, shop, tmp_path / "checkpoint")

    def meanwhile(line: str) -> None:
        if "recomputing" in line and len(db.writer_steps("shop")) == 1:
            sell(db, 4, 8)
            run(db, shop, tmp_path / "checkpoint")

    checks = checking.check_pipeline(db, shop, say=meanwhile)
    assert all(one.difference.is_none for one in checks)
    assert {one.table: one.rows for one in checks}["sales"] == 4
    assert db.table("sales").select().num_rows == 8


def test_a_table_whose_first_steps_are_forgotten_is_refused(
    db: motet.Database, shop: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sell(db, 0, 10)
    run(db, shop, tmp_path / "checkpoint")
    steps = db.writer_steps("shop")
    assert len(steps) > 1
    monkeypatch.setattr(db, "writer_steps", lambda _: steps[1:])
    with pytest.raises(BadPipeline, match=r"forgotten: table sales_by_batch depends on where"):
        check(db, shop)
