"""``motet verify sweep``: many checks at once, on Spark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from motet.cli.output import OUTPUT_OPTION, Output
from motet.cli.verify_history import write_text

Several = list[str] | None
SeedsOption = Annotated[
    Several, typer.Option("--seeds", help="A part and seeds of it, as in streams=1-100.")
]
MutantsOption = Annotated[
    Several, typer.Option("--mutants", help="The variants of a model, or of all.")
]
GridOption = Annotated[
    Several, typer.Option("--grid", help="A model at sizes, as in 'quorum records=1-3 reads=1,2'.")
]


def sweep(
    seeds: SeedsOption = None,
    mutants: MutantsOption = None,
    grid: GridOption = None,
    histories: Annotated[
        Several, typer.Option("--histories", help="Files of histories, as in 'runs/*.ndjson'.")
    ] = None,
    checker: Annotated[
        str, typer.Option(help="The checker of the histories; else each says it itself.")
    ] = "",
    seconds: Annotated[
        float,
        typer.Option(min=0, help="So long at most for an exploration; 0: as long as it takes."),
    ] = 0.0,
    master: Annotated[
        str | None, typer.Option(help="Where it runs, as in local[4]; all cores of this machine.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report here as a page.")] = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Run seeds, mutants, sizes of models and checks of histories as jobs of Spark, with one report.

    Exits with 0 if all is as it should be, else with 1. Each option may be repeated.

    Example: motet verify sweep --seeds streams=1-50 --mutants all --html sweep.html
    """
    import msgspec

    from motet.pipeline.session import local_session
    from motet.pipeline.sweep import run_sweep
    from motet.verify import sweep as sweeping

    jobs = [
        *(job for text in seeds or () for job in sweeping.plan_seeds(text)),
        *(job for name in mutants or () for job in sweeping.plan_mutants(name, seconds)),
        *(job for text in grid or () for job in sweeping.plan_grid(text, seconds)),
        *(job for text in histories or () for job in sweeping.plan_histories(text, checker)),
    ]
    is_shown = sys.stderr.isatty()
    result = run_sweep(
        local_session("motet verify sweep", master=master),
        jobs,
        progress=_show if is_shown else None,
    )
    if is_shown:
        typer.echo("\r\033[K", nl=False, err=True)
    if html is not None:
        write_text(html, sweeping.html_sweep(result))
    if output is Output.JSON:
        document = msgspec.to_builtins(result) | {"verdicts": result.verdicts}
        typer.echo(msgspec.json.encode(document).decode())
    else:
        for each in result.done:
            if not each.is_good:
                typer.echo(f"{each.verdict}: {each.job.title}: {each.detail}")
                typer.echo(f"    {each.job.command}")
        typer.echo(str(result))
    raise typer.Exit(0 if result.is_good else 1)


def _show(done: int, jobs: int) -> None:
    typer.echo(f"\r{done} of {jobs} done\033[K", nl=False, err=True)
