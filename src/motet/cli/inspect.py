"""``motet inspect``: what is in a file that Motet wrote, without a running node."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from motet.cli import command_app
from motet.cli.output import OUTPUT_OPTION, Output, print_json
from motet.errors import BadInput
from motet.limits import MIB

app = command_app()

inspected_bytes_max = 256 * MIB
"""A file is read whole; a larger one is shown up to here, and the answer says so."""


@app.command()
def inspect(
    file: Annotated[Path, typer.Argument(help="A journal, or bytes captured from a connection.")],
    output: Output = OUTPUT_OPTION,
) -> None:
    """Describe a journal or a stream of frames, record by record; damage is shown, never hidden.

    Example: motet inspect data/n0/journal
    """
    from motet.format.inspect import describe

    try:
        with file.open("rb") as opened:
            data = opened.read(inspected_bytes_max + 1)
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}") from None
    lines = describe(data[:inspected_bytes_max])
    if len(data) > inspected_bytes_max:
        lines.append(f"… only the first {inspected_bytes_max} bytes were read")
    if output is Output.JSON:
        print_json({"file": str(file), "lines": lines})
    else:
        typer.echo("\n".join(lines))
