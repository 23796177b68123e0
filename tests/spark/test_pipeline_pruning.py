"""What a pipeline has not published is not pruned, over kills, and one that was cut off says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.pipeline_shop import STREAMS, folded, published, sell
from tests.spark.test_pipeline_run import Shop, restore_uncommitted

from motet.client.cursors import NamedCursor
from motet.core.clock.hlc import Clock
from motet.errors import PipelineFailed
from motet.errors.shards import CursorExpired, CursorInTheWay
from motet.pipeline.batch import BatchReport
from motet.pipeline.status import pipeline_status, remove_pipeline

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    made.db.close()


def cursor(shop: Shop) -> NamedCursor:
    (found,) = shop.db.cursors()
    return found


def done(shop: Shop) -> Clock:
    info = shop.db.writer("shop")
    assert info is not None
    assert info.step is not None
    return info.step.through


def test_the_cursor_of_a_pipeline_follows_what_is_published(shop: Shop) -> None:
    sell(shop.db, 0, 6)
    seen: list[tuple[Clock, Clock]] = []
    shop.run(changes_max=4, report=lambda batch: seen.append((batch.clock, cursor(shop).clock)))
    assert len(seen) > 2
    assert all(batch == saved for batch, saved in seen)
    assert (cursor(shop).name, cursor(shop).streams) == ("pipeline/shop", STREAMS)
    sell(shop.db, 6, 9)
    whole = folded(shop.db)
    with pytest.raises(CursorInTheWay, match="pipeline shop has read up to"):
        shop.db.prune(*STREAMS, up_to=shop.db.visible_clock(*STREAMS))
    # A driver that was killed before Spark noted its last batch: Spark plans that one again.
    restore_uncommitted(shop, shop.checkpoint)
    assert shop.db.prune(*STREAMS, up_to=done(shop)) == done(shop)
    shop.run(changes_max=4)
    assert published(shop.db) == whole


def test_a_driver_that_dies_before_it_saves_its_cursor_leaves_it_below(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    sell(shop.db, 0, 4)
    whole = folded(shop.db)

    def die(*_: object) -> None:
        raise RuntimeError("killed here")

    with monkeypatch.context() as patch:
        patch.setattr("motet.pipeline.progress.FeedCursor.advance", die)
        with pytest.raises(PipelineFailed, match="killed here"):
            shop.run(changes_max=4)
    assert cursor(shop).clock < done(shop)
    with pytest.raises(CursorInTheWay, match="pipeline shop"):
        shop.db.prune(*STREAMS, up_to=done(shop))
    shop.run(changes_max=4)
    assert cursor(shop).clock == done(shop)
    assert published(shop.db) == whole


def test_a_pipeline_whose_changes_were_pruned_by_force_says_so(shop: Shop) -> None:
    sell(shop.db, 0, 2)
    shop.run()
    sell(shop.db, 2, 4)
    shop.db.prune(*STREAMS, up_to=shop.db.visible_clock(*STREAMS), force=True)
    with pytest.raises(CursorExpired, match=r"pipeline shop .*; rebuild it: .*--name"):
        shop.run()
    (status,) = pipeline_status(shop.db)
    assert status.error.startswith("CURSOR_EXPIRED pipeline shop has published up to")
    info = shop.db.writer("shop")
    assert info is not None
    assert info.error.startswith("CURSOR_EXPIRED pipeline shop has published up to")
    shop.file = shop.file.rename(shop.folder / "anew.py")
    text = shop.file.read_text()
    for name in ("stock_now", "sales_by_batch"):
        text = text.replace(f"def {name}(", f"def new_{name}(")
    shop.file.write_text(text.replace("def sales(", "def new_sales("))
    sell(shop.db, 4, 5)
    shop.db.prune(STREAMS[0], up_to=shop.db.visible_clock(*STREAMS), force=True)
    sell(shop.db, 5, 6)
    with pytest.raises(CursorExpired, match=r"anew has published nothing yet, .* is kept after"):
        shop.run(checkpoint=shop.folder / "anew")
    assert not [info for info in shop.db.tables() if info.name.startswith("new_")]
    assert shop.run(checkpoint=shop.folder / "anew", after="oldest").steps == 1, (
        "as the hint says, also where not all are kept from the same clock on"
    )


def test_a_pipeline_that_is_removed_while_it_runs_ends(shop: Shop) -> None:
    sell(shop.db, 0, 6)

    def remove(_: BatchReport) -> None:
        remove_pipeline(shop.db, "shop", checkpoint=shop.folder / "elsewhere")

    with pytest.raises(PipelineFailed, match="shop was removed while it ran"):
        shop.run(changes_max=4, report=remove)
    assert shop.db.cursors() == []
    assert shop.run().steps > 0, "a run under this name goes on"
    assert published(shop.db) == folded(shop.db)
    assert cursor(shop).clock == done(shop)
