"""How commands print: a table for people, JSON for programs; and how changes and times are typed and shown.

``--output json`` prints one JSON document. A table is coloured on a terminal and plain text otherwise
or with ``NO_COLOR``; the library for it is imported only when a coloured table is really printed.
"""

from __future__ import annotations

import enum
import os
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import msgspec
import typer

from motet.errors import BadInput

if TYPE_CHECKING:
    from motet.client.change import Change
    from motet.client.rows import Row
    from motet.client.transaction import RowOp
    from motet.core.clock.hlc import Clock


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


class TypedChange(NamedTuple):
    """What ``txn.change`` takes."""

    stream: str
    key: bytes
    op: RowOp
    row: Row | None
    before: Row | None


class Further(msgspec.Struct, forbid_unknown_fields=True):
    """A change as one JSON object."""

    stream: str
    key: str
    op: str
    row: dict[str, object] | None = None
    before: dict[str, object] | None = None


def change_of(stream: str, key: str, op: str, row: str | None, before: str | None) -> TypedChange:
    """A change whose rows were typed as JSON; what it may be is for the transaction to say."""
    # The bytes that were typed, whatever the locale takes them for.
    name = os.fsencode(key)
    return TypedChange(stream, name, cast("RowOp", op), _row(row), _row(before))


def further_change(text: str) -> TypedChange:
    """A change as JSON."""
    try:
        found = msgspec.json.decode(text, type=Further)
    except msgspec.MsgspecError as error:
        raise BadInput(
            f"{text[:60]!r} is not a change: {error}",
            hint='{"stream": "stock", "key": "s-9", "op": "update", "row": {"left": 7}}',
        ) from None
    op = cast("RowOp", found.op)
    return TypedChange(found.stream, found.key.encode(), op, found.row, found.before)


def _row(text: str | None) -> Row | None:
    if text is None:
        return None
    try:
        row: Row = msgspec.json.decode(text, type=dict)
    except msgspec.MsgspecError as error:
        raise BadInput(
            f"{text[:60]!r} is not a row: {error}", hint="""a JSON object, like '{"left": 7}'"""
        ) from None
    return row


def shown(change: Change) -> dict[str, object]:
    """A change of the feed, for a table or as JSON."""
    return {
        "clock": clock_text(change.clock),
        "transaction": change.transaction,
        "index": change.index,
        "count": change.count,
        "stream": change.stream,
        "shard": change.shard,
        "key": change.key.decode(errors="backslashreplace"),
        "op": change.op,
        "row": _readable(change.row),
        "before": _readable(change.before),
        "at": change.at.isoformat(),
    }


def clock_text(clock: Clock | None) -> str | None:
    """A clock for people; None if the clock was off."""
    return None if clock is None else str(clock)


def _readable(row: object) -> object:
    return row.decode(errors="backslashreplace") if isinstance(row, bytes) else row


_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_DURATION = re.compile(r"(\d{1,9})(ms|s|m|h|d)")


def parse_duration(text: str) -> timedelta:
    """``90s``, ``30m``, ``1h``, ``7d``."""
    found = _DURATION.fullmatch(text.strip())
    if found is None or not int(found[1]):
        raise BadInput(
            f"{text[:60]!r} is not a length of time", hint="for instance 90s, 30m, 1h or 7d"
        )
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def parse_clock(text: str | None) -> Clock | None:
    """``(logical,counter)``."""
    from motet.core.clock.hlc import Clock

    return None if text is None else Clock.parse(text)


def parse_place(text: str | None) -> str | Clock | None:
    """A cursor, a clock, or ``oldest``."""
    return parse_clock(text) if text is not None and text.lstrip().startswith("(") else text
