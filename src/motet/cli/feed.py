"""``motet feed`` and ``motet transaction``: changes in the order in which they were caused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from motet.cli import command_app
from motet.cli.database import DataOption, EndpointOption, open_database, open_place
from motet.cli.output import (
    OUTPUT_OPTION,
    Output,
    parse_clock,
    parse_duration,
    parse_place,
    print_json,
    print_rows,
    shown,
)
from motet.errors import BadInput

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


@app.command()
def cursors(
    data: DataOption = None, endpoint: EndpointOption = None, output: Output = OUTPUT_OPTION
) -> None:
    """List the named cursors: what follows them is kept.

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


@app.command()
def keep(
    name: Annotated[str, typer.Argument(help="Name of the cursor.")],
    cursor: Annotated[
        str | None, typer.Argument(help="How far it has read, as a page says; none to drop it.")
    ] = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Keep what follows a cursor under a name, or without a cursor keep it no longer.

    Example: motet feed keep warehouse CURSOR --endpoint 127.0.0.1:7400
    """
    with open_database(data, endpoint) as db:
        if cursor is None:
            db.drop_cursor(name)
        else:
            db.save_cursor(name, cursor)
    print_rows([{"cursor": name, "kept": cursor is not None}], output)


@app.command()
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
    print_rows([{"streams": streams, "low_watermark": str(low_watermark)}], output)


@app.command()
def mirror(
    source: Annotated[
        str, typer.Argument(metavar="FROM", help="The source: a folder, or host:port of a node.")
    ],
    target: Annotated[
        str, typer.Argument(metavar="TO", help="The target: a folder, or host:port of a node.")
    ],
    streams: Annotated[
        list[str] | None, typer.Argument(help="Names of the streams; all if left out.")
    ] = None,
    once: Annotated[
        bool,
        typer.Option("--once/--continuous", help="End when it has caught up, or follow until ^C."),
    ] = False,
    name: Annotated[
        str | None, typer.Option(help="Name of the mirror; else that of the source's number.")
    ] = None,
    together: Annotated[
        int,
        typer.Option(help="Put following transactions of up to so many changes together into one."),
    ] = 1,
    after: Annotated[
        str | None,
        typer.Option(
            help="Where a new mirror begins: a cursor, a clock as (logical,counter), or `oldest`."
        ),
    ] = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Replay the feed of a database into another one, each change once; go on where it was left.

    At each of its visible clocks the target shows what the source showed at one of its own.

    Example: motet feed mirror 127.0.0.1:7400 copy/ orders stock --once
    """
    from motet.client.mirror import Mirror
    from motet.pipeline.session import stopping

    with (
        open_place(source) as here,
        open_place(target, create=True) as there,
        stopping(None) as stop,
    ):
        made = Mirror(here, there, streams or (), name, together, parse_place(after))
        done = made.run(once=once, stop=stop)
    row = {
        "mirror": done.name,
        "streams": list(done.streams),
        "transactions": done.transactions,
        "changes": done.changes,
        "after": str(done.after),
    }
    print_rows([row], output)


transaction_app = command_app()


@transaction_app.callback()
def transaction() -> None:
    """Show what became of a transaction."""


@transaction_app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="ID", help="Its id: txn.id, or as in the feed.")],
    data: DataOption = None,
    endpoint: EndpointOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Show whether a transaction is committed, aborted or prepared, its clock and its changes.

    `unknown`: nothing is known of it, or nothing any more.

    Example: motet transaction show 5f2c8a6b1d904e37-12 --endpoint 127.0.0.1:7400
    """
    with open_database(data, endpoint) as db:
        found = db.transaction_status(name)
        changes = [shown(each) for each in db.transaction_changes(name)]
    clock = None if found.clock is None else str(found.clock)
    row = {"transaction": name, "standing": found.standing, "clock": clock}
    if output is Output.JSON:
        print_json({**row, "changes": changes})
        return
    print_rows([row], output)
    if changes:
        columns = ("index", "stream", "shard", "key", "op", "row", "before")
        print_rows([{column: each[column] for column in columns} for each in changes], output)
