"""A streaming query with a cursor: what it has not committed is not pruned."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.test_stream import Batches, run
from tests.spark.two_streams import places_of, write

import motet
from motet.core.clock.hlc import ZERO, Clock
from motet.errors.shards import CursorInTheWay

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_what_a_query_has_not_committed_is_not_pruned(spark: SparkSession, tmp_path: Path) -> None:
    with motet.open(tmp_path / "data") as db:
        for name in ("orders", "stock"):
            db.create_stream(name, shards=2)
        follow_and_prune(spark, db, tmp_path / "checkpoint")


def follow_and_prune(spark: SparkSession, db: motet.Database, checkpoint: Path) -> None:
    def cursor() -> Clock:
        (found,) = db.cursors()
        assert (found.name, found.streams) == ("billing", ("orders", "stock"))
        return found.clock

    batches = Batches()
    write(db, 0, 9)
    whole = places_of(db)
    held: list[bool] = []
    take = batches.take

    def look(frame: DataFrame, batch: int) -> None:
        take(frame, batch)
        done = [rows[-1]["clock"] for number, rows in batches.rows.items() if number < batch]
        held.append(cursor() <= (Clock(*done[-1]) if done else ZERO))

    batches.take = look  # type: ignore[method-assign]
    run(spark, db, batches, checkpoint, maxChangesPerBatch="7", cursor="billing")
    assert len(held) > 2
    assert all(held), "never above what the batches before have read"
    assert ZERO < cursor() < whole[-1][0]
    with pytest.raises(CursorInTheWay, match="named cursor 'billing' has read up to"):
        db.prune("orders", "stock", up_to=whole[-1][0])
    assert db.prune("orders", "stock", up_to=cursor()) == cursor()
    write(db, 9, 12)
    more = places_of(db)
    run(spark, db, batches, checkpoint, cursor="billing")
    assert batches.places() == sorted({*whole, *more})
    db.drop_cursor("billing")
    run(spark, db, batches, checkpoint, cursor="billing")
    assert cursor() == more[-1][0], "it was dropped, and is held again from where the query is"
