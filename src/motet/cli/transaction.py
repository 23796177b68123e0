"""``motet transaction``: what became of a transaction."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated

import typer

from motet.cli import command_app
from motet.cli.changes import shown
from motet.cli.database import DataOption, EndpointOption, open_database
from motet.cli.output import OUTPUT_OPTION, Output, print_json, print_rows

app = command_app()


@app.callback()
def transaction() -> None:
    """Show what became of a transaction."""


@app.command()
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
    from motet.core.clock.hlc import plus
    from motet.errors.shards import CursorExpired

    with open_database(data, endpoint) as db:
        found = db.transaction_status(name)
        changes = []
        streams = [info.name for info in db.streams()]
        if found.clock is not None and streams:
            # It may be committed and not yet visible.
            db.visible_clock(*streams, wait=True)
            before = plus(found.clock, -1)
            with suppress(CursorExpired):  # what became of it is known, its changes are pruned
                page = db.changes(*streams, after=before, up_to=found.clock)
                changes = [shown(each) for each in page if each.transaction == name]
    if found.standing == "committed" and found.clock is None:
        typer.echo("warning: the clock was off: look for its changes in the feed", err=True)
    clock = None if found.clock is None else str(found.clock)
    row = {"transaction": name, "standing": found.standing, "clock": clock}
    if output is Output.JSON:
        print_json({**row, "changes": changes})
        return
    print_rows([row], output)
    if changes:
        columns = ("index", "stream", "shard", "key", "op", "row", "before")
        print_rows([{column: each[column] for column in columns} for each in changes], output)
