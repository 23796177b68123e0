"""``motet inspect``: what is in a file that Motet wrote, without a running node."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from motet.cli import command_app
from motet.cli.output import OUTPUT_OPTION, Output, cell, print_json, print_rows
from motet.errors import BadInput, BadRecord
from motet.limits import MIB

app = command_app()

inspected_bytes_max = 256 * MIB
"""A file is read whole; a larger one is shown up to here, and the answer says so."""


@app.command()
def inspect(
    file: Annotated[
        Path,
        typer.Argument(
            help="A journal, a clock bound, a part's file, a replica's file, or frames of a connection."
        ),
    ],
    output: Output = OUTPUT_OPTION,
) -> None:
    """Describe a journal, a clock bound, a part, a replica's file or frames; damage is shown, never hidden.

    The files of a replica of the consensus are its superblock, wal, replies and grid.

    Example: motet inspect data/streams/database-log-1
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(inspected_bytes_max + 1)
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}") from None
    is_whole = len(data) <= inspected_bytes_max
    if is_whole and _is_of_replica(file, data, output):
        return
    lines = _describe(data[:inspected_bytes_max], file.name if is_whole else "")
    if not is_whole:
        lines.append(f"… only the first {inspected_bytes_max} bytes were read")
    if output is Output.JSON:
        print_json({"file": str(file), "lines": lines})
    else:
        typer.echo("\n".join(lines))


def _is_of_replica(file: Path, data: bytes, output: Output) -> bool:
    """Show a file of a replica; False if it is none."""
    from motet.node.replica_report import report_file

    report = report_file(file, data)
    if report is None:
        return False
    if output is Output.JSON:
        print_json({"file": str(file), "kind": report.kind, **report.summary, "rows": report.rows})
        return True
    typer.echo(f"{report.kind} of a replica, {len(data)} bytes")
    for name, value in report.summary.items():
        typer.echo(f"  {name.replace('_', ' '):<16} {cell(value)}")
    if report.rows:
        typer.echo()
        print_rows(report.rows, output)
    return True


def _describe(data: bytes, name: str) -> list[str]:
    from motet.core.clock.reservation import MAGIC, decode_bound
    from motet.format.inspect import describe

    if not data.startswith(MAGIC):
        return describe(data, name=name)
    try:
        return [f"durable bound of a clock: {decode_bound(data)}"]
    except BadRecord as error:
        return [f"damaged durable bound of a clock: {error.what}"]
