"""``motet feed``: the changes of streams in the order in which they were caused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from motet.cli import command_app
from motet.cli.changes import shown
from motet.cli.database import DataOption, EndpointOption, open_database
from motet.cli.feed_keeping import cursors, keep, prune
from motet.cli.mirror import mirror
from motet.cli.output import OUTPUT_OPTION, Output, print_json, print_rows
from motet.cli.time_text import parse_clock, parse_duration, parse_place

if TYPE_CHECKING:
    from motet.client.feed_status import FeedStatus, ShardStanding

app = command_app()

TABLE_COLUMNS = ("clock", "transaction", "stream", "key", "op", "row", "before")
"""What a table shows of a change, to fit a terminal; JSON has all of it."""

StreamsArgument = Annotated[list[str], typer.Argument(help="Names of the streams.")]
AfterOption = Annotated[
    str | None,
    typer.Option(
        help="Cursor to go on from, a clock as (logical,counter), or `oldest`: "
        "where all of the streams have their feed."
    ),
]
KeyOption = Annotated[str | None, typer.Option(help="Only the changes of this key.")]
LastOption = Annotated[
    str | None, typer.Option(help="Only of the last 90s, 30m, 1h or 7d, instead of --after.")
]


for command in (mirror, cursors, keep, prune):
    app.command()(command)


@app.callback()
def feed() -> None:
    """Read, follow and mirror the change feed, and see how it stands."""


@app.command()
def page(
    streams: StreamsArgument,
    after: AfterOption = None,
    up_to: Annotated[str | None, typer.Option("--up-to", help="Nothing above this clock.")] = None,
    key: KeyOption = None,
    last: LastOption = None,
    limit: Annotated[int, typer.Option(help="At most so many changes.")] = 100,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Read one page: whole transactions, and the cursor for the next page.

    Example: motet feed page orders stock --last 1h --limit 20 --data data/
    """
    place, end = parse_place(after), parse_clock(up_to)
    since = None if last is None else parse_duration(last)
    with open_database(data, endpoint) as db:
        found = db.changes(*streams, after=place, limit=limit, up_to=end, key=key, last=since)
        rows = [shown(change) for change in found.changes]
        if output is Output.JSON:
            visible = str(found.visible)
            print_json(
                {"changes": rows, "cursor": found.cursor, "more": found.more, "visible": visible}
            )
            return
        print_rows([{name: row[name] for name in TABLE_COLUMNS} for row in rows], output)
        typer.echo(f"cursor {found.cursor}", err=True)


@app.command()
def tail(
    streams: StreamsArgument,
    after: AfterOption = None,
    key: KeyOption = None,
    last: LastOption = None,
    count: Annotated[int | None, typer.Option(min=0, help="End after so many changes.")] = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
) -> None:
    """Follow the feed, one JSON line per change, until ^C.

    Example: motet feed tail orders stock --endpoint 127.0.0.1:7400
    """
    import msgspec

    place = parse_place(after)
    since = None if last is None else parse_duration(last)
    with open_database(data, endpoint) as db:
        for change in db.tail(*streams, after=place, stop_after=count, key=key, last=since):
            typer.echo(msgspec.json.encode(shown(change)).decode())


@app.command()
def status(
    streams: Annotated[
        list[str] | None, typer.Argument(help="Names of the streams; all if left out.")
    ] = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Show the visible clock, how far each shard is closed, and what holds it back.

    Example: motet feed status --endpoint 127.0.0.1:7400
    """
    with open_database(data, endpoint) as db:
        found = db.feed_status(*(streams or []))
    rows = [_standing(found, each) for each in found.shards]
    if output is Output.JSON:
        visible = None if found.visible is None else str(found.visible)
        behind_ms = found.behind_ms(found.visible)
        print_json(
            {
                "visible": visible,
                "clock": str(found.clock),
                "behind_ms": behind_ms,
                "enabled": found.clock_enabled,
                "held_back_by": None if found.last is None else _standing(found, found.last),
                "shards": rows,
            }
        )
        return
    print_rows(rows, output)
    typer.echo(_said(found))
    if not found.clock_enabled:
        typer.echo("warning: clock.enabled is off, what is committed has no clock", err=True)


def _standing(found: FeedStatus, each: ShardStanding) -> dict[str, object]:
    return {
        "stream": each.stream,
        "shard": each.shard,
        "leader": each.leader,
        "closed": None if each.closed is None else str(each.closed),
        "behind_ms": found.behind_ms(each.closed),
        "transaction": each.transaction,
        "home": each.home,
        "error": each.error or None,
    }


def _said(found: FeedStatus) -> str:
    """The visible clock, and who holds it back, in a sentence."""
    last = found.last
    if last is None:
        return f"visible {found.visible or found.clock}: there are no streams"
    behind_ms = found.behind_ms(found.visible)
    text = f"visible {found.visible or 'unknown'}"
    if behind_ms:
        text += f", {behind_ms} ms behind {found.clock}"
    text += f"; the last is {last.stream}/{last.shard}"
    if last.error:
        text += f", which cannot be asked: {last.error}"
    elif last.transaction is not None:
        text += f", held back by transaction {last.transaction}, which {last.home} decides"
    return text
