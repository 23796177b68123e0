"""``motet config``: which settings are in force, and why."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from motet.cli import command_app
from motet.cli.output import OUTPUT_OPTION, Output, print_json, print_rows

app = command_app()


@app.callback()
def group() -> None:
    """Show the settings and where they come from."""


@app.command()
def show(
    config: Annotated[
        Path | None,
        typer.Option(help="The file to read; the default is ./motet.toml if there is one."),
    ] = None,
    origin: Annotated[bool, typer.Option("--origin", help="Say where each value is from.")] = False,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Print every setting with the value a node started here would use.

    Example: MOTET_NODE__PORT=7500 motet config show --origin
    """
    from motet.node.settings import load

    settings = load(config, os.environ)
    if output is Output.JSON:
        print_json(
            {row.key: {"value": row.value, "origin": row.origin} for row in settings.rows()}
            if origin
            else {row.key: row.value for row in settings.rows()}
        )
        return
    print_rows(
        [
            {"setting": row.key, "value": row.value}
            | ({"origin": row.origin} if origin else {"meaning": row.description})
            for row in settings.rows()
        ],
        output,
    )
