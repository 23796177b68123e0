"""A replicated cluster in the storm: seeds that are always run, fresh ones, and many."""

from __future__ import annotations

import os
import time

import pytest

from motet.verify.seed_range import run_seeds

SEEDS_A_DAY = 1_000


def test_the_first_seeds_are_ok() -> None:
    result = run_seeds("vsr", 1, 8)
    assert result.failure is None, result.failure.replay_command()


def test_seeds_that_nobody_has_run_before_are_ok() -> None:
    first = int(time.time() // 86_400) * SEEDS_A_DAY
    result = run_seeds("vsr", first, first + 3)
    assert result.failure is None, result.failure.replay_command()


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_a_thousand_seeds_are_ok_and_have_seen_every_coverage_mark() -> None:
    result = run_seeds("vsr", 1, 1_000, jobs=os.cpu_count() or 1)
    assert (result.verdict, result.missing_marks, result.failure) == ("ok", [], None)
