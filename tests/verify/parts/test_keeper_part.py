"""A keeper in the storm: seeds that are always run, fresh ones, many, and bugs that are found."""

from __future__ import annotations

import os
import time

import pytest

from motet.sim.simulate import simulate
from motet.sim.trace import Trace
from motet.verify.parts.keeper import KeeperPart
from motet.verify.seed_range import run_seeds

SEEDS_A_DAY = 1_000
STEPS_MIN = 10_000
FOUND_AT = {
    "watch-after-read": (7, "Z8"),
    "event-after-answer": (12, "Z8"),
    "expiry-by-local-clock": (32, "Z3"),
    "multi-in-part": (1, "Z1"),
    "stale-generation": (2, "Z1"),
    "local-reads": (2, "Z7"),
}
"""Planted bug -> a seed that finds it, and the rule that it breaks."""

SUBTLE = [plant for plant in KeeperPart.plants if plant not in FOUND_AT]


def test_the_first_seeds_are_ok() -> None:
    result = run_seeds("keeper", 1, 6)
    assert result.failure is None, result.failure.replay_command()


def test_seeds_that_nobody_has_run_before_are_ok() -> None:
    first = int(time.time() // 86_400) * SEEDS_A_DAY
    result = run_seeds("keeper", first, first + 2)
    assert result.failure is None, result.failure.replay_command()


def test_the_same_seed_is_the_same_run() -> None:
    runs = [simulate(KeeperPart(), 7, trace=Trace(lines_max=1)) for _ in range(2)]
    assert runs[0].trace_digest == runs[1].trace_digest


@pytest.mark.parametrize("seed", [3, 5])
def test_a_run_is_long_also_where_there_is_one_node(seed: int) -> None:
    assert simulate(KeeperPart(), seed).events >= STEPS_MIN


@pytest.mark.parametrize("plant", FOUND_AT)
def test_a_planted_bug_is_found_by_its_seed(plant: str) -> None:
    seed, rule = FOUND_AT[plant]
    outcome = simulate(KeeperPart(), seed, plant=plant)
    assert [each.invariant for each in outcome.violations][:1] == [rule]
    assert simulate(KeeperPart(), seed).verdict == "ok"


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("plant", SUBTLE)
def test_a_subtle_bug_is_found_within_five_hundred_seeds(plant: str) -> None:
    result = run_seeds("keeper", 1, 500, plant=plant, jobs=os.cpu_count() or 1)
    assert result.verdict == "violated"


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_five_hundred_seeds_are_ok_and_have_seen_every_coverage_mark() -> None:
    result = run_seeds("keeper", 1, 500, jobs=os.cpu_count() or 1)
    assert (result.verdict, result.missing_marks, result.failure) == ("ok", [], None)
    assert result.events >= 500 * STEPS_MIN
