"""The core of consensus is followed in its model, step by step."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from motet.core.vsr.look import Observed
from motet.sim.storm import simulate
from motet.sim.world import World
from motet.verify.models import model_named
from motet.verify.seed_range import run_seeds
from motet.verify.storms.vsr import REPLICAS, VIEWS, ViewChangeRun, ViewChangeStorm
from motet.verify.trace import check_trace, read_trace
from motet.verify.trace.view_changes import lines_between


class Kept(ViewChangeStorm):
    """Keeps its run."""

    def prepare(self, world: World, plant: str | None) -> ViewChangeRun:
        self.run = super().prepare(world, plant)
        return self.run


@pytest.mark.parametrize("seed", [1, 41])
def test_every_step_of_the_core_is_a_step_of_the_model(seed: int) -> None:
    outcome = simulate(ViewChangeStorm(), seed)
    assert outcome.violations == []
    assert outcome.marks["followed"] > 300
    assert outcome.marks["vsr_view_started"] > 1


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_two_hundred_seeds_are_followed() -> None:
    result = run_seeds("view-change", 1, 200)
    assert result.failure is None, result.failure.replay_command()
    assert all(result.marks.get(mark) for mark in ViewChangeStorm.marks)


def test_the_lines_of_a_run_are_a_trace_and_a_change_in_them_is_found() -> None:
    part = Kept()
    assert simulate(part, 1).verdict == "ok"
    lines = [msgspec.json.encode(line) for line in part.run.lines[:120]]
    model = model_named("vsr-view-change", {"replicas": REPLICAS, "ops": 120, "views": VIEWS})
    assert check_trace(model, read_trace(lines)[1]).verdict == "explained"
    commits = [at for at, line in enumerate(part.run.lines[:120]) if line.action == "CommitOp"]
    lines.insert(commits[2], lines[commits[2]])
    result = check_trace(model, read_trace(lines)[1])
    assert result.verdict == "unexplained"
    assert result.line is not None
    assert result.line > commits[2]


def test_a_look_at_a_replica_becomes_named_actions() -> None:
    def names(r: int, before: Observed, after: Observed) -> list[Any]:
        return [line["action"] for line in lines_between(r, 3, before, after, {0: (0, 0)})]

    nothing = Observed()
    assert names(0, nothing, nothing) == []
    one = Observed(slots=((0, "dirty"),))
    assert names(0, nothing, one) == ["Request"]
    assert names(1, nothing, one) == ["HandlePrepare"]
    done = Observed(slots=((0, "written"),), commit=1)
    assert names(0, one, done) == ["WritePrepare", "CommitOp"]
    assert names(1, one, done) == ["WritePrepare", "LearnCommit"]
    left = Observed(view=1, status="view_change", slots=done.slots, commit=1)
    assert names(2, done, left) == ["StartViewChange"]
    leads = Observed(view=1, log_view=1, slots=done.slots, commit=1, began=1)
    assert names(1, left, leads) == ["BecomePrimary", "StartView"]
    assert names(2, left, leads) == ["HandleStartView"]
