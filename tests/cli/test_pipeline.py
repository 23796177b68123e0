"""`motet pipeline`: how pipelines fare, and what is told before anything is started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import motet
from motet.core.tables.records import WriterStep
from motet.ids import WriterName

PIPELINE = """\
from motet import pipeline
@pipeline.table(engine="merge", order_by=["key"])
def keys(changes): return changes.stream("orders").select("key")
"""


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name != "MOTET_ENDPOINT"}
    return subprocess.run(
        [sys.executable, "-m", "motet", "pipeline", *words],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_status_of_pipelines(tmp_path: Path) -> None:
    with motet.open(tmp_path / "data") as db:
        db.create_stream("orders")
        db.stream("orders").append(key="a", value=b"1")
        done = db.visible_clock(wait=True)
        db.publish([], step=WriterStep(WriterName("shop"), 0, None, done))
        db.stream("orders").append(key="a", value=b"2")
        db.note_writer("broken", "PIPELINE_FAILED it stopped; mend it")
        where = ("--endpoint", db.endpoint, "-o", "json")
        broken, shop = json.loads(run("status", *where).stdout)
        (alone,) = json.loads(run("status", "shop", *where).stdout)
        unknown = run("status", "nobody", *where)
        table = run("status", "shop", "--endpoint", db.endpoint).stdout.splitlines()
    assert alone == shop
    assert (shop["pipeline"], shop["clock"], shop["steps"]) == ("shop", str(done), 1)
    assert (shop["changes_behind"], shop["rows"], shop["error"]) == (1, 0, None)
    assert shop["lag_ms"] >= 0
    assert (broken["clock"], broken["published"]) == (None, None)
    assert (broken["changes_behind"], broken["error"][:15]) == (2, "PIPELINE_FAILED")
    assert (unknown.returncode, unknown.stderr[:10]) == (1, "BAD_INPUT ")
    assert table[0].split()[:3] == ["pipeline", "clock", "lag_ms"]


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
