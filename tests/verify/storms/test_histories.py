"""What the clients of simulated parts saw, written down, is judged by the checkers alone."""

from __future__ import annotations

from typing import Any

import pytest

from motet.errors import BadInput
from motet.sim.storm import simulate
from motet.sim.trace import Trace
from motet.verify.history.checkers import CHECKERS, read_history
from motet.verify.history.record import Verdict, budget_steps_default
from motet.verify.storms import storm_named
from motet.verify.storms.histories import TAPS, Recorded

KINDS = {
    "vsr": (2, ["keyed"]),
    "keeper": (1, ["tree"]),
    "database": (3, ["feed", "causal", "bank-snapshots"]),
    "streams": (3, ["queue", "sessions"]),
}
"""Part -> a seed, and the checkers that its histories are for."""


def judged(part: str, seed: int, **options: Any) -> dict[str, Verdict]:
    recorded = Recorded(storm_named(part))
    simulate(recorded, seed, **options)
    verdicts = {}
    for checker, data in recorded.files().items():
        header, history = read_history(data)
        assert header.checker == checker
        check = CHECKERS[checker].check
        verdicts[checker] = check(history, header.initial, budget_steps_default)
    return verdicts


def test_there_is_a_seed_for_every_part_that_writes_histories() -> None:
    assert sorted(KINDS) == sorted(TAPS)


@pytest.mark.parametrize("part", KINDS)
def test_what_clients_saw_in_a_storm_is_ok(part: str) -> None:
    seed, kinds = KINDS[part]
    verdicts = judged(part, seed)
    assert {checker: verdict.status for checker, verdict in verdicts.items()} == dict.fromkeys(
        kinds, "ok"
    )
    assert all(verdict.operations > 50 for verdict in verdicts.values())


PLANTED = {
    ("database", "do-not-validate"): {("feed", "clock"), ("bank-snapshots", "total")},
    ("streams", "minority-elects"): {("queue", "doubled"), ("sessions", "phantom")},
}
"""Part and planted bug -> which checkers find it, each alone, and as what."""


@pytest.mark.parametrize(("part", "plant"), PLANTED)
def test_a_planted_bug_is_found_by_what_clients_saw(part: str, plant: str) -> None:
    missing = set(PLANTED[part, plant])
    for seed in range(1, 100):
        verdicts = judged(part, seed, plant=plant).items()
        missing -= {(checker, found.witness.fault) for checker, found in verdicts if found.witness}
        if not missing:
            return
    raise AssertionError(f"not found: {sorted(missing)}")


@pytest.mark.parametrize("part", ["vsr", "database"])
def test_a_seed_does_the_same_whether_it_is_written_down_or_not(part: str) -> None:
    traces = Trace(lines_max=1), Trace(lines_max=1)
    simulate(storm_named(part), 4, trace=traces[0])
    simulate(Recorded(storm_named(part)), 4, trace=traces[1])
    assert traces[0].digest() == traces[1].digest()


def test_a_part_without_histories_is_refused() -> None:
    with pytest.raises(BadInput, match="clients of time see; choose one of vsr, keeper"):
        Recorded(storm_named("time"))
