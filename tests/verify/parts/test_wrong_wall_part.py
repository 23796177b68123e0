"""C29 in the storm: the wall of one node is wrong, and no rule is broken; two planted bugs are found."""

from __future__ import annotations

import os

import pytest

from motet.sim.simulate import simulate
from motet.verify.parts.wrong_wall import FIRST_ANSWER, OWN_WALL, WrongWallPart
from motet.verify.seed_range import run_seeds

FOUND_AT = {OWN_WALL: (3, "W1"), FIRST_ANSWER: (3, "W1")}
"""Planted bug -> a seed that finds it, and the rule that it breaks there."""


def test_a_wrong_wall_stops_nobody_and_moves_no_clock() -> None:
    outcome = simulate(WrongWallPart(), 3)
    assert (outcome.verdict, outcome.violations) == ("ok", [])
    assert outcome.marks["wall_jumped"] > 0
    assert outcome.marks["operator_node_drifts"] > 0
    assert outcome.marks["transaction_committed"] > 0


@pytest.mark.parametrize("plant", FOUND_AT)
def test_a_planted_bug_is_found_by_its_seed(plant: str) -> None:
    seed, rule = FOUND_AT[plant]
    outcome = simulate(WrongWallPart(), seed, plant=plant)
    assert [each.invariant for each in outcome.violations][:1] == [rule]


def test_every_planted_bug_has_its_seed() -> None:
    assert {*FOUND_AT} == {*WrongWallPart.plants}


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_a_hundred_seeds_are_clean() -> None:
    result = run_seeds("wrong-wall", 1, 100, jobs=os.cpu_count() or 1)
    assert result.verdict == "ok"
