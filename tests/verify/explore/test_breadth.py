"""The readable engine on models whose answers are known by hand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from motet.errors import BadInput
from motet.verify.explore import Budget, Progress, breadth, explore
from motet.verify.explore.codec import Codec, fingerprint
from motet.verify.models.quorum import Quorum
from motet.verify.models.quorum import State as QuorumState

from . import toys

ROOT = Path(__file__).parents[3]


def test_every_state_is_found_and_the_trace_is_the_shortest() -> None:
    result = explore(toys.Pouring(), properties=[])
    assert (result.verdict, result.distinct, result.depth) == ("ok", 10, 5)
    found = explore(toys.Pouring())
    assert (found.verdict, found.property) == ("violated", "NeverOne")
    assert [step.action for step in found.trace] == ["Init", "Fill(c1)", "Pour(<1, 0>)"]
    assert found.trace[-1].changed == ("level[0]: 0 → 2", "level[1]: 3 → 1")
    assert found.depth == 3


def test_a_state_without_a_step_is_a_deadlock_unless_it_may_be_the_end() -> None:
    assert explore(toys.Turns(), liveness=False).verdict == "ok"

    class Stuck(toys.Turns):
        may_end = False

    result = explore(Stuck(processes=2))
    assert (result.property, len(result.trace)) == ("Deadlock", 3)


def test_a_value_of_another_type_is_found() -> None:
    result = explore(toys.Counter())
    assert result.verdict == "violated"
    assert (result.property or "").startswith("TypeOK")
    assert len(result.trace) == 2


def test_a_budget_ends_in_unknown_and_never_in_ok() -> None:
    result = explore(toys.Endless(), budget=Budget(states=1000))
    assert (result.verdict, result.reason) == ("unknown", "the budget of 1,000 states is used up")
    assert explore(toys.Endless(), budget=Budget(seconds=0.0)).verdict == "unknown"


def test_a_bound_keeps_states_out() -> None:
    result = explore(toys.Bounded())
    assert (result.verdict, result.distinct) == ("ok", 5)


def test_symmetric_states_are_one() -> None:
    assert explore(toys.Turns(processes=4), liveness=False).distinct == 16
    assert explore(toys.Turns(processes=4), symmetry=True).distinct == 5
    with pytest.raises(BadInput, match="no symmetry"):
        explore(toys.Pouring(), symmetry=True)


def test_a_rank_only_saves_time() -> None:
    class Unranked(Quorum):
        def rank(self, s: QuorumState, value: int) -> object:
            return 0

    size = {"replicas": 3, "records": 1, "reads": 1}
    assert (
        explore(Unranked(**size), symmetry=True).distinct
        == explore(Quorum(**size), symmetry=True).distinct
    )


def test_the_way_is_told() -> None:
    told: list[Progress] = []
    explore(toys.Endless(), budget=Budget(seconds=1.2), progress=told.append)
    assert told
    assert told[-1].distinct > 0
    assert "states" in str(told[-1])


def test_a_fingerprint_does_not_depend_on_the_process() -> None:
    (state,) = Quorum().initial()
    ours = fingerprint(Codec(QuorumState).encode(state))
    code = (
        "from motet.verify.models.quorum import Quorum, State\n"
        "from motet.verify.explore.codec import Codec, fingerprint\n"
        "print(fingerprint(Codec(State).encode(next(Quorum().initial()))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == ours


def test_an_unknown_property_is_refused() -> None:
    with pytest.raises(BadInput, match="no property 'faith'"):
        explore(toys.Turns(), properties=["faith"])


@pytest.fixture(autouse=True)
def small_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that toys are worth the work of several."""
    monkeypatch.setattr(breadth, "WORTH_IT", 20)
    monkeypatch.setattr(breadth, "CHUNK", 8)
    monkeypatch.syspath_prepend(ROOT)  # the toys are found by workers as well


def test_workers_find_what_one_process_finds() -> None:
    alone = explore(toys.Wide())
    together = explore(toys.Wide(), workers=2)
    same = ("verdict", "distinct", "depth", "generated", "coverage", "properties")
    assert (alone.verdict, alone.distinct) == ("ok", 1728)
    assert [getattr(together, name) for name in same] == [getattr(alone, name) for name in same]
    assert together.engine == "readable, 2 workers"


def test_workers_find_the_same_trace() -> None:
    alone = explore(toys.WideAndWrong())
    together = explore(toys.WideAndWrong(), workers=2)
    assert alone.property == together.property == "NeverFar"
    assert alone.trace == together.trace


def test_workers_stop_at_a_budget() -> None:
    result = explore(toys.Wide(), workers=2, budget=Budget(states=800))
    assert result.verdict == "unknown"


def test_impossible_workers_are_refused() -> None:
    with pytest.raises(BadInput, match="0 workers"):
        explore(toys.Turns(), workers=0)
    with pytest.raises(BadInput, match="vectorised engine is one process"):
        explore(toys.Turns(), workers=2, engine="vectorised")
