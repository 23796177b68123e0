"""Transactions of a cluster in the storm: seeds that are always run, and bugs that are found."""

from __future__ import annotations

import os

import pytest

from motet.sim.simulate import simulate
from motet.sim.trace import Trace
from motet.verify.parts.transactions import TransactionsPart
from motet.verify.parts.transactions_plants import TRANSACTION_PLANTS
from motet.verify.seed_range import run_seeds

FOUND_AT = {
    "reads-not-validated": (1, "ReadsValid"),
    "torn-tie": (1, "FeedComplete"),
    "locks-forgotten": (1, "LatestKept"),
    "trim-without-carrying": (1, "LatestKept"),
    "closed-over-prepare": (1, "N1"),
    "born-in-the-past": (10, "Born"),
    "closed-in-memory": (1, "FeedClosed"),
    "hidden-in-part": (8, "Valve"),
    "decided-twice": (7, "LatestKept"),
    "clock-too-early": (6, "CausalOrder"),
    "decision-forgotten": (24, "LatestKept"),
    "append-over-lock": (1, "ReadsValid"),
    "get-over-lock": (7, "LatestKept"),
    "bookmark-left-behind": (4, "SessionReads"),
    "pruned-over-cursor": (4, "CursorKept"),
    "outcome-not-reached": (3, "N1"),
    "outcome-at-the-end": (3, "N1"),
    "outcome-of-another": (22, "N1"),
    "milestone-forgets-the-oldest": (8, "N1"),
}
"""Planted bug -> a seed that finds it, and the rule that it breaks there."""

FOUND_LATER = {
    "milestone-forgets-the-old": (70, "N1"),
    "decided-late": (34, "Decided"),
}
"""The same, in the long tier."""


def test_a_world_without_faults_is_ok() -> None:
    outcome = simulate(TransactionsPart(), 1, profile="none")
    assert (outcome.verdict, outcome.violations) == ("ok", [])
    assert outcome.marks["transaction_committed"] > 50
    assert outcome.marks["transaction_decisions_forgotten"] > 0
    assert outcome.marks["feed_page"] > 0


def test_a_seed_is_one_run() -> None:
    traces = [Trace(lines_max=1), Trace(lines_max=1)]
    first, second = (simulate(TransactionsPart(), 2, trace=trace) for trace in traces)
    assert first.trace_digest == second.trace_digest
    assert first.verdict == "ok"


@pytest.mark.parametrize("plant", FOUND_AT)
def test_a_planted_bug_is_found_by_its_seed(plant: str) -> None:
    seed, rule = FOUND_AT[plant]
    outcome = simulate(TransactionsPart(), seed, plant=plant)
    assert [each.invariant for each in outcome.violations][:1] == [rule]


@pytest.mark.parametrize("seed", sorted({seed for seed, _ in FOUND_AT.values()}))
def test_without_the_bugs_nothing_is_found_there(seed: int) -> None:
    assert simulate(TransactionsPart(), seed).verdict == "ok"


@pytest.mark.long
@pytest.mark.parametrize("plant", FOUND_LATER)
def test_a_subtle_bug_is_found_by_its_seed(plant: str) -> None:
    seed, rule = FOUND_LATER[plant]
    outcome = simulate(TransactionsPart(), seed, plant=plant)
    assert rule in [each.invariant for each in outcome.violations]


def test_every_planted_bug_has_its_seed() -> None:
    assert {*FOUND_AT, *FOUND_LATER} == {*TRANSACTION_PLANTS}


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("plant", TRANSACTION_PLANTS)
def test_a_planted_bug_is_found_elsewhere_too_within_three_hundred_seeds(plant: str) -> None:
    result = run_seeds("transactions", 1_001, 1_300, plant=plant, jobs=os.cpu_count() or 1)
    assert result.verdict == "violated"


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_two_hundred_seeds_are_clean() -> None:
    result = run_seeds("transactions", 1, 200, jobs=os.cpu_count() or 1)
    assert result.verdict == "ok"
