"""Ranges of seeds: counted, in order, ended by the first failure, and never run further than needed."""

from __future__ import annotations

import itertools
from functools import partial

import pytest

from motet.errors import BadInput
from motet.sim.storm import Outcome
from motet.verify import seed_range
from motet.verify.seed_range import RangeOutcome, run_seeds
from motet.verify.storms import PARTS, storm_named


def outcome(seed: int, verdict: str = "ok", **marks: int) -> Outcome:
    return Outcome("time", seed, "swarm", None, verdict, [], 10, 1, marks, 0, "")


def faked(monkeypatch: pytest.MonkeyPatch, **verdicts: str) -> list[int]:
    """Replace the runs: ``s7="violated"`` is what seed 7 comes to. The seeds that were run."""
    ran: list[int] = []
    marks = dict.fromkeys(storm_named("time").marks, 1)

    def run(_part: str, _profile: str, _plant: str | None, seed: int) -> Outcome:
        ran.append(seed)
        return outcome(seed, verdicts.get(f"s{seed}", "ok"), **marks)

    monkeypatch.setattr(seed_range, "_run_seed", run)
    return ran


def test_both_ends_are_run_once_and_everything_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = faked(monkeypatch)
    result = run_seeds("time", 3, 7)
    assert ran == [3, 4, 5, 6, 7]
    assert (result.verdict, result.seeds_run, result.events) == ("ok", 5, 50)
    assert set(result.marks.values()) == {5}


@pytest.mark.parametrize("verdict", ["violated", "unfinished"])
def test_the_first_seed_that_is_not_ok_ends_the_range(
    monkeypatch: pytest.MonkeyPatch, verdict: str
) -> None:
    ran = faked(monkeypatch, s5=verdict, s6="violated")
    result = run_seeds("time", 1, 100)
    assert ran == [1, 2, 3, 4, 5]
    assert result.verdict == verdict
    assert result.failure is not None
    assert result.failure.seed == 5


def test_a_range_without_end_is_begun_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    faked(monkeypatch, s3="violated")
    assert run_seeds("time", 1, 10**30).seeds_run == 3


def test_no_more_than_a_few_seeds_are_handed_out_ahead() -> None:
    """Over processes: the first results come though the range would take for ever."""
    run_one = partial(seed_range._run_seed, "time", "none", None)
    outcomes = seed_range._outcomes(run_one, range(1, 10**30), 2)
    assert [found.seed for found in itertools.islice(outcomes, 30)] == [*range(1, 31)]
    outcomes.close()


def test_marks_that_no_seed_saw_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seed_range, "_run_seed", lambda *_: outcome(1, crash=2))
    result = run_seeds("time", 1, 4)
    assert result.verdict == "uncovered"
    assert result.missing_marks == [mark for mark in storm_named("time").marks if mark != "crash"]


def test_progress_is_told_after_each_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    faked(monkeypatch)
    told: list[int] = []

    def note(result: RangeOutcome) -> None:
        told.append(result.seeds_run)

    run_seeds("time", 1, 4, progress=note)
    assert told == [1, 2, 3, 4]


def test_processes_see_what_one_process_sees() -> None:
    alone, together = (run_seeds("time", 1, 12, jobs=jobs) for jobs in (1, 2))
    assert alone == together


def test_an_error_in_another_process_is_the_same_error() -> None:
    with pytest.raises(BadInput, match="tempest"):
        run_seeds("time", 1, 40, profile="tempest", jobs=2)


def test_every_part_has_its_name_and_marks() -> None:
    for name in PARTS:
        part = storm_named(name)
        assert part.name == name
        assert len(set(part.marks)) == len(part.marks) > 3
