"""A cluster's streams in the storm: seeds that are always run, fresh ones, many, and bugs that are found."""

from __future__ import annotations

import os
import time

import pytest

from motet.sim.simulate import simulate
from motet.verify.parts.streams import StreamsPart, steps_min
from motet.verify.seed_range import run_seeds

SEEDS_A_DAY = 1_000
FOUND_AT = {
    "direct-commit": (79, "NoLossOfConfirmedWrite"),
    "no-truncation": (9, "I3"),
    "commit-falls": (6, "I2"),
    "ack-before-durable": (5, "AcknowledgedStays"),
    "read-by-deposed-leader": (27, "LinearizableReads"),
    "tokens-not-replicated": (2, "OneState"),
    "minority-elects": (6, "NoLogDivergence"),
    "lowest-head-leads": (4, "NoLossOfConfirmedWrite"),
    "new-node-not-fenced": (12, "NoLossOfConfirmedWrite"),
    "old-replication-factor": (27, "ValidMessages"),
    "wiped-node-counts": (6, "NoLogDivergence"),
    "no-compare-and-set": (13, "EpochNeverFalls"),
}
"""Planted bug -> a seed that finds it, soon, and the rule that it breaks there."""


def test_a_world_without_faults_is_ok() -> None:
    outcome = simulate(StreamsPart(), 1, profile="none")
    assert (outcome.verdict, outcome.violations) == ("ok", [])
    assert outcome.events >= steps_min
    assert outcome.marks["operator_reconfigured"] > 0
    assert not [mark for mark in outcome.marks if mark.startswith(("play_", "crash", "wiped"))]


def test_a_seed_that_nobody_has_run_before_is_ok() -> None:
    seed = int(time.time() // 86_400) * SEEDS_A_DAY
    outcome = simulate(StreamsPart(), seed)
    assert outcome.verdict == "ok", outcome.replay_command()
    assert outcome.events >= steps_min


def test_there_is_a_seed_for_every_planted_bug() -> None:
    assert sorted(FOUND_AT) == sorted(StreamsPart.plants)


@pytest.mark.parametrize("plant", FOUND_AT)
def test_a_planted_bug_is_found_by_its_seed(plant: str) -> None:
    seed, rule = FOUND_AT[plant]
    outcome = simulate(StreamsPart(), seed, plant=plant)
    assert [each.invariant for each in outcome.violations][:1] == [rule]


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("plant", FOUND_AT)
def test_a_planted_bug_is_found_elsewhere_too_within_five_hundred_seeds(plant: str) -> None:
    seed, _rule = FOUND_AT[plant]
    assert simulate(StreamsPart(), seed).verdict == "ok"
    result = run_seeds("streams", 1_001, 1_500, plant=plant, jobs=os.cpu_count() or 1)
    assert result.verdict == "violated"


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_a_thousand_seeds_are_ok_and_have_seen_every_coverage_mark() -> None:
    result = run_seeds("streams", 1, 1_000, jobs=os.cpu_count() or 1)
    assert (result.verdict, result.missing_marks, result.failure) == ("ok", [], None)
