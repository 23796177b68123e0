"""Pipelines that begin where their streams allow it, and pipelines that are removed; Spark is not needed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import motet
from motet.cli.app import app
from motet.client.sync import Database
from motet.core.clock.hlc import ZERO, Clock
from motet.errors import BadCheckpoint, BadInput, NodeError
from motet.errors.shards import CursorExpired, CursorInTheWay
from motet.pipeline import pipeline_status, remove_pipeline
from motet.pipeline.checkpoint import Checkpoint, default_folder
from motet.pipeline.progress import FeedCursor, no_common_begin
from motet.pipeline.status import REMOVED

STREAMS = ("orders", "stock")
NAME = "pipeline/shop"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def db(data: Path) -> Iterator[Database]:
    with motet.open(data) as opened:
        for stream in STREAMS:
            opened.create_stream(stream, shards=1)
        for number in range(3):
            sell(opened, number)
        yield opened


def sell(db: Database, number: int) -> Clock:
    with db.transaction() as txn:
        for stream in STREAMS:
            txn.change(stream, key=f"k-{number}", op="insert", row={"n": number})
    assert txn.clock is not None
    return txn.clock


def started(db: Database, data: Path) -> Path:
    """As a run leaves it: a cursor, a checkpoint and a note."""
    FeedCursor(db, NAME, STREAMS).hold(ZERO)
    db.note_writer("shop", "PIPELINE_FAILED it has stopped")
    folder = default_folder(data, db.database_id, "shop")
    notes = Checkpoint(folder, db.database_id, "shop")
    notes.remember((), ZERO)
    notes.close()
    (folder / "offsets").mkdir()
    return folder


def test_a_new_pipeline_does_not_skip_what_some_of_its_streams_have(db: Database) -> None:
    cursor = FeedCursor(db, NAME, STREAMS)
    cursor.check_begin()
    pruned = db.prune("stock", up_to=db.visible_clock(*STREAMS, wait=True))
    sell(db, 3)
    with pytest.raises(CursorExpired) as refused:
        cursor.check_begin()
    told = str(no_common_begin("shop", db.oldest(*STREAMS), refused.value))
    for said in (
        "CURSOR_EXPIRED pipeline shop has published nothing yet",
        "orders is kept from its beginning",
        f"stock is kept after {pruned}",
        f"--after oldest (in Python after='oldest') to begin after {pruned}",
    ):
        assert said in told
    assert db.cursors() == [], "nothing is held for one that has not begun"
    assert cursor.hold(ZERO) == pruned
    cursor.check_begin()  # where it begins is decided now
    FeedCursor(db, "pipeline/one", ("stock",)).check_begin()


def test_what_a_removed_pipeline_held_can_be_pruned(db: Database, data: Path) -> None:
    folder = started(db, data)
    visible = db.visible_clock(*STREAMS, wait=True)
    with pytest.raises(CursorInTheWay, match="pipeline shop"):
        db.prune(*STREAMS, up_to=visible)
    removed = remove_pipeline(db, "shop", checkpoint=folder)
    assert (removed.cursor, removed.streams, removed.clock) == (NAME, STREAMS, ZERO)
    assert (removed.checkpoint, removed.tables) == (folder, ())
    assert not folder.exists()
    assert db.cursors() == []
    assert db.prune(*STREAMS, up_to=visible) == visible
    (status,) = pipeline_status(db)
    assert status.error == REMOVED
    with pytest.raises(BadInput, match="there is no pipeline 'shop' to be removed"):
        remove_pipeline(db, "shop", checkpoint=folder)


def test_a_folder_that_is_no_checkpoint_of_it_is_left_alone(db: Database, data: Path) -> None:
    started(db, data)
    with pytest.raises(BadCheckpoint):
        remove_pipeline(db, "shop", checkpoint=data / "parts")
    assert [each.name for each in db.cursors()] == [NAME]
    assert (data / "parts" / ".store").exists()


def test_a_pipeline_that_runs_is_not_removed(db: Database, data: Path) -> None:
    folder = started(db, data)
    running = Checkpoint(folder, db.database_id, "shop")
    try:
        with pytest.raises(NodeError, match=r"pipeline shop is running: .*; stop it with"):
            remove_pipeline(db, "shop", checkpoint=folder)
        assert [each.name for each in db.cursors()] == [NAME]
        assert folder.exists()
    finally:
        running.close()
    assert remove_pipeline(db, "shop", checkpoint=folder).cursor == NAME


def test_the_command_says_what_is_released(db: Database, data: Path) -> None:
    folder = started(db, data)
    db.close()
    runner = CliRunner()
    asked = ["pipeline", "remove", "shop", "--data", str(data)]
    done = runner.invoke(app, [*asked, "--output", "json"])
    assert done.exit_code == 0, done.output
    assert f'"cursor":"{NAME}"' in done.stdout.replace(" ", "")
    assert str(folder) in done.stdout
    again = runner.invoke(app, asked)
    assert again.exit_code != 0
    assert not folder.exists()
    helped = runner.invoke(app, ["pipeline", "remove", "--help"])
    assert "Example: motet pipeline remove shop --data data/" in helped.stdout
