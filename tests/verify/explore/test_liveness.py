"""Temporal properties under fairness, on graphs that can be drawn by hand."""

from __future__ import annotations

from motet.verify.explore import explore
from motet.verify.explore.liveness import components

from . import toys


def test_without_fairness_anything_may_stop() -> None:
    result = explore(toys.Turns())
    assert (result.verdict, result.property) == ("violated", "AllDone")
    assert len(result.trace) == 1, "it stands still at once"
    assert result.loops_to == 0


def test_weak_fairness_of_each_or_of_the_whole() -> None:
    assert explore(toys.FairTurns()).verdict == "ok"
    assert explore(toys.TurnsAsAWhole()).verdict == "ok"


def test_what_is_possible_now_and_then_needs_strong_fairness() -> None:
    result = explore(toys.WeakLamp())
    assert (result.verdict, result.property) == ("violated", "IsLitSomeDay")
    assert [step.action for step in result.trace] == ["Init", "Wiggle", "Wiggle"]
    assert result.loops_to == 0
    assert explore(toys.StrongLamp()).verdict == "ok"


def test_again_and_again() -> None:
    assert explore(toys.Blinking()).verdict == "ok"

    class Lazy(toys.Blinking):
        fairness = toys.WeakLamp.fairness

    assert explore(Lazy(), properties=["lit-again"]).property == "LitAgain"


def test_components_of_a_part_of_a_graph() -> None:
    # 0 -> 1 <-> 2 -> 3 -> 3, and 4 alone
    first, targets = [0, 1, 2, 4, 5, 5], [1, 2, 1, 3, 3]
    found = [sorted(c) for c in components(first, targets, [0, 1, 2, 3, 4])]
    assert sorted(found) == [[0], [1, 2], [3], [4]]
    assert sorted(sorted(c) for c in components(first, targets, [0, 1])) == [[0], [1]]
