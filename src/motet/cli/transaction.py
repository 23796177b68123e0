"""``motet transaction``: what became of a transaction."""

from __future__ import annotations

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
