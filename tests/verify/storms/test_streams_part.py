"""A cluster's streams in the storm: seeds that are always run, fresh ones, and many."""

from __future__ import annotations

import os
import time

import pytest

from motet.sim.storm import simulate
from motet.verify.seed_range import run_seeds
from motet.verify.storms.streams import StreamsStorm, steps_min

SEEDS_A_DAY = 1_000


def test_a_world_without_faults_is_ok() -> None:
    outcome = simulate(StreamsStorm(), 1, profile="none")
    assert (outcome.verdict, outcome.violations) == ("ok", [])
    assert outcome.events >= steps_min
    assert outcome.marks["operator_reconfigured"] > 0
    assert not [mark for mark in outcome.marks if mark.startswith(("play_", "crash", "wiped"))]


def test_a_seed_that_nobody_has_run_before_is_ok() -> None:
    seed = int(time.time() // 86_400) * SEEDS_A_DAY
    outcome = simulate(StreamsStorm(), seed)
    assert outcome.verdict == "ok", outcome.replay_command()
    assert outcome.events >= steps_min


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_a_thousand_seeds_are_ok_and_have_seen_every_coverage_mark() -> None:
    result = run_seeds("streams", 1, 1_000, jobs=os.cpu_count() or 1)
    assert (result.verdict, result.missing_marks, result.failure) == ("ok", [], None)
