"""The demos without processes: a storm of simulated faults that finds a planted bug, and a proof."""

from __future__ import annotations

import time

from motet.demos import Report, Tell
from motet.verify.explore import Exploration, explore
from motet.verify.models import model_named
from motet.verify.seed_range import RangeOutcome, run_seeds

SEEDS = {"time": 60, "database": 40}
PLANT = ("database", "ack-before-durable")
PLANT_SEEDS = 1_000
BAR = 40


def show(tell: Tell) -> Report:
    """Run the seeds, draw what was seen, find the bug."""
    began = time.monotonic()
    marks: dict[str, int] = {}
    violated = events = 0
    for part, seeds in SEEDS.items():
        result = run_seeds(part, 1, seeds)
        events += result.events
        violated += result.verdict != "ok"
        for mark, times in result.marks.items():
            marks[mark] = marks.get(mark, 0) + times
        tell(f"  {part:<8} {result.seeds_run} seeds, {result.events} events: {result.verdict}")
    tell("\n  what the storms brought:")
    _draw(marks, tell)
    found = run_seeds(PLANT[0], 1, PLANT_SEEDS, plant=PLANT[1])
    _tell_planted(found, tell)
    report: Report = {
        "seeds": sum(SEEDS.values()),
        "events": events,
        "violated": violated,
        "planted_bug_found_at_seed": None if found.failure is None else found.failure.seed,
        "replay": None if found.failure is None else found.failure.replay_command(),
        "seconds": round(time.monotonic() - began, 2),
        "ok": not violated and found.verdict == "violated",
    }
    return report


def _draw(marks: dict[str, int], tell: Tell) -> None:
    """Bars on a logarithmic scale: a rare fault matters as much as a frequent one."""
    most = max(marks.values()).bit_length()
    for mark, times in sorted(marks.items(), key=lambda item: -item[1]):
        tell(f"    {mark:<26} {'█' * (times.bit_length() * BAR // most):<{BAR}} {times}")


def _tell_planted(found: RangeOutcome, tell: Tell) -> None:
    part, plant = PLANT
    tell(f"\n  the bug {plant!r} planted into {part}:")
    if found.failure is None:
        tell(f"    not found in {found.seeds_run} seeds")
        return
    violation = found.failure.violations[0]
    first_line = violation.what.splitlines()[0]
    tell(f"    found at seed {found.failure.seed}: violates {violation.invariant}, {first_line}")
    tell(f"    replay it: {found.failure.replay_command()}")


SIZE = {"replicas": 3, "quorum": 2, "records": 2, "reads": 2}


def show_proof(tell: Tell) -> Report:
    """Explore both kinds of select, and print what came out."""
    tell("Selects that do not ask whether their replica has every acknowledged insert:\n")
    stale = explore(model_named("quorum-stale", SIZE), properties=["NoStaleRead"], engine="auto")
    for number, step in enumerate(stale.trace, start=1):
        tell(f"  {number}  {step.action}")
    tell(f"\n  {_told(stale)}: NoStaleRead is violated, and no shorter way leads there.\n")
    tell("Selects that do ask, over every state that can be reached:\n")
    proven = explore(model_named("quorum", SIZE), engine="auto")
    tell(f"  {_told(proven)}: {', '.join(proven.properties)} hold.")
    return {
        "ok": stale.verdict == "violated" and proven.verdict == "ok",
        "stale_states": len(stale.trace),
        "stale_property": stale.property,
        "linearizable_states": proven.distinct,
        "linearizable_verdict": proven.verdict,
        "seconds": round(stale.seconds + proven.seconds, 3),
    }


def _told(result: Exploration) -> str:
    return f"{result.distinct:,} states in {result.seconds:.1f} s"
