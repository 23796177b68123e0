"""C29 in the storm: the wall of one node is wrong, and no rule is broken."""

from __future__ import annotations

import os

import pytest

from motet.sim.storm import simulate
from motet.verify.seed_range import run_seeds
from motet.verify.storms.wrong_wall import WrongWallStorm


def test_a_wrong_wall_stops_nobody_and_moves_no_clock() -> None:
    outcome = simulate(WrongWallStorm(), 3)
    assert (outcome.verdict, outcome.violations) == ("ok", [])
    assert outcome.marks["wall_jumped"] > 0
    assert outcome.marks["operator_node_drifts"] > 0
    assert outcome.marks["transaction_committed"] > 0


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_a_hundred_seeds_are_clean() -> None:
    result = run_seeds("wrong-wall", 1, 100, jobs=os.cpu_count() or 1)
    assert result.verdict == "ok"
