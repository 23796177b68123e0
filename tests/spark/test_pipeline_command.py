"""`motet pipeline`: killed at its worst moments, started again, and stopped; and what its commands print.

What may fail with more than its one line, or die, runs in a process of its own, with Spark as a user has it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.spark.pipeline_shop import PIPELINE, STREAMS, folded, open_shop, published, sell

import motet
from motet.cli import app as root
from motet.core.clock.hlc import ZERO
from motet.errors.shards import CursorInTheWay
from motet.pipeline.definition import load_pipeline

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.timeout(900)]

KILLS = """
import os, pathlib, signal
from motet.client import sync

def die_once(moment, call, at):
    mark = pathlib.Path(__file__).with_name(f"died {moment}")
    if call >= at and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)

calls = 0
steps = 0
publish = sync.Database.publish

def publish_or_die(self, parts, **options):
    global steps
    steps += 1
    die_once("before it published", steps, 2)
    done = publish(self, parts, **options)
    die_once("after it published", steps, 2)
    return done

sync.Database.publish = publish_or_die

@pipeline.table(engine="merge", order_by=["key"])
def last_one(changes):
    global calls
    calls += 1
    die_once("while it worked", calls, 3)
    return changes.stream("orders").select("key")
"""


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "motet", "pipeline", *words]


def run_here(*words: str) -> int:
    """The exit code of the command in this process, with the Spark that is running."""
    with pytest.raises(SystemExit) as exited:
        root.main(["pipeline", *words])
    return int(exited.value.code or 0)


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "MOTET_ENDPOINT"}


def until_caught_up(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """The lines of a pipeline that runs, up to the one that says there is nothing left to do."""
    assert process.stdout is not None
    lines: list[dict[str, Any]] = []
    for text in process.stdout:
        lines.append(json.loads(text))
        if not lines[-1]["changes_after"]:
            break
    return lines


def check_that_what_is_needed_is_kept(data: Path) -> None:
    """The cursor is not above what is published, and nothing above it can be pruned."""
    with motet.open(data) as db:
        (cursor,) = db.cursors()
        info = db.writer("shop")
        done = ZERO if info is None or info.step is None else info.step.through
        assert cursor.clock <= done
        with pytest.raises(CursorInTheWay, match="pipeline shop"):
            db.prune(*STREAMS, up_to=db.visible_clock(*STREAMS))


@pytest.mark.long
def test_killed_at_its_worst_moments_it_ends_with_the_right_tables(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "shop.py"
    file.write_text(PIPELINE + KILLS)
    with open_shop(data) as db:
        sell(db, 0, 8)
    words = ("run", str(file), "--data", str(data), "--max-changes", "4")
    for moment in ("while it worked", "before it published", "after it published"):
        died = subprocess.run(
            command(*words, "--once"), capture_output=True, env=environment(), check=False
        )
        assert died.returncode == -signal.SIGKILL, died.stderr
        assert (tmp_path / f"died {moment}").exists()
        check_that_what_is_needed_is_kept(data)
    running = subprocess.Popen(
        command(*words, "--continuous", "--output", "json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        lines = until_caught_up(running)
        running.send_signal(signal.SIGTERM)
        _, errors = running.communicate()
    finally:
        running.kill()
    assert (running.returncode, errors) == (0, "")
    assert lines
    with motet.open(data) as db:
        assert published(db) == folded(db)
        info = db.writer("shop")
        assert info is not None
        assert info.step is not None
        assert str(info.step.through) == lines[-1]["clock"]
        assert info.steps == info.step.epoch + 1
        from motet.pipeline.check import check_pipeline

        assert all(one.difference.is_none for one in check_pipeline(db, load_pipeline(file)))


def said_once(errors: str) -> list[str]:
    """What was said of each thing when it began; not what is said now and then while it goes on."""
    return [line for line in errors.splitlines() if " s so far" not in line]


def cursor_clock(db: motet.Database) -> str:
    (cursor,) = db.cursors()
    return str(cursor.clock)


SLOW = """\
import pathlib, time
from pyspark.sql import functions as f
from motet import pipeline

def wait(key):
    pathlib.Path({mark!r}).touch()
    time.sleep(600)

@pipeline.table(engine="merge", order_by=["key"])
def slow(changes):
    return changes.stream("orders").select("key", f.udf(wait, "string")("key").alias("x"))
"""


@pytest.mark.long
def test_a_batch_that_takes_long_is_given_up_by_an_interrupt(tmp_path: Path) -> None:
    data, file, mark = tmp_path / "data", tmp_path / "shop.py", tmp_path / "mark"
    file.write_text(SLOW.format(mark=str(mark)))
    with open_shop(data) as db:
        sell(db, 0, 2)
    as_it_was = signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        command("run", str(file), "--data", str(data)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        start_new_session=True,
    ) as running:
        signal.signal(signal.SIGINT, as_it_was)
        try:
            while not mark.exists():
                assert running.poll() is None, running.communicate()
                time.sleep(0.05)
            os.killpg(running.pid, signal.SIGINT)
            running.wait(60)
            output, errors = running.communicate()
        finally:
            running.kill()
    begun, started, reads, *_, end = said_once(errors)
    assert (running.returncode, output) == (0, "")
    assert begun == "starting Spark"
    assert started.startswith("Spark 4.")
    assert reads == "shop reads orders from the oldest change that is kept: 2 changes behind"
    assert end.startswith("shop: interrupted, 0 steps published; a batch that had begun is not")
    assert "Traceback" not in errors
    assert "Exception" not in errors
    with motet.open(data) as db:
        info = db.writer("shop")
        assert info is None or info.step is None


def test_an_error_is_one_line_and_a_difference_ends_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, file = tmp_path / "data", tmp_path / "shop.py"
    file.write_text(PIPELINE)
    with open_shop(data) as db:
        sell(db, 0, 3)
        where = ("--endpoint", db.endpoint)
        run = ("run", str(file), *where, "--once", "--checkpoint", str(tmp_path / "notes"))
        assert run_here(*run) == 0
        done = capsys.readouterr()
        batch, end = done.out.splitlines()
        assert batch.startswith("batch 0 published up to (")
        assert "1 step published" in end
        (reads,) = said_once(done.err)
        assert reads == (
            "shop reads orders, stock from the oldest change that is kept: 6 changes behind"
        )
        with db.transaction() as txn:
            txn.change("orders", key="o-x", op="insert", row={"sku": "s-1", "qty": "many"})
        failed = subprocess.run(command(*run), capture_output=True, text=True, check=False)
        assert (failed.returncode, failed.stdout) == (1, "")
        assert [line.split(":")[0] for line in said_once(failed.stderr)[2:]] == [
            f"shop reads orders, stock after {cursor_clock(db)}",
            "batch 1 has failed",
            "PIPELINE_FAILED shop has stopped",
        ]
        db.table("sales").insert([{"sku": "planted", "qty": 1, "transaction": "none"}])
        assert run_here("check", str(file), *where) == 1
    checked = capsys.readouterr()
    assert [line.split()[-1] for line in checked.out.splitlines()] == ["equal", "yes", "no", "yes"]
    said = said_once(checked.err)
    assert [line.split(" up to")[0] for line in said[:-1]] == [
        f"recomputing table {table}" for table in ("stock_now", "sales", "sales_by_batch")
    ]
    assert said[-1] == 'sales: extra {"sku":"planted","qty":1,"transaction":"none"}'
