"""``motet clock``: how the clock of a database stands, and that of a node; its clock visibility."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from motet.cli import command_app
from motet.cli.database import DataOption, EndpointOption, fetch_status, nodes_at, open_database
from motet.cli.output import OUTPUT_OPTION, Output, print_rows
from motet.errors import MotetError, NodeError

app = command_app()


@app.callback(invoke_without_command=True)
def clock(
    context: typer.Context,
    endpoint: Annotated[
        str | None, typer.Option(help="host:port of a node; the default is $MOTET_ENDPOINT.")
    ] = None,
    data: DataOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Show the clock of a database, embedded or a cluster, and its visible clock: all up to it can be read.

    If one node of a cluster is asked, also its own clock (`node_clock`), how far that is ahead of the time
    that the nodes agree on, its durable bound, and whether they do agree. Clocks can be read, never set.

    Example: motet clock --endpoint 127.0.0.1:7400
    """
    if context.invoked_subcommand is not None:
        return
    if data is not None:
        print_rows([_of_database(data, endpoint)], output)
        return
    print_rows([_of_endpoint(",".join(nodes_at(endpoint)))], output)


@app.command()
def enable(
    data: DataOption = None, endpoint: EndpointOption = None, output: Output = OUTPUT_OPTION
) -> None:
    """Show clocks to users again: what is committed from now on is above everything before.

    Example: motet clock enable --endpoint 127.0.0.1:7400
    """
    _turn(data, endpoint, output, enabled=True)


@app.command()
def disable(
    data: DataOption = None, endpoint: EndpointOption = None, output: Output = OUTPUT_OPTION
) -> None:
    """Show no clocks to users, if clocks have gone bad: `txn.clock` and clocks in the feed are null.

    Order, locks, the feed and its cursors go on.

    Example: motet clock disable --endpoint 127.0.0.1:7400
    """
    _turn(data, endpoint, output, enabled=False)


def _turn(data: Path | None, endpoint: str | None, output: Output, *, enabled: bool) -> None:
    with open_database(data, endpoint) as db:
        db.enable_clock(enabled)
        print_rows([{"enabled": db.clock_enabled(), "clock": str(db.clock())}], output)


def _of_database(data: Path | None, endpoint: str | None) -> dict[str, object]:
    with open_database(data, endpoint) as db:
        found = db.feed_status()
        return {
            "clock": str(found.clock),
            "visible": None if found.visible is None else str(found.visible),
            "behind_ms": found.behind_ms(found.visible),
            "enabled": found.clock_enabled,
        }


def _of_endpoint(endpoint: str) -> dict[str, object]:
    """The clock of the database, and of the node, if one node of a cluster is asked."""
    from motet.client.link import greeting_of, parse_endpoint
    from motet.format.frame import FrameKind

    asked = [each.strip() for each in endpoint.split(",")]
    takes = asyncio.run(greeting_of(*parse_endpoint(asked[0]), answer_seconds_max))
    if len(asked) > 1 or FrameKind.STREAMS in takes:
        return _of_database(None, endpoint)
    node = _of_node(endpoint)
    try:
        return {**_of_database(None, endpoint), **node}
    except MotetError as error:
        # The node has its clock also while its cluster has no map.
        typer.echo(str(error), err=True)
        return {**dict.fromkeys(_DATABASE_COLUMNS), **node}


def _of_node(endpoint: str) -> dict[str, object]:
    shown = fetch_status(endpoint)
    clock = shown["clock"]
    if not clock:
        roles = ", ".join(shown["roles"]) or "none"
        raise NodeError(
            f"{shown['id']} at {endpoint} has no clock: its roles are {roles}",
            hint="ask a node that has the role data; `motet status` shows the roles of all nodes",
        )
    return {
        "node": shown["id"],
        "node_clock": clock["clock"],
        "drift_ms": clock["drift_ms"],
        "bound": clock["bound"],
        "agreed": clock["agreed"],
    }


_DATABASE_COLUMNS = ("clock", "visible", "behind_ms", "enabled")
answer_seconds_max = 3.0
