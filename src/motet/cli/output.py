"""How commands print: a table for people, JSON for programs, never both.

``--output json`` prints one JSON document. A table is coloured on a terminal and plain text otherwise
or with ``NO_COLOR``; the library for it is imported only when a coloured table is really printed.
"""

from __future__ import annotations

import enum
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import typer

from motet.errors import BadInput


class Output(enum.StrEnum):
    """The choices of ``--output``."""

    TABLE = "table"
    JSON = "json"


OUTPUT_OPTION = typer.Option(Output.TABLE, "--output", "-o", help="Print a table or JSON.")
"""Every command's ``output: Output = OUTPUT_OPTION``."""


def print_json(document: object) -> None:
    """One document, readable by people as well."""
    typer.echo(msgspec.json.format(msgspec.json.encode(document, enc_hook=str)).decode())


def print_rows(rows: Sequence[Mapping[str, object]], output: Output) -> None:
    """Rows that all have the same columns, in order."""
    if output is Output.JSON:
        print_json(rows)
    elif rows and sys.stdout.isatty() and not os.environ.get("NO_COLOR"):
        _print_coloured(rows)
    elif rows:
        typer.echo(plain_table(rows))
    else:
        typer.echo("nothing to show", err=True)


def plain_table(rows: Sequence[Mapping[str, object]]) -> str:
    """Columns two spaces apart, without anything a script would have to cut away."""
    lines = [[*rows[0]], *([cell(value) for value in row.values()] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = (
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True))
        for line in lines
    )
    return "\n".join(line.rstrip() for line in padded)


def cell(value: object) -> str:
    """A value as a person would write it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ",".join(f"{key}={cell(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ",".join(cell(item) for item in value)
    return str(value)


def _print_coloured(rows: Sequence[Mapping[str, object]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in rows[0]:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(value)) for value in row.values()))
    Console().print(table)


def write_file(file: Path, data: bytes) -> None:
    """Write a file that the user has named."""
    try:
        file.write_bytes(data)
    except OSError as error:
        why = error.strerror or str(error)
        raise BadInput(f"{file} cannot be written: {why}", hint="name another file") from None
