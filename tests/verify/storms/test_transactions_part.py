"""Transactions of a cluster in the storm: seeds that are always run, and many."""

from __future__ import annotations

import os

import pytest

from motet.sim.storm import simulate
from motet.sim.trace import Trace
from motet.verify.seed_range import run_seeds
from motet.verify.storms.transactions import TransactionsStorm


def test_a_world_without_faults_is_ok() -> None:
    outcome = simulate(TransactionsStorm(), 1, profile="none")
    assert (outcome.verdict, outcome.violations) == ("ok", [])
    assert outcome.marks["transaction_committed"] > 50
    assert outcome.marks["transaction_decisions_forgotten"] > 0
    assert outcome.marks["feed_page"] > 0


def test_a_seed_is_one_run() -> None:
    traces = [Trace(lines_max=1), Trace(lines_max=1)]
    first, second = (simulate(TransactionsStorm(), 2, trace=trace) for trace in traces)
    assert first.trace_digest == second.trace_digest
    assert first.verdict == "ok"


def test_the_first_seeds_are_ok() -> None:
    for seed in range(3, 6):
        outcome = simulate(TransactionsStorm(), seed)
        assert outcome.verdict == "ok", outcome.replay_command()


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_two_hundred_seeds_are_clean() -> None:
    result = run_seeds("transactions", 1, 200, jobs=os.cpu_count() or 1)
    assert result.verdict == "ok"
