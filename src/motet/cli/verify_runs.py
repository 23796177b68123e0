"""``motet verify history``, ``trace`` and ``sweep``: what a system did, judged; and many checks at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from motet.cli.output import OUTPUT_OPTION, Output, print_rows, write_file
from motet.errors import BadInput

if TYPE_CHECKING:
    from motet.verify.trace import Checked, Header
    from motet.verify.trace.merge import Placed


FileArgument = Annotated[
    Path | None, typer.Argument(help="A history, one event as JSON on each line.")
]


def history(
    file: FileArgument = None,
    name: Annotated[
        str | None, typer.Option("--checker", help="The checker; else the file's first line says.")
    ] = None,
    initial: Annotated[
        str | None, typer.Option(help="What was there at first, as JSON; else as the file says.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of a search at most: else unknown.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page with the verdict, its witness drawn, here.")
    ] = None,
    svg: Annotated[Path | None, typer.Option(help="Write the drawing of a witness here.")] = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Judge a history of concurrent operations; without a file, list the checkers.

    Exits with 0 if an order explains every answer, else with 1.

    Example: motet verify history run.ndjson --checker queue --html run.html
    """
    import msgspec

    from motet.verify.history import drawing
    from motet.verify.history.checkers import CHECKERS, checker_named, read_history
    from motet.verify.history.record import budget_steps_default

    if file is None:
        rows = [
            {"checker": key, "functions": item.functions, "decides": item.decides}
            for key, item in CHECKERS.items()
        ]
        print_rows(rows, output)
        return
    header, events = read_history(_bytes_of(file))
    chosen = name or header.checker
    if chosen is None:
        raise BadInput("nobody says what this is a history of", hint="add --checker NAME")
    first = header.initial if initial is None else _decoded(initial)
    verdict = checker_named(chosen).check(events, first, steps or budget_steps_default)
    witness = verdict.witness
    if html is not None:
        write_file(html, drawing.html_page(chosen, events, verdict).encode())
    if svg is not None and witness is not None:
        beside = drawing.neighbours(events, witness.operations)
        write_file(svg, drawing.svg(witness.operations, beside).encode())
    if output is Output.JSON:
        document = msgspec.to_builtins(verdict)
        if witness is not None:
            shown = [operation._asdict() for operation in witness.operations]
            document["witness"] |= {"operations": shown}
        typer.echo(msgspec.json.encode({"checker": chosen} | document).decode())
    else:
        typer.echo(str(verdict))
    raise typer.Exit(0 if verdict else 1)


def _bytes_of(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}", hint="name a file") from None


def _decoded(text: str) -> Any:
    import msgspec

    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError as error:
        raise BadInput(f"--initial is no JSON: {error}", hint="as in '{\"a\": 100}'") from None


SetOption = Annotated[
    list[str] | None, typer.Option("--set", help="A parameter, as in --set replicas=3.")
]


def settings_of(pairs: list[str] | None) -> dict[str, object]:
    """What ``--set`` was given."""
    settings: dict[str, object] = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals:
            raise BadInput(f"--set {pair} sets nothing", hint="write --set replicas=3")
        settings[key.strip()] = value.strip()
    return settings


def trace(
    files: Annotated[
        list[Path], typer.Argument(help="A trace, one JSON object per line, or one for each node.")
    ],
    name: Annotated[
        str | None, typer.Option("--model", help="The model; else the trace says.")
    ] = None,
    settings: SetOption = None,
    shard: Annotated[
        str | None, typer.Option(help="Of traces that nodes have written, the shard to look at.")
    ] = None,
    silent: Annotated[
        list[str] | None,
        typer.Option("--silent", help="An action the system does not log; may be repeated."),
    ] = None,
    silent_steps: Annotated[
        int, typer.Option(min=0, max=8, help="So many of those may come before each line.")
    ] = 1,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Compare what a system logged with a model: names the first line that no behaviour explains.

    Exits with 0 if every line is explained, else with 1.

    Example: motet verify trace protocol.ndjson --model vsr-view-change
    """
    import msgspec

    from motet.verify.models import model_named
    from motet.verify.trace.merge import check_merged

    header, traces = _read(files, name, shard)
    chosen = name or header.model
    if chosen is None:
        raise BadInput("nobody says which model this is a trace of", hint="add --model NAME")
    model = model_named(chosen, header.settings | settings_of(settings))
    checked = check_merged(model, traces, silent=silent or (), silent_steps=silent_steps)
    if output is Output.JSON:
        typer.echo(msgspec.json.encode({"model": chosen} | msgspec.to_builtins(checked)).decode())
    else:
        _print_checked(checked, chosen)
    raise typer.Exit(0 if checked.verdict == "explained" else 1)


def _read(
    files: list[Path], model: str | None, shard: str | None
) -> tuple[Header, list[list[Placed]]]:
    """What was logged: one trace, or one of each node."""
    from motet.verify.trace import read_trace
    from motet.verify.trace.merge import Placed
    from motet.verify.trace.nodes import is_of_a_node, read_of_nodes

    try:
        with files[0].open("rb") as first:
            lines = list(first)
        if len(files) > 1 or (lines and is_of_a_node(lines[0])):
            return read_of_nodes(files, model, shard)
    except OSError as error:
        named = error.filename or files[0]
        raise BadInput(f"{named} cannot be read: {error.strerror}", hint="name a file") from None
    header, steps = read_trace(lines)
    return header, [[Placed(step) for step in steps]]


def _print_checked(checked: Checked, model: str) -> None:
    if checked.verdict == "explained":
        typer.echo(
            f"explained: all {checked.lines:,} lines are steps of {model} "
            f"(at most {checked.candidates:,} states possible at once)"
        )
        return
    for reason in checked.why:
        typer.echo(f"    {reason}")
    said = "no behaviour explains it" if checked.verdict == "unexplained" else "it is not known"
    where = f" of {checked.file}" if checked.file else ""
    typer.echo(f"{checked.verdict}: line {checked.line}{where}: {said}")


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
        write_file(html, sweeping.html_sweep(result).encode())
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
