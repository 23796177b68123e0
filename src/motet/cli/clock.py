"""``motet clock``: how the cluster clock of a node stands, or its next value."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated

import typer

from motet.cli import command_app
from motet.cli.output import OUTPUT_OPTION, Output, print_rows

app = command_app()


@app.command()
def clock(
    endpoint: Annotated[
        str | None, typer.Option(help="host:port of a node; the default is $MOTET_ENDPOINT.")
    ] = None,
    tick: Annotated[bool, typer.Option("--tick", help="Take the next value.")] = False,
    cluster: Annotated[str, typer.Option(help="Name of the cluster.")] = "motet",
    output: Output = OUTPUT_OPTION,
) -> None:
    """Show a node's cluster clock, how far it is ahead of the node's wall, and its durable bound.

    Clocks can be read and ticked, never set.

    Example: motet clock --endpoint 127.0.0.1:7400 --tick
    """
    where = endpoint or os.environ.get("MOTET_ENDPOINT") or "127.0.0.1:7400"
    print_rows([asyncio.run(_ask(where, cluster, tick=tick))], output)


async def _ask(endpoint: str, cluster: str, *, tick: bool) -> dict[str, object]:
    from motet.client.clock import ClockClient
    from motet.ids import NodeId

    node = NodeId("node")
    async with ClockClient({node: endpoint}, cluster) as client:
        await client.reach(node)
        if tick:
            return {"clock": str(await client.tick(node))}
        found = await client.read(node)
        return {
            "clock": str(found.clock),
            "drift_ms": found.drift_ms,
            "bound": str(found.bound),
        }
