"""The core of the shard log is followed in its model, step by step."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from motet.core.shardlog.steps import Installed, Look, restart_of, steps_between
from motet.ids import NodeId
from motet.sim.storm import simulate
from motet.sim.world import World
from motet.verify.models import model_named
from motet.verify.seed_range import run_seeds
from motet.verify.storms.shard_steps import ShardStepsRun, ShardStepsStorm
from motet.verify.trace import check_trace, read_trace

SETTINGS = {"founded": 0, "entries": 1_000, "epochs": 1_000, "most_restarts": 1_000}


class Kept(ShardStepsStorm):
    """Keeps its run."""

    def prepare(self, world: World, plant: str | None) -> ShardStepsRun:
        self.run = super().prepare(world, plant)
        return self.run


def test_every_step_of_the_core_is_a_step_of_the_model() -> None:
    part = Kept()
    outcome = simulate(part, 3)
    assert outcome.violations == []
    assert outcome.marks["followed"] > 1_000
    assert outcome.marks["restarted"] > 10
    lines = [msgspec.json.encode(line) for line in part.run.lines[:400]]
    model = model_named("shard-log-steps", SETTINGS)
    assert check_trace(model, read_trace(lines)[1]).verdict == "explained"
    syncs = [at for at, line in enumerate(part.run.lines[:400]) if line.action == "Sync"]
    lines.insert(syncs[9], lines[syncs[9]])
    result = check_trace(model, read_trace(lines)[1])
    assert (result.verdict, result.line) == ("unexplained", syncs[9] + 2)


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_a_hundred_seeds_are_followed() -> None:
    result = run_seeds("shard-log", 1, 100)
    assert result.failure is None, result.failure.replay_command()
    assert all(result.marks.get(mark) for mark in ShardStepsStorm.marks)


NUMBERS = {NodeId("n1"): 0, NodeId("n2"): 1}


def names(before: Look, after: Look, **options: Any) -> list[Any]:
    """The actions that lead from one look to the next."""
    return [line["action"] for line in steps_between(0, before, after, NUMBERS, **options)]


def test_a_look_at_a_replica_becomes_named_actions() -> None:
    others: dict[str, Any] = {"followers": (NodeId("n2"),), "elected": 1}
    fenced = Look(epoch=1, is_member=True, may_lead=True)
    assert names(Look(), fenced) == ["Join", "Fence"]
    leads = Look("leader", 1, 1, 0, 0, True, ((1, 1),), **others)
    assert names(fenced, leads) == ["BecomeLeader", "Write"]
    done = Look("leader", 1, 2, 1, 1, True, ((1, 2),), **others)
    assert names(leads, done) == ["Write", "Sync", "Commit"]
    follows = Look("follower", 1, 2, 0, 1, True, ((1, 2),))
    assert names(fenced, follows) == ["Append", "LearnCommit"]
    again = Look("fenced", 2, 1, 1, 1, True, ((1, 1),), may_lead=True)
    assert names(done, again) == ["Fence"]
    cut = Look("follower", 2, 0, 0, 0, True, ())
    assert names(again, cut) == ["Truncate"]
    assert names(done, Look("fenced", 1, 2, 1, 1, True, ((1, 2),))) == ["Abdicate"]
    lost = Look("fenced", 2, 0, 0, 0, False, (), may_lead=True)
    assert names(again, lost) == [None], "what has no name is looked at, and the model has it not"
    known = {"epoch": 2, "last": 1, "upto": 1}
    assert restart_of(1, again)["with"] == {"n": 1, "whole": True, **known}


def test_a_snapshot_is_installed_in_the_epoch_in_which_it_came() -> None:
    again = Look("fenced", 2, 1, 1, 1, True, ((1, 1),), may_lead=True)
    after = Look("fenced", 2, 4, 4, 4, True, None, may_lead=True)
    mended = Installed(2, 4, is_member=True, is_told=False, may_lead=True, meta_version=1)
    assert names(again, after, installed=mended) == ["Install"]
    told = Installed(3, 4, is_member=True, is_told=True, may_lead=False, meta_version=1)
    new = Look("fenced", 3, 4, 4, 4, True, None)
    assert names(again, new, installed=told) == ["Summon", "Become"]
    fenced = Look("fenced", 4, 4, 4, 4, True, None, may_lead=True)
    assert names(again, fenced, installed=told) == ["Summon", "Become", "Fence"]


def test_a_leader_that_changes_its_ensemble_leads_on() -> None:
    before = Look("leader", 2, 3, 3, 3, True, None, elected=2, factor=3)
    changing = Look("leader", 3, 4, 3, 3, True, None, elected=2, factor=3, is_changing=True)
    assert names(before, changing) == ["PrepareChange", "Write"]
    changed = Look("leader", 3, 4, 4, 4, True, None, elected=2, factor=4, changed=3)
    assert names(changing, changed) == ["Sync", "CommitChange", "Commit"]
    assert names(changing, Look("leader", 3, 4, 3, 3, True, None, elected=2)) == ["AbortChange"]
    assert names(before, Look("leader", 3, 4, 3, 3, True, None, elected=2)) == [
        *("AbortChange", "Write")
    ]
