"""Transactions whose requests come several in a turn: nothing else may come of it."""

from __future__ import annotations

import os

import pytest

from motet.sim.storm import simulate
from motet.verify.seed_range import run_seeds
from motet.verify.storms.transactions_turns import TurnsStorm


def test_what_is_gathered_is_one_entry_and_breaks_no_rule() -> None:
    outcome = simulate(TurnsStorm(), 3)
    assert (outcome.verdict, outcome.violations) == ("ok", [])
    assert outcome.marks["transaction_batch"] > 0


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_a_hundred_seeds_are_clean() -> None:
    result = run_seeds("transactions-in-turns", 1, 100, jobs=os.cpu_count() or 1)
    assert result.verdict == "ok"
