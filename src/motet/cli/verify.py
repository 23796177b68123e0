"""``motet verify``: the models of the protocols, explored state by state."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from motet.cli import command_app
from motet.cli.output import OUTPUT_OPTION, Output, print_rows, write_file
from motet.cli.verify_runs import SetOption, history, settings_of, sweep, trace

if TYPE_CHECKING:
    from motet.verify.explore import Exploration, Progress
    from motet.verify.model import Model

app = command_app()

NameArgument = Annotated[str, typer.Argument(help="A model; `motet verify list` names them.")]
HtmlOption = Annotated[
    Path | None, typer.Option(help="Write a page with the result and its trace here.")
]
VariantOption = Annotated[
    str | None, typer.Option(help="A variant of the model, with one thing changed.")
]
PropertyOption = Annotated[
    list[str] | None, typer.Option("--property", help="Check only this property; may be repeated.")
]
EngineOption = Annotated[
    str, typer.Option(help="auto, readable, or vectorised (where there are kernels).")
]
WorkersOption = Annotated[
    int, typer.Option(min=1, help="Processes that take the steps, of the readable engine.")
]


@app.callback()
def verify() -> None:
    """Explore the models of Motet's protocols: every state, or the shortest way to a wrong one."""


@app.command("list")
def list_models(output: Output = OUTPUT_OPTION) -> None:
    """List the models with their parameters, properties and variants.

    Example: motet verify list
    """
    from motet.verify.models import MODELS, model_class

    rows = []
    for name in MODELS:
        model = model_class(name)
        rows.append(
            {
                "model": name,
                "parameters": {key: item.default for key, item in model.parameters().items()},
                "properties": [item.title for item in model.properties()],
                "variants": list(model.variants()),
                "what": model.headline(),
            }
        )
    if output is Output.JSON:
        print_rows(rows, output)
        return
    for row in rows:
        typer.echo(f"{row['model']}: {row['what']}")
        for key in ("parameters", "properties", "variants"):
            print_line = _joined(row[key])
            if print_line:
                typer.echo(f"    {key}: {print_line}")


def _joined(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={item}" for key, item in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)


@app.command()
def run(
    name: NameArgument,
    settings: SetOption = None,
    variant: VariantOption = None,
    properties: PropertyOption = None,
    symmetry: Annotated[
        bool, typer.Option("--symmetry", help="Take states that differ by names for one.")
    ] = False,
    liveness: Annotated[
        bool, typer.Option(help="Check temporal properties on the graph of all states.")
    ] = True,
    engine: EngineOption = "auto",
    workers: WorkersOption = 1,
    states: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many states: verdict unknown.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="Stop after so many seconds: verdict unknown.")
    ] = None,
    html: HtmlOption = None,
    json: Annotated[
        bool, typer.Option("--json", help="End with one line of JSON, the result.")
    ] = False,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Explore a model: every state of a small cluster, or the shortest way to a wrong one.

    Exits with 0 if everything was looked at and all properties hold, else with 1.

    Example: motet verify run quorum --set records=2 --set reads=2 --json
    """
    from motet.verify.explore import Budget, explore
    from motet.verify.models import model_named

    model = model_named(name, settings_of(settings), variant=variant)
    chosen = {} if states is None else {"states": states}
    budget = Budget(seconds=seconds, **chosen)
    progress = _progress() if sys.stderr.isatty() else None
    result = explore(
        model,
        engine=engine,
        properties=properties,
        symmetry=symmetry,
        liveness=liveness,
        budget=budget,
        progress=progress,
        workers=workers,
    )
    if html is not None:
        _write_html(html, result, model, variant)
    if json or output is not Output.JSON:
        _print_result(result, model, variant)
    if json or output is Output.JSON:
        _print_json(result, model, variant)
    raise typer.Exit(0 if result.verdict == "ok" else 1)


def _write_html(file: Path, result: Exploration, model: Model[Any], variant: str | None) -> None:
    from motet.verify.report import html_report

    page = html_report(result, headline=model.headline(), variant=variant, script=model.script)
    write_file(file, page.encode())


def _print_json(result: Exploration, model: Model[Any], variant: str | None) -> None:
    import msgspec

    document = msgspec.to_builtins(result) | {"variant": variant}
    if model.script:
        document["begins_after"] = list(model.script)
    typer.echo(msgspec.json.encode(document).decode())


@app.command()
def mutants(
    name: Annotated[str | None, typer.Argument(help="A model; without one, all of them.")] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0, help="So long at most for each: else unknown.")
    ] = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Explore every variant: is each model with one thing wrong caught by the property it names?

    Exits with 0 if all are caught, or equivalent where that is known, else with 1.

    Example: motet verify mutants zero-copy
    """
    import msgspec

    from motet.verify.mutants import run_mutants

    found = []
    for mutant in run_mutants(name, seconds=seconds):
        found.append(mutant)
        if output is not Output.JSON:
            where = f" {mutant.property}, {mutant.trace_states} states" if mutant.property else ""
            typer.echo(f"{mutant.fate:10} {mutant.model} {mutant.variant}:{where}: {mutant.what}")
    fates = [mutant.fate for mutant in found]
    if output is Output.JSON:
        print_rows([msgspec.to_builtins(mutant) for mutant in found], output)
    else:
        counts = ", ".join(f"{fates.count(fate)} {fate}" for fate in dict.fromkeys(fates))
        typer.echo(f"{len(found)} mutants: {counts or 'it has none'}")
    raise typer.Exit(0 if all(fate in ("caught", "equivalent") for fate in fates) else 1)


app.command()(history)
app.command()(sweep)
app.command()(trace)


def _progress() -> Any:
    def show(progress: Progress) -> None:
        typer.echo(f"\r{progress}\033[K", nl=False, err=True)

    return show


def _print_result(result: Exploration, model: Model[Any], variant: str | None) -> None:
    if sys.stderr.isatty():
        typer.echo("\r\033[K", nl=False, err=True)
    size = " ".join(f"{key}={value}" for key, value in result.settings.items())
    named = result.model if variant is None else f"{result.model} ({variant})"
    typer.echo(f"{named} {size}: {model.headline()}")
    if model.script:
        typer.echo(f"it begins after {len(model.script)} steps: {', '.join(model.script)}")
    for number, step in enumerate(result.trace, start=1):
        back = "  <- and from the end back to here, for ever" if _loops(result, number) else ""
        typer.echo(f"{number:4}  {step.action}{back}")
        for line in step.changed:
            typer.echo(f"          {line}")
    rate = int(result.distinct / result.cpu_seconds) if result.cpu_seconds > 0.01 else 0
    typer.echo(
        f"{result.distinct:,} states, depth {result.depth}, {result.generated:,} generated, "
        f"{result.seconds:.1f} s ({rate:,} states/s, {result.engine})"
    )
    never = [action for action, times in result.coverage.items() if not times]
    if never and result.verdict == "ok":
        typer.echo(f"never taken at this size: {', '.join(never)}")
    if result.verdict == "ok":
        typer.echo(f"ok: {', '.join(result.properties)}")
    elif result.verdict == "violated":
        typer.echo(f"violated: {result.property}, in {len(result.trace)} states")
    else:
        typer.echo(f"unknown: {result.reason}; nothing wrong so far")


def _loops(result: Exploration, number: int) -> bool:
    return result.loops_to is not None and number == result.loops_to + 1
