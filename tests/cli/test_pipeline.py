"""`motet pipeline`: how pipelines fare, and what is told before anything is started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import motet
from motet.core.clock.hlc import ZERO, Clock
from motet.core.clock.writer_step import WriterStep
from motet.errors.shards import CursorInTheWay
from motet.ids import WriterName
from motet.pipeline.progress import FeedCursor, cursor_name

PIPELINE = """\
from motet import pipeline
@pipeline.table(engine="merge", order_by=["key"])
def keys(changes): return changes.stream("orders").select("key")
"""


def run(
    *words: str, group: str = "pipeline", **environment: str
) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "MOTET_ENDPOINT"}
    return subprocess.run(
        [sys.executable, "-m", "motet", group, *words],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def hold(db: motet.Database, pipeline: str, *streams: str, done: Clock = ZERO) -> None:
    """What a run of a pipeline saves before it reads, and after it has published."""
    FeedCursor(db, cursor_name(db, pipeline, None), streams).hold(done)


def test_the_status_of_pipelines(tmp_path: Path) -> None:
    with motet.open(tmp_path / "data") as db:
        db.create_stream("orders")
        db.create_stream("other")
        db.stream("orders").append(key="a", value=b"1")
        done = db.visible_clock(wait=True)
        db.publish([], step=WriterStep(WriterName("shop"), 0, None, done))
        hold(db, "shop", "orders", done=done)
        db.stream("orders").append(key="a", value=b"2")
        db.stream("other").append(key="a", value=b"not of these pipelines")
        db.note_writer("broken", "PIPELINE_FAILED it stopped; mend it")
        hold(db, "broken", "orders")
        where = ("--endpoint", db.endpoint, "-o", "json")
        broken, shop = json.loads(run("status", *where).stdout)
        (alone,) = json.loads(run("status", "shop", *where).stdout)
        unknown = run("status", "nobody", *where)
        head, *rows = run("status", "--endpoint", db.endpoint).stdout.splitlines()
    assert alone == shop
    assert (shop["pipeline"], shop["clock"], shop["steps"]) == ("shop", str(done), 1)
    assert (shop["changes_after"], shop["rows"], shop["error"]) == (1, 0, None)
    assert shop["lag_ms"] >= 0
    assert (broken["clock"], broken["published"], broken["lag_ms"]) == (None, None, None)
    assert (broken["changes_after"], broken["error"][:15]) == (2, "PIPELINE_FAILED")
    assert (unknown.returncode, unknown.stderr[:10]) == (1, "BAD_INPUT ")
    assert head.split()[:3] == ["pipeline", "clock", "lag_ms"]
    assert rows[0].split()[:8] == [
        "broken",
        "-",
        "never",
        "2",
        "0",
        "0",
        "never",
        "PIPELINE_FAILED",
    ]


def test_changes_that_a_pipeline_needs_are_not_pruned(tmp_path: Path) -> None:
    """Whoever is in the way is named, and one that was pruned by force is in its own row alone."""
    with motet.open(tmp_path / "data") as db:
        db.create_stream("orders")
        clocks = []
        for name in ("late", "shop"):
            db.stream("orders").append(key="a", value=b"1")
            clocks.append(db.visible_clock(wait=True))
            db.publish([], step=WriterStep(WriterName(name), 0, None, clocks[-1]))
            hold(db, name, "orders", done=clocks[-1])
        db.stream("orders").append(key="a", value=b"1")
        db.publish([], step=WriterStep(WriterName("unknown"), 0, None, clocks[0]))
        where = ("--endpoint", db.endpoint)
        up_to = ("orders", "--up-to", str(clocks[1]))
        refused = run("prune", *up_to, *where, group="feed")
        (before, *_) = json.loads(run("status", *where, "-o", "json").stdout)
        assert run("prune", *up_to, "--force", *where, group="feed").returncode == 0
        found = json.loads(run("status", *where, "-o", "json").stdout)
    assert refused.stderr == (
        f"CURSOR_IN_THE_WAY pipeline late has read up to {clocks[0]}, below {clocks[1]}; "
        f"run the pipeline until it has caught up, prune up to {clocks[0]}, or prune with --force "
        "(force=True): it must be rebuilt then\n"
    )
    assert (before["pipeline"], before["changes_after"], before["error"]) == ("late", 2, None)
    late, shop, unknown = found
    assert late["error"] == (
        f"CURSOR_EXPIRED pipeline late has published up to {clocks[0]}, and changes after that are "
        f"pruned: the feed is pruned up to {clocks[1]}; rebuild it: run it with another --name, "
        "other names for its tables and --after oldest; it then begins at the oldest change that is kept"
    )
    assert (late["lag_ms"], late["changes_after"]) == (None, None)
    assert (shop["changes_after"], shop["error"]) == (1, None)
    assert (unknown["changes_after"], unknown["error"]) == (None, None), "it has no cursor"


def test_all_readers_in_the_way_are_named(tmp_path: Path) -> None:
    with motet.open(tmp_path / "data") as db:
        db.create_stream("orders")
        db.create_stream("other")
        for name in ("a", "b", "c", "d"):
            hold(db, name, "orders")
        hold(db, "e", "other")
        db.save_cursor("mine", db.changes("orders").cursor)
        db.stream("orders").append(key="a", value=b"1")
        clock = db.visible_clock(wait=True)
        with pytest.raises(CursorInTheWay) as raised:
            db.prune("orders", up_to=clock)
    text = str(raised.value)
    assert "named cursor 'mine' has read up to" in text
    assert "pipeline a has read up to (0,0)" in text
    assert "2 more" in text
    assert "drop it with `motet feed keep NAME`" in text
    assert "pipeline e" not in text


def test_a_cursor_follows_the_streams_of_its_pipeline(tmp_path: Path) -> None:
    with motet.open(tmp_path / "data") as db, motet.open(tmp_path / "tables") as tables:
        for name in ("orders", "other", "third"):
            db.create_stream(name)
        hold(db, "shop", "orders", "other")
        hold(db, "shop", "third", "orders")
        FeedCursor(db, cursor_name(tables, "shop", db), ("orders",)).hold(ZERO)
        mine, theirs = db.cursors()
    assert (mine.name, mine.streams) == ("pipeline/shop", ("orders", "third"))
    assert (theirs.streams, theirs.reader) == (("orders",), "pipeline shop")
    assert theirs.name != mine.name, "the tables of one feed may be in several databases"


def test_a_database_without_pipelines_has_no_status(tmp_path: Path) -> None:
    with motet.open(tmp_path / "data"):
        pass
    done = run("status", "--data", str(tmp_path / "data"))
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("command", ["run", "check"])
def test_what_is_wrong_is_told_in_one_line_before_anything_is_started(
    tmp_path: Path, command: str
) -> None:
    file = tmp_path / "shop.py"
    data = ("--data", str(tmp_path / "data"))

    def error() -> str:
        done = run(command, str(file), *data, PATH="", JAVA_HOME="")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        return done.stderr

    assert error().startswith("BAD_PIPELINE cannot read")
    file.write_text("def broken(:\n")
    assert "shop.py, line 1: " in error()
    file.write_text(PIPELINE)
    assert "there is no database in" in error()
    assert not (tmp_path / "data").exists()


def test_the_checkpoint_of_another_database_is_refused_before_spark_starts(tmp_path: Path) -> None:
    file = tmp_path / "shop.py"
    file.write_text(PIPELINE)
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "motet.json").write_text('{"database":"0","pipeline":"shop","streams":[]}')
    with motet.open(tmp_path / "data") as db:
        db.create_stream("orders")
    # Without Java, so that a start of Spark would be another error.
    words = ("run", str(file), "--data", str(tmp_path / "data"), "--checkpoint", str(notes))
    done = run(*words, PATH="", JAVA_HOME="/nowhere")
    assert done.stderr.startswith("BAD_CHECKPOINT ")
    assert done.returncode == 1
