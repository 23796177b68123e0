"""A keeper in the storm: seeds that are always run, fresh ones, and many."""

from __future__ import annotations

import os
import time

import pytest

from motet.sim.storm import simulate
from motet.sim.trace import Trace
from motet.verify.seed_range import run_seeds
from motet.verify.storms.keeper import KeeperStorm

SEEDS_A_DAY = 1_000
STEPS_MIN = 10_000


def test_the_first_seeds_are_ok() -> None:
    result = run_seeds("keeper", 1, 6)
    assert result.failure is None, result.failure.replay_command()


def test_seeds_that_nobody_has_run_before_are_ok() -> None:
    first = int(time.time() // 86_400) * SEEDS_A_DAY
    result = run_seeds("keeper", first, first + 2)
    assert result.failure is None, result.failure.replay_command()


def test_the_same_seed_is_the_same_run() -> None:
    runs = [simulate(KeeperStorm(), 7, trace=Trace(lines_max=1)) for _ in range(2)]
    assert runs[0].trace_digest == runs[1].trace_digest


@pytest.mark.parametrize("seed", [3, 5])
def test_a_run_is_long_also_where_there_is_one_node(seed: int) -> None:
    assert simulate(KeeperStorm(), seed).events >= STEPS_MIN


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_five_hundred_seeds_are_ok_and_have_seen_every_coverage_mark() -> None:
    result = run_seeds("keeper", 1, 500, jobs=os.cpu_count() or 1)
    assert (result.verdict, result.missing_marks, result.failure) == ("ok", [], None)
    assert result.events >= 500 * STEPS_MIN
