"""``motet verify trace``: what a system logged, compared with a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from motet.cli.output import OUTPUT_OPTION, Output
from motet.errors import BadInput

if TYPE_CHECKING:
    from motet.verify.trace import Checked, Header
    from motet.verify.trace.merge import Placed

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
