"""Transactions whose requests come several in a turn: nothing else may come of it, and bugs are found."""

from __future__ import annotations

import os

import pytest

from motet.sim.simulate import simulate
from motet.verify.parts.transactions_turns import TurnsPart
from motet.verify.seed_range import run_seeds

FOUND_AT = {
    "clock-shared-in-a-bundle": (1, "U1"),
    "key-twice-in-a-bundle": (3, "U2"),
    "transaction-twice-in-a-bundle": (6, "U2"),
    "bundle-landed-in-part": (1, "Grounded"),
    "bundle-followed-in-part": (3, "OneState"),
    "bundle-fed-in-part": (1, "N1"),
    "bundle-read-in-part": (1, "PagesWithoutGap"),
    "another-of-the-bundle": (3, "LatestKept"),
}
"""Planted bug -> a seed that finds it, and the rule that it breaks there."""


def test_what_is_gathered_is_one_entry_and_breaks_no_rule() -> None:
    outcome = simulate(TurnsPart(), 3)
    assert (outcome.verdict, outcome.violations) == ("ok", [])
    assert outcome.marks["transaction_bundle"] > 0


@pytest.mark.parametrize("plant", FOUND_AT)
def test_a_planted_bug_is_found_by_its_seed(plant: str) -> None:
    seed, rule = FOUND_AT[plant]
    outcome = simulate(TurnsPart(), seed, plant=plant)
    assert [each.invariant for each in outcome.violations][:1] == [rule]


@pytest.mark.parametrize("seed", sorted({seed for seed, _ in FOUND_AT.values()}))
def test_without_the_bugs_nothing_is_found_there(seed: int) -> None:
    assert simulate(TurnsPart(), seed).verdict == "ok"


def test_every_planted_bug_has_its_seed() -> None:
    assert {*FOUND_AT} == {*TurnsPart.plants}


@pytest.mark.long
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("plant", TurnsPart.plants)
def test_a_planted_bug_is_found_elsewhere_too_within_two_hundred_seeds(plant: str) -> None:
    result = run_seeds("transactions-in-turns", 1_001, 1_200, plant=plant, jobs=os.cpu_count() or 1)
    assert result.verdict == "violated"


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_a_hundred_seeds_are_clean() -> None:
    result = run_seeds("transactions-in-turns", 1, 100, jobs=os.cpu_count() or 1)
    assert result.verdict == "ok"
