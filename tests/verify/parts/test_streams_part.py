"""A cluster's streams in the storm: seeds that are always run, fresh ones, many, and bugs that are found."""

from __future__ import annotations

import os
import time

import pytest

from motet.sim.simulate import simulate
from motet.sim.trace import Trace
from motet.verify.parts.streams import StreamsPart
from motet.verify.seed_range import run_seeds

SEEDS_A_DAY = 1_000
FOUND_AT = {
    "no-compare-and-set": (2, "EpochNeverFalls"),
    "minority-elects": (5, "NoLossOfConfirmedWrite"),
    "lowest-head-leads": (5, "NoLossOfConfirmedWrite"),
    "commit-falls": (7, "I2"),
    "tokens-not-replicated": (1, "OneState"),
}
"""Planted bug -> a seed that finds it, and the rule that it breaks there."""

SUBTLE = [plant for plant in StreamsPart.plants if plant not in FOUND_AT]


def test_a_world_without_faults_is_ok() -> None:
    outcome = simulate(StreamsPart(), 1, profile="none")
    assert (outcome.verdict, outcome.violations) == ("ok", [])
    assert outcome.events >= 10_000
    assert outcome.marks["operator_reconfigured"] > 0


def test_a_seed_is_one_run() -> None:
    traces = [Trace(lines_max=1), Trace(lines_max=1)]
    first, second = (simulate(StreamsPart(), 3, trace=trace) for trace in traces)
    assert first.trace_digest == second.trace_digest


def test_seeds_that_nobody_has_run_before_are_ok() -> None:
    first = int(time.time() // 86_400) * SEEDS_A_DAY
    for seed in (first, first + 1):
        outcome = simulate(StreamsPart(), seed)
        assert outcome.verdict == "ok", outcome.replay_command()


@pytest.mark.parametrize("plant", FOUND_AT)
def test_a_planted_bug_is_found_by_its_seed(plant: str) -> None:
    seed, rule = FOUND_AT[plant]
    outcome = simulate(StreamsPart(), seed, plant=plant)
    assert [each.invariant for each in outcome.violations][:1] == [rule]
    assert simulate(StreamsPart(), seed).verdict == "ok"


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("plant", SUBTLE)
def test_a_subtle_bug_is_found_within_five_hundred_seeds(plant: str) -> None:
    result = run_seeds("streams", 1, 500, plant=plant, jobs=os.cpu_count() or 1)
    assert result.verdict == "violated"


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_a_thousand_seeds_are_ok_and_have_seen_every_coverage_mark() -> None:
    result = run_seeds("streams", 1, 1_000, jobs=os.cpu_count() or 1)
    assert (result.verdict, result.missing_marks, result.failure) == ("ok", [], None)
