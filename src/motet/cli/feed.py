"""``motet feed``: the changes of streams in the order in which they were caused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from motet.cli import command_app
from motet.cli.database import DataOption, EndpointOption, open_database
from motet.cli.output import OUTPUT_OPTION, Output, print_json, print_rows

if TYPE_CHECKING:
    from motet.client.change import Change

app = command_app()

TABLE_COLUMNS = ("clock", "transaction", "stream", "key", "op", "row", "before")
"""What a table shows of a change, to fit a terminal; JSON has all of it."""

StreamsArgument = Annotated[list[str], typer.Argument(help="Names of the streams.")]
AfterOption = Annotated[str | None, typer.Option(help="Cursor to go on from.")]


@app.callback()
def feed() -> None:
    """Read or follow the change feed."""


@app.command()
def read(
    streams: StreamsArgument,
    after: AfterOption = None,
    limit: Annotated[int, typer.Option(help="At most so many changes.")] = 100,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Read one page: whole transactions, and the cursor for the next page.

    Example: motet feed read orders stock --limit 20 --data data/
    """
    with open_database(data, endpoint) as db:
        page = db.changes(*streams, after=after, limit=limit)
        rows = [_row(change) for change in page.changes]
        if output is Output.JSON:
            print_json({"changes": rows, "cursor": page.cursor, "more": page.more})
            return
        print_rows([{name: row[name] for name in TABLE_COLUMNS} for row in rows], output)
        typer.echo(f"cursor {page.cursor}", err=True)


@app.command()
def tail(
    streams: StreamsArgument,
    after: AfterOption = None,
    count: Annotated[int | None, typer.Option(help="End after so many changes.")] = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
) -> None:
    """Follow the feed, one JSON line per change, until ^C.

    Example: motet feed tail orders stock --endpoint 127.0.0.1:7400
    """
    import msgspec

    with open_database(data, endpoint) as db:
        for change in db.tail(*streams, after=after, stop_after=count):
            typer.echo(msgspec.json.encode(_row(change)).decode())


def _row(change: Change) -> dict[str, object]:
    return {
        "clock": str(change.clock),
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


def _readable(row: object) -> object:
    return row.decode(errors="backslashreplace") if isinstance(row, bytes) else row
