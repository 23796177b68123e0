"""``motet simulate``: put a part of the system into a seeded storm of faults."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from motet.cli import command_app
from motet.cli.output import OUTPUT_OPTION, Output, print_json, write_file
from motet.errors import BadInput
from motet.verify.plants import plants_of
from motet.verify.storms import PARTS

app = command_app()

PLANTED = "\n\n".join(
    [
        "Bugs that can be planted, by part; docs/reference/mutants.md says which rule each breaks:",
        *(f"{part}: {', '.join(plants_of(part))}" for part in PARTS),
    ]
)

HistoryOption = Annotated[
    Path | None, typer.Option(help="Write down what clients saw, for `motet verify history`.")
]


@app.command(epilog=PLANTED)
def simulate(
    part: str = typer.Argument("database", help=f"What to simulate: {', '.join(PARTS)}."),
    seed: int | None = typer.Option(None, help="Run this one seed and show what happened."),
    seeds: str | None = typer.Option(None, help="Run a range such as 1-500, up to a violation."),
    profile: str = typer.Option("swarm", help="Which faults: see docs/internals/simulation.md."),
    plant: str | None = typer.Option(
        None, help="Run with this bug planted, to see it found; see below."
    ),
    trace: bool = typer.Option(False, "--trace", help="Print every line of the trace."),
    history: HistoryOption = None,
    jobs: int = typer.Option(0, min=0, help="Processes for a range; 0 means one per core."),
    output: Output = OUTPUT_OPTION,
) -> None:
    """Simulate a part under faults; the same seed does the same thing, every time.

    Exits with 1 on the first violation, or if a range missed a coverage mark.

    Example: motet simulate database --seeds 1-200
    """
    if seeds is not None and (seed is not None or trace or history is not None):
        raise BadInput(
            "--seeds cannot go together with --seed, --trace or --history",
            hint="use --seed N --trace for one seed, --seeds A-B for a range",
        )
    if seeds is not None:
        first, last = _range(seeds)
        failed = _run_range(part, first, last, profile, plant, jobs or os.cpu_count() or 1, output)
    else:
        one = 1 if seed is None else seed
        failed = _run_one(part, one, profile, plant, trace, history, output)
    raise typer.Exit(1 if failed else 0)


def _range(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    if not (dash and first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
        raise BadInput(f"{text!r} is not a range of seeds", hint="write it as 1-500")
    return int(first), int(last)


def _run_one(
    name: str,
    seed: int,
    profile: str,
    plant: str | None,
    show: bool,
    history: Path | None,
    output: Output,
) -> bool:
    from motet.sim.storm import simulate as run
    from motet.sim.trace import Trace
    from motet.verify.storms import storm_named
    from motet.verify.storms.histories import Recorded

    trace = Trace(lines_max=None if show else 1)
    part = storm_named(name)
    recorded = None if history is None else Recorded(part)
    outcome = run(recorded or part, seed, profile=profile, plant=plant, trace=trace)
    files = [] if recorded is None or history is None else _write(recorded.files(), history)
    if output is Output.JSON:
        from msgspec import to_builtins

        document = to_builtins(outcome) | {"replay": outcome.replay_command()}
        if history is not None:
            document["histories"] = [str(file) for file in files]
        if not show:
            del document["tail"]
        print_json(document)
        return outcome.verdict != "ok"
    if show:
        typer.echo("\n".join(outcome.tail))
    typer.echo(
        f"{name} seed {seed} profile {profile}: {outcome.verdict} after {outcome.events} events, "
        f"{outcome.virtual_ms} virtual ms; trace {outcome.trace_lines} lines, "
        f"digest {outcome.trace_digest}"
    )
    seen = " ".join(f"{mark}={times}" for mark, times in outcome.marks.items())
    typer.echo(f"marks: {seen or 'none'}")
    for violation in outcome.violations:
        typer.echo(f"violates {violation.invariant}: {violation.what}")
    for file in files:
        typer.echo(f"judge what clients saw: motet verify history {file}")
    if history is not None and not files:
        typer.echo("no history: in this seed none of the checkers fits what clients saw")
    if outcome.verdict != "ok" and not show:
        typer.echo(f"replay: {outcome.replay_command()}")
    return outcome.verdict != "ok"


def _write(histories: dict[str, bytes], file: Path) -> list[Path]:
    """One history into this file; several beside it, each with its checker in its name."""
    written = []
    for checker, data in histories.items():
        name = file if len(histories) == 1 else file.with_stem(f"{file.stem}-{checker}")
        write_file(name, data)
        written.append(name)
    return written


def _run_range(
    name: str, first: int, last: int, profile: str, plant: str | None, jobs: int, output: Output
) -> bool:
    from motet.verify.seed_range import RangeOutcome, run_seeds

    began = time.monotonic()
    shown_at = began

    def show_progress(result: RangeOutcome) -> None:
        nonlocal shown_at
        if sys.stderr.isatty() and time.monotonic() - shown_at > 0.5:
            shown_at = time.monotonic()
            typer.echo(f"\r{result.seeds_run} of {last - first + 1} seeds", nl=False, err=True)

    result = run_seeds(
        name, first, last, profile=profile, plant=plant, jobs=jobs, progress=show_progress
    )
    if shown_at != began:
        typer.echo("\r", nl=False, err=True)
    seconds = time.monotonic() - began
    if output is Output.JSON:
        from msgspec import to_builtins

        replay = None if result.failure is None else result.failure.replay_command()
        print_json(to_builtins(result) | {"replay": replay, "seconds": round(seconds, 3)})
        return result.verdict != "ok"
    typer.echo(
        f"{name} seeds {first}-{last} profile {profile}: {result.verdict}; {result.seeds_run} run, "
        f"{result.events} events in {seconds:.1f} s"
    )
    seen = " ".join(f"{mark}={times}" for mark, times in sorted(result.marks.items()))
    typer.echo(f"marks: {seen or 'none'}")
    if result.missing_marks:
        missing = ", ".join(result.missing_marks)
        typer.echo(f"never seen: {missing}; run more seeds, or a profile with these faults")
    if result.failure is not None:
        for violation in result.failure.violations:
            typer.echo(
                f"seed {result.failure.seed} violates {violation.invariant}: {violation.what}"
            )
        typer.echo(f"replay: {result.failure.replay_command()}")
    return result.verdict != "ok"
