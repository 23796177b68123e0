"""The storm demo: many seeds of simulated faults, drawn, and a planted bug that one of them finds."""

from __future__ import annotations

import time

import typer

from motet.verify.seed_range import RangeOutcome, run_seeds

SEEDS = {"time": 60, "database": 40}
PLANT = ("database", "ack-before-durable")
PLANT_SEEDS = 1_000
BAR = 40


def show() -> dict[str, object]:
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
        typer.echo(
            f"  {part:<8} {result.seeds_run} seeds, {result.events} events: {result.verdict}"
        )
    typer.echo("\n  what the storms brought:")
    _draw(marks)
    found = run_seeds(PLANT[0], 1, PLANT_SEEDS, plant=PLANT[1])
    _tell(found)
    report: dict[str, object] = {
        "seeds": sum(SEEDS.values()),
        "events": events,
        "violated": violated,
        "planted_bug_found_at_seed": None if found.failure is None else found.failure.seed,
        "replay": None if found.failure is None else found.failure.replay_command(),
        "seconds": round(time.monotonic() - began, 2),
        "ok": not violated and found.verdict == "violated",
    }
    return report


def _draw(marks: dict[str, int]) -> None:
    """Bars on a logarithmic scale: a rare fault matters as much as a frequent one."""
    most = max(marks.values()).bit_length()
    for mark, times in sorted(marks.items(), key=lambda item: -item[1]):
        typer.echo(f"    {mark:<26} {'█' * (times.bit_length() * BAR // most):<{BAR}} {times}")


def _tell(found: RangeOutcome) -> None:
    part, plant = PLANT
    typer.echo(f"\n  the bug {plant!r} planted into {part}:")
    if found.failure is None:
        typer.echo(f"    not found in {found.seeds_run} seeds")
        return
    violation = found.failure.violations[0]
    first_line = violation.what.splitlines()[0]
    typer.echo(
        f"    found at seed {found.failure.seed}: violates {violation.invariant}, {first_line}"
    )
    typer.echo(f"    replay it: {found.failure.replay_command()}")
