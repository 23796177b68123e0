"""``motet clock``: how the cluster clock stands, of a node or of a database, or its next value; its valve."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from motet.cli import command_app
from motet.cli.database import DataOption, EndpointOption, open_database
from motet.cli.output import OUTPUT_OPTION, Output, print_rows
from motet.errors import BadInput, MotetError

app = command_app()


@app.callback(invoke_without_command=True)
def clock(
    context: typer.Context,
    endpoint: Annotated[
        str | None, typer.Option(help="host:port of a node; the default is $MOTET_ENDPOINT.")
    ] = None,
    data: DataOption = None,
    tick: Annotated[bool, typer.Option("--tick", help="Take the next value of a node.")] = False,
    cluster: Annotated[str, typer.Option(help="Name of the cluster.")] = "motet",
    output: Output = OUTPUT_OPTION,
) -> None:
    """Show the clock of a database, embedded or a cluster, and its visible clock: all up to it can be read.

    Of a node without streams its own clock, how far that is ahead of the node's wall, and its durable
    bound. Clocks can be read and ticked, never set.

    Example: motet clock --endpoint 127.0.0.1:7400 --tick
    """
    if context.invoked_subcommand is not None:
        return
    if data is not None:
        if tick:
            raise BadInput("an embedded database ticks when something is committed")
        print_rows([_of_database(data, endpoint)], output)
        return
    where = endpoint or os.environ.get("MOTET_ENDPOINT") or "127.0.0.1:7400"
    print_rows([asyncio.run(_ask(where, cluster, tick=tick))], output)


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


async def _ask(endpoint: str, cluster: str, *, tick: bool) -> dict[str, object]:
    """Of a database the clock of all its shards; of a node without streams its own."""
    from motet.client.clock import ClockClient
    from motet.client.link import greeting_of, parse_endpoint
    from motet.format.frame import FrameKind
    from motet.ids import NodeId

    node, first = NodeId("node"), endpoint.split(",", maxsplit=1)[0].strip()
    async with ClockClient({node: first}, cluster) as client:
        await client.reach(node)
        takes = await greeting_of(*parse_endpoint(first), answer_seconds_max)
        if not tick and (FrameKind.DATA in takes or FrameKind.STREAMS in takes):
            try:
                return await asyncio.to_thread(_of_database, None, endpoint)
            except MotetError:
                if FrameKind.CLOCK not in takes:
                    raise
                # A node has a clock of its own, also when its cluster has no map.
        if tick:
            return {"clock": str(await client.tick(node))}
        found = await client.read(node)
        return {"clock": str(found.clock), "drift_ms": found.drift_ms, "bound": str(found.bound)}


answer_seconds_max = 3.0
