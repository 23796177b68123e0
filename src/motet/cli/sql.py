"""``motet sql``: a question to the tables, all of them at one clock."""

from __future__ import annotations

from typing import Annotated, cast

import typer

from motet.cli import command_app
from motet.cli.database import DataOption, EndpointOption, open_database
from motet.cli.output import OUTPUT_OPTION, Output, print_rows
from motet.cli.time_text import parse_duration

app = command_app()


@app.command()
def sql(
    query: Annotated[str, typer.Argument(help="One statement, in DuckDB's SQL.")],
    consistency: Annotated[str, typer.Option(help="sequential or eventual.")] = "sequential",
    at: Annotated[str | None, typer.Option(help="At this clock, as (logical,counter).")] = None,
    timeout: Annotated[
        str | None, typer.Option(help="Stop it after 90s, 30m or 2h; after 1h if left out.")
    ] = None,
    memory_bytes: Annotated[
        int | None, typer.Option(help="Memory it may use; half of the machine's if left out.")
    ] = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Ask the tables in SQL, and the system's own.

    These are system.tables, parts, streams, writers, shards, nodes, clock, changes,
    transaction_commit_clock and incomplete_transactions; cluster_clock() and visible_clock() are functions.

    Example: motet sql "select sku, sum(qty) from sales group by sku" --data data/
    """
    from motet.client.tables import Consistency
    from motet.core.clock.hlc import Clock

    clock = None if at is None else Clock.parse(at)
    seconds = None if timeout is None else parse_duration(timeout).total_seconds()
    with open_database(data, endpoint) as db:
        found = db.sql(
            query,
            consistency=cast("Consistency", consistency),
            at=clock,
            timeout=seconds,
            memory_bytes=memory_bytes,
        )
        rows = [{name: _shown(value) for name, value in row.items()} for row in found.to_pylist()]
        print_rows(rows, output)


def _shown(value: object) -> object:
    """A value as the other commands print it: keys as text, clocks in brackets."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, dict):
        if value.keys() == {"logical", "counter"}:
            return f"({value['logical']},{value['counter']})"
        return {name: _shown(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_shown(each) for each in value]
    return value
