"""Many seeds of one part, on as many cores as there are, ended by the first violation.

Seeds are independent, so they are spread over processes; results are taken in the order of the seeds, so
that the seed reported is the lowest that fails, whatever the number of processes.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from functools import partial
from multiprocessing import get_context

import msgspec

from motet.sim.part import Outcome
from motet.sim.simulate import simulate
from motet.verify.parts import part_named

CHUNK_SEEDS = 8


class RangeOutcome(msgspec.Struct):
    """What came of a range of seeds."""

    part: str
    profile: str
    plant: str | None
    first_seed: int
    last_seed: int
    #: ok, violated, unfinished, or uncovered (a coverage mark was never seen)
    verdict: str = "ok"
    seeds_run: int = 0
    events: int = 0
    marks: dict[str, int] = {}
    missing_marks: list[str] = []
    #: the lowest seed that did not end ok
    failure: Outcome | None = None


def run_seeds(
    part_name: str,
    first_seed: int,
    last_seed: int,
    *,
    profile: str = "swarm",
    plant: str | None = None,
    jobs: int = 1,
    progress: Callable[[RangeOutcome], None] | None = None,
) -> RangeOutcome:
    """Run all seeds from first to last, both included; stop at the first that is not ok.

    A range that never saw one of the part's coverage marks fails too: it has not tested what it claims.
    """
    part = part_named(part_name)
    result = RangeOutcome(part_name, profile, plant, first_seed, last_seed)
    run_one = partial(_run_seed, part_name, profile, plant)
    with closing(_outcomes(run_one, range(first_seed, last_seed + 1), jobs)) as outcomes:
        for outcome in outcomes:
            _count(result, outcome)
            if progress is not None:
                progress(result)
            if outcome.verdict != "ok":
                result.verdict, result.failure = outcome.verdict, outcome
                return result
    result.missing_marks = [mark for mark in part.marks if mark not in result.marks]
    if result.missing_marks:
        result.verdict = "uncovered"
    return result


def _run_seed(part_name: str, profile: str, plant: str | None, seed: int) -> Outcome:
    return simulate(part_named(part_name), seed, profile=profile, plant=plant)


def _outcomes(run_one: Callable[[int], Outcome], seeds: range, jobs: int) -> Generator[Outcome]:
    if jobs <= 1 or len(seeds) <= CHUNK_SEEDS:
        yield from map(run_one, seeds)
        return
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
    try:
        yield from pool.map(run_one, seeds, chunksize=CHUNK_SEEDS)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _count(result: RangeOutcome, outcome: Outcome) -> None:
    result.seeds_run += 1
    result.events += outcome.events
    for mark, times in outcome.marks.items():
        result.marks[mark] = result.marks.get(mark, 0) + times
