"""Verification on Spark: a sweep with one report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from motet.errors import BadInput
from motet.verify.sweep import plan_grid, plan_histories, plan_mutants, plan_seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRONG = """{"checker": "queue"}
{"event":"invoke","op":0,"process":"c1","function":"dequeue","key":null,"value":null,"at":1}
{"event":"ok","op":0,"value":"x","at":2}
"""


def test_a_sweep_makes_one_report(spark: SparkSession, tmp_path: Path) -> None:
    from motet.pipeline.sweep import run_sweep

    (tmp_path / "wrong.ndjson").write_text(WRONG)
    jobs = [
        *plan_seeds("time=1-2"),
        *list(plan_mutants("zero-copy-exclusive"))[:1],
        *plan_grid("log-trimming replicas=2 records=1"),
        *plan_histories(str(tmp_path / "*.ndjson")),
    ]
    heard: list[tuple[int, int]] = []
    sweep = run_sweep(spark, jobs, progress=lambda *counts: heard.append(counts))
    assert [each.verdict for each in sweep.done] == ["ok", "ok", "caught", "ok", "violated"]
    assert sweep.done[-1].detail.startswith("phantom: ")
    assert not sweep.is_good
    assert heard[-1][1] == len(jobs)
    assert all(0 <= done <= len(jobs) for done, _ in heard)


@pytest.mark.long
def test_a_sweep_of_nothing_is_refused(spark: SparkSession) -> None:
    from motet.pipeline.sweep import run_sweep

    with pytest.raises(BadInput, match="a sweep of nothing"):
        run_sweep(spark, [])
