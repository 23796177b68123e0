"""``motet feed mirror``: the feed of one database replayed into another."""

from __future__ import annotations

from typing import Annotated

import typer

from motet.cli.database import open_place
from motet.cli.output import OUTPUT_OPTION, Output, print_rows
from motet.cli.time_text import parse_place


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
