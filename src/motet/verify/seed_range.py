"""Many seeds of one part, on as many cores as there are, ended by the first violation.

Seeds are independent, so they are spread over processes; results are taken in the order of the seeds, so
that the seed reported is the lowest that fails, whatever the number of processes. No more than a few seeds
are handed out ahead of that, so a range may be as long as one likes, and ^C ends it after the seeds that
are being run.
"""

from __future__ import annotations

import itertools
import signal
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import closing
from functools import partial
from multiprocessing import get_context

import msgspec

from motet.sim.storm import Outcome, simulate
from motet.verify.parent import end_with_parent
from motet.verify.plants import search_for
from motet.verify.storms import storm_named

ALONE_SEEDS_MAX = 8
"""So few seeds are run before another process would have started."""

AHEAD_SEEDS = 4
"""Seeds handed out for each process: enough that it never waits for us."""


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
    part = storm_named(part_name)
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


def find_plant(part_name: str, plant: str, *, jobs: int = 1) -> Outcome | None:
    """The run of the first seed that finds a planted bug; None when its search ends in vain.

    Found means that one of the rules is broken by which this bug is found, whatever else is.
    """
    _, search = search_for(part_name, plant)
    run_one = partial(_run_seed, part_name, search.profile, plant)
    with closing(_outcomes(run_one, search.seeds, jobs)) as outcomes:
        for outcome in outcomes:
            if any(each.invariant in search.by for each in outcome.violations):
                return outcome
    return None


def _run_seed(part_name: str, profile: str, plant: str | None, seed: int) -> Outcome:
    return simulate(storm_named(part_name), seed, profile=profile, plant=plant)


def _outcomes(run_one: Callable[[int], Outcome], seeds: range, jobs: int) -> Generator[Outcome]:
    if jobs <= 1 or seeds.stop - seeds.start <= ALONE_SEEDS_MAX:
        yield from map(run_one, seeds)
        return
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), end_with_parent)
    left = iter(seeds)
    running: deque[Future[Outcome]] = deque()
    try:
        running.extend(
            _submit(pool, run_one, seed) for seed in itertools.islice(left, AHEAD_SEEDS * jobs)
        )
        while running:
            yield running.popleft().result()
            running.extend(_submit(pool, run_one, seed) for seed in itertools.islice(left, 1))
    finally:
        if any(not future.done() for future in running):
            # Left early, by ^C or since a seed has failed: nobody wants what the others come to.
            for worker in list((pool._processes or {}).values()):
                worker.kill()
        pool.shutdown(wait=True, cancel_futures=True)


def _submit(
    pool: ProcessPoolExecutor, run_one: Callable[[int], Outcome], seed: int
) -> Future[Outcome]:
    """A process that this starts inherits our signal mask: ^C is for us, and we tell the others."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        return pool.submit(run_one, seed)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _count(result: RangeOutcome, outcome: Outcome) -> None:
    result.seeds_run += 1
    result.events += outcome.events
    for mark, times in outcome.marks.items():
        result.marks[mark] = result.marks.get(mark, 0) + times
