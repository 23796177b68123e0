"""Verification on Spark: a sweep with one report, and levels that give the counts of the readable engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from motet.errors import BadInput
from motet.verify.explore import explore
from motet.verify.models import model_named
from motet.verify.sweep import plan_grid, plan_histories, plan_mutants, plan_seeds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRONG = """{"checker": "queue"}
{"event":"invoke","op":0,"process":"c1","function":"dequeue","key":null,"value":null,"at":1}
{"event":"ok","op":0,"value":"x","at":2}
"""


def test_a_sweep_and_a_level_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    from motet.pipeline.levels import explore_levels
    from motet.pipeline.sweep import run_sweep

    (tmp_path / "wrong.ndjson").write_text(WRONG)
    jobs = [
        *plan_seeds("toy=1-2"),
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

    model = model_named("log-trimming", {}, variant="wake-lost")
    alone = explore(model, liveness=False)
    found = explore_levels(spark, model, hand_over=15)  # the last level is Spark's
    assert (found.verdict, found.property) == ("violated", alone.property)
    assert len(found.trace) == len(alone.trace)
    assert {cost.where for cost in found.levels} == {"here", "spark"}


@pytest.mark.long
@pytest.mark.timeout(900)
def test_counts_on_spark_are_those_of_the_readable_engine(spark: SparkSession) -> None:
    from motet.pipeline.levels import explore_levels

    for name, settings, hand_over in (
        ("quorum", {"records": 2, "reads": 2}, 1_000),
        ("log-trimming", {"replicas": 3, "records": 4}, 600),  # its widest level has 638
    ):
        model = model_named(name, settings)
        alone = explore(model, liveness=False)
        found = explore_levels(spark, model, hand_over=hand_over)
        for field in ("verdict", "distinct", "depth", "generated", "coverage"):
            assert getattr(found, field) == getattr(alone, field), field
        assert sum(cost.states for cost in found.levels) == alone.distinct
        assert [cost.where for cost in found.levels].count("spark") > 3


@pytest.mark.long
def test_what_spark_does_not_explore_is_refused(spark: SparkSession) -> None:
    from motet.pipeline.levels import explore_levels
    from motet.pipeline.sweep import run_sweep

    with pytest.raises(BadInput, match="one process"):
        explore_levels(spark, model_named("shard-log-core", {}))
    with pytest.raises(BadInput, match="liveness"):
        explore_levels(spark, model_named("log-trimming", {}), properties=["IsLogCleared"])
    with pytest.raises(BadInput, match="a sweep of nothing"):
        run_sweep(spark, [])
