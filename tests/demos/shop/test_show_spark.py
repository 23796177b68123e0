"""The shop demo as a newcomer sees it: a cluster, three kills, and tables equal to two recomputations."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.demos.shop.runs import Run

pytestmark = pytest.mark.xdist_group("spark")  # one Spark at a time is enough for a machine


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path)
    yield run
    run.end()


@pytest.mark.timeout(900)
def test_the_whole_story(run: Run) -> None:
    assert run.process.wait(850) == 0, run.output()
    report = run.report()
    assert report["ok"] is True
    assert report["tables_equal"] is True
    assert (report["replicas_equal"], report["table_replicas"]) == (True, 3)
    assert (report["lost"], report["doubled"], report["negative_stock"]) == (0, 0, 0)
    assert report["kills"] == 3
    assert report["spark_batches"] >= 4  # two in each life of the driver
    assert "kill -9 the Spark driver" in run.output()
    assert "kill -9 a shard leader with tables" in run.output()
    assert list(run.folder.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_signal_ends_spark_and_its_java_too(run: Run) -> None:
    run.until_started("org.apache.spark.deploy.SparkSubmit")
    run.process.send_signal(signal.SIGTERM)
    assert run.code() == 128 + signal.SIGTERM
    run.until_gone()
    assert list(run.folder.iterdir()) == []
