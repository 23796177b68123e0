"""The jobs of a sweep: planned from what people write, and done without Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from motet.errors import BadInput
from motet.verify.models import every_variant
from motet.verify.sweep import (
    Job,
    Sweep,
    html_sweep,
    plan_grid,
    plan_histories,
    plan_mutants,
    plan_seeds,
    run_job,
)
from motet.verify.sweep.plan import numbers


def test_numbers_are_ranges_and_lists() -> None:
    assert numbers("1-3,7") == [1, 2, 3, 7]
    assert numbers("5") == [5]


def test_a_grid_has_every_size() -> None:
    jobs = list(plan_grid("quorum records=1-2 reads=1,2"))
    assert [job.settings for job in jobs] == [
        {"records": records, "reads": reads} for records in "12" for reads in "12"
    ]
    assert jobs[0].command == "motet verify run quorum --set records=1 --set reads=1"


def test_mutants_of_all_are_all() -> None:
    assert len(list(plan_mutants("all"))) == len(list(every_variant()))
    assert {job.name for job in plan_mutants("zero-copy")} == {"zero-copy"}


@pytest.mark.parametrize(
    ("plan", "text", "complaint"),
    [
        (plan_seeds, "streems=1-2", "no part"),
        (plan_seeds, "time", "no seeds"),
        (plan_seeds, "time=2-1", "no range"),
        (plan_seeds, "time=x", "no list of numbers"),
        (plan_mutants, "quorom", "no model"),
        (plan_grid, "quorum records", "sets nothing"),
        (plan_grid, "quorum quorum=5", "cannot be had"),
        (plan_histories, "/nowhere/*.ndjson", "no history"),
    ],
)
def test_what_cannot_be_planned_is_refused(
    plan: Callable[[str], object], text: str, complaint: str
) -> None:
    with pytest.raises(BadInput, match=complaint):
        list(plan(text))  # type: ignore[call-overload]


def test_jobs_say_what_came_of_them(tmp_path: Path) -> None:
    broken = tmp_path / "broken.ndjson"
    broken.write_text('{"checker": "queue"}\n{')
    jobs = [
        Job("seed", "time", seed=3),
        Job("mutant", "zero-copy-exclusive", variant="two-move-at-once"),
        Job("model", "log-trimming", settings={"replicas": "2", "records": "1"}),
        Job("model", "log-trimming", variant="wake-lost"),
        Job("history", "", file=str(broken)),
        Job("history", "", file=str(tmp_path / "none")),
    ]
    done = tuple(run_job(job) for job in jobs)
    assert [each.verdict for each in done] == ["ok", "caught", "ok", "violated", "error", "error"]
    assert "line 2 of the history" in done[4].detail
    assert "FileNotFoundError" in done[5].detail
    sweep = Sweep(done, 1.0, "here")
    assert sweep.verdicts == {"ok": 2, "caught": 1, "violated": 1, "error": 2}
    assert not sweep.is_good
    page = html_sweep(sweep)
    assert page.index("wake-lost") < page.index("time --seed 3"), "what is wrong comes first"
    assert "motet verify run log-trimming --variant wake-lost" in page
