"""A replicated cluster in the storm: seeds that are always run, fresh ones, many, and bugs that are found."""

from __future__ import annotations

import os
import time

import pytest

from motet.sim.simulate import simulate
from motet.verify.parts.vsr import VsrPart
from motet.verify.seed_range import run_seeds

SEEDS_A_DAY = 1_000
FOUND_AT = {
    "sessions-not-replicated": 2,
    "ack-before-durable": 5,
    "header-with-prepare": 5,
    "ok-before-log-view-durable": 40,
}
"""Planted bug -> a seed that finds it."""

SUBTLE = [plant for plant in VsrPart.plants if plant not in FOUND_AT]


def test_the_first_seeds_are_ok() -> None:
    result = run_seeds("vsr", 1, 8)
    assert result.failure is None, result.failure.replay_command()


def test_seeds_that_nobody_has_run_before_are_ok() -> None:
    first = int(time.time() // 86_400) * SEEDS_A_DAY
    result = run_seeds("vsr", first, first + 3)
    assert result.failure is None, result.failure.replay_command()


@pytest.mark.parametrize("plant", FOUND_AT)
def test_a_planted_bug_is_found_by_its_seed(plant: str) -> None:
    assert simulate(VsrPart(), FOUND_AT[plant], plant=plant).verdict == "violated"
    assert simulate(VsrPart(), FOUND_AT[plant]).verdict == "ok"


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("plant", SUBTLE)
def test_a_subtle_bug_is_found_within_five_hundred_seeds(plant: str) -> None:
    result = run_seeds("vsr", 1, 500, plant=plant, jobs=os.cpu_count() or 1)
    assert result.verdict == "violated"


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_a_thousand_seeds_are_ok_and_have_seen_every_coverage_mark() -> None:
    result = run_seeds("vsr", 1, 1_000, jobs=os.cpu_count() or 1)
    assert (result.verdict, result.missing_marks, result.failure) == ("ok", [], None)
