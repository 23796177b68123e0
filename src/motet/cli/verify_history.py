"""``motet verify history``: what the clients of a system saw, judged by a checker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from motet.cli.output import OUTPUT_OPTION, Output, print_rows
from motet.errors import BadInput

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
    header, events = read_history(_read(file))
    chosen = name or header.checker
    if chosen is None:
        raise BadInput("nobody says what this is a history of", hint="add --checker NAME")
    first = header.initial if initial is None else _decoded(initial)
    verdict = checker_named(chosen).check(events, first, steps or budget_steps_default)
    witness = verdict.witness
    if html is not None:
        write_text(html, drawing.html_page(chosen, events, verdict))
    if svg is not None and witness is not None:
        beside = drawing.neighbours(events, witness.operations)
        write_text(svg, drawing.svg(witness.operations, beside))
    if output is Output.JSON:
        document = msgspec.to_builtins(verdict)
        if witness is not None:
            shown = [operation._asdict() for operation in witness.operations]
            document["witness"] |= {"operations": shown}
        typer.echo(msgspec.json.encode({"checker": chosen} | document).decode())
    else:
        typer.echo(str(verdict))
    raise typer.Exit(0 if verdict else 1)


def _read(file: Path) -> bytes:
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


def write_text(file: Path, text: str) -> None:
    """Write a file that somebody has named."""
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        why = error.strerror or str(error)
        raise BadInput(f"{file} cannot be written: {why}", hint="name another file") from None
