"""A run that was cut short is never called ok."""

from __future__ import annotations

import pytest
from tests.toy.storm import EARLY, ToyPart

from motet.sim import storm as simulation
from motet.sim import world as worlds
from motet.sim.storm import simulate


def budget(monkeypatch: pytest.MonkeyPatch, events: int) -> None:
    for module in (simulation, worlds):
        monkeypatch.setattr(module, "simulation_events_max", events)


def test_a_run_that_used_up_its_events_is_unfinished(monkeypatch: pytest.MonkeyPatch) -> None:
    budget(monkeypatch, 50)
    outcome = simulate(ToyPart(), 1, profile="none")
    assert (outcome.verdict, outcome.events, outcome.violations) == ("unfinished", 50, [])


def test_what_was_seen_before_the_events_were_used_up_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seed = next(s for s in range(100) if simulate(ToyPart(), s, plant=EARLY).verdict == "violated")
    whole = simulate(ToyPart(), seed, plant=EARLY)
    budget(monkeypatch, whole.events - 1)
    assert simulate(ToyPart(), seed, plant=EARLY).verdict == "violated"


def test_the_same_run_with_enough_events_is_ok() -> None:
    assert simulate(ToyPart(), 1, profile="none").verdict == "ok"
