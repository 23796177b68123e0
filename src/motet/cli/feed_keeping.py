"""``motet feed cursors``, ``keep`` and ``prune``: what is kept of the feed, and for whom."""

from __future__ import annotations

from typing import Annotated

import typer

from motet.cli.database import DataOption, EndpointOption, open_database
from motet.cli.output import OUTPUT_OPTION, Output, print_rows
from motet.cli.time_text import parse_clock, parse_duration
from motet.errors import BadInput


def cursors(
    data: DataOption = None, endpoint: EndpointOption = None, output: Output = OUTPUT_OPTION
) -> None:
    """List the named cursors: what is behind them is kept.

    Example: motet feed cursors --endpoint 127.0.0.1:7400
    """
    with open_database(data, endpoint) as db:
        rows = [
            {
                "cursor": each.name,
                "streams": list(each.streams),
                "clock": str(each.clock),
                "expired": each.is_expired,
            }
            for each in db.cursors()
        ]
    print_rows(rows, output)


def keep(
    name: Annotated[str, typer.Argument(help="Name of the cursor.")],
    cursor: Annotated[
        str | None, typer.Argument(help="How far it has read, as a page says; none to drop it.")
    ] = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Keep what is behind a cursor under a name, or without a cursor keep it no longer.

    Example: motet feed keep warehouse CURSOR --endpoint 127.0.0.1:7400
    """
    with open_database(data, endpoint) as db:
        if cursor is None:
            db.drop_cursor(name)
        else:
            db.save_cursor(name, cursor)
    print_rows([{"cursor": name, "kept": cursor is not None}], output)


def prune(
    streams: Annotated[list[str], typer.Argument(help="Names of the streams.")],
    older_than: Annotated[
        str | None, typer.Option("--older-than", help="What is older than 12h or 7d, by its clock.")
    ] = None,
    up_to: Annotated[
        str | None, typer.Option("--up-to", help="Or all up to this clock, as (logical,counter).")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also what a named cursor has not read.")
    ] = False,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Forget the feed of some streams up to a clock, but nothing that a named cursor has not read.

    Example: motet feed prune orders stock --older-than 7d --endpoint 127.0.0.1:7400
    """
    age = None if older_than is None else parse_duration(older_than)
    clock = parse_clock(up_to)
    if (age is None) == (clock is None):
        raise BadInput("say either --older-than or --up-to", hint="for instance --older-than 7d")
    with open_database(data, endpoint) as db:
        low_watermark = db.prune(*streams, older_than=age, up_to=clock, force=force)
    print_rows([{"streams": streams, "low watermark": str(low_watermark)}], output)
