"""^C ends a command in a line, soon, whatever it is doing: real processes and a real SIGINT."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

import motet
from motet.cli.interrupt import patience_seconds
from motet.core.clock.writer_step import WriterStep
from motet.ids import WriterName
from motet.testing.port_block import PortBlock

ENDLESS = "select count(*) from range(1000000000000) a, range(1000) b"
AGES = ("--seeds", "1-10000000")


def interrupted(*words: str, said: str = "", imported: str = "") -> tuple[int, str, str]:
    """Exit code, output and errors of a command whose group got ^C when it had said or imported something."""
    # Whoever starts the suite in the background of a shell has it ignore ^C, and children inherit that.
    as_it_was = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "motet", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    signal.signal(signal.SIGINT, as_it_was)
    try:
        before = wait_for(process.stdout, said) if said else wait_for(process.stderr, imported)
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=120)
    finally:
        process.kill()
    lines = [line for line in errors.splitlines() if line and not line.startswith("import time:")]
    return process.returncode, (before if said else "") + output, "\n".join(lines)


def wait_for(stream: IO[str] | None, word: str) -> str:
    assert stream is not None
    said = ""
    for line in stream:
        said += line
        if word in line:
            return said
    raise AssertionError(f"it ended before it said {word!r}: {said[-2000:]}")


@pytest.fixture
def data(tmp_path: Path) -> str:
    with motet.open(tmp_path / "data") as db:
        db.create_stream("orders")
        db.stream("orders").append(key="a", value=b"1")
    return str(tmp_path / "data")


def test_there_is_time_for_a_good_end_and_for_the_rest_within_two_seconds() -> None:
    assert 0.5 < patience_seconds < 1.5


def test_a_feed_that_is_followed(data: str) -> None:
    code, output, errors = interrupted("feed", "tail", "orders", "--data", data, said='"key":"a"')
    assert (code, output.count("\n"), errors) == (130, 1, "interrupted")


@pytest.mark.parametrize(
    ("words", "imported"),
    [
        (("sql", ENDLESS), "duckdb"),
        (("simulate", "transactions", *AGES, "--jobs", "2"), "motet.verify.seed_range"),
        (("simulate", "transactions", *AGES, "--jobs", "1"), "motet.verify.seed_range"),
        (("demo", "storm"), "motet.verify.seed_range"),
        (("verify", "run", "log-trimming", "--set", "records=40"), "motet.cli.verify"),
    ],
    ids=["sql", "simulate", "simulate alone", "demo", "verify"],
)
def test_work_that_goes_on_for_long(data: str, words: tuple[str, ...], imported: str) -> None:
    where = ("--data", data) if words[0] == "sql" else ()
    code, _, errors = interrupted(*words, *where, imported=imported)
    assert (code, errors) == (130, "interrupted")


PIPELINE = """\
from motet import pipeline
@pipeline.table(engine="merge", order_by=["key"])
def keys(changes): return changes.stream("orders").select("key")
"""


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_pipeline_while_spark_starts(data: str, tmp_path: Path, command: str) -> None:
    file = tmp_path / "shop.py"
    file.write_text(PIPELINE)
    with motet.open(Path(data)) as db:
        db.publish([], step=WriterStep(WriterName("shop"), 0, None, db.visible_clock(wait=True)))
    words = ("pipeline", command, str(file), "--data", data)
    code, output, errors = interrupted(*words, imported="starting Spark")
    assert (code, output, errors) == (130, "", "interrupted")


def test_the_end_of_what_runs_until_then_is_no_error(tmp_path: Path) -> None:
    block = PortBlock.claim()
    port = block.base
    block.release()
    words = ("dev", "--nodes", "1", "--data", str(tmp_path / "dev"), "--port", str(port))
    code, output, errors = interrupted(*words, said="end it with ^C")
    assert (code, errors) == (0, "all nodes have ended")
    assert "n0 is ready" in output
