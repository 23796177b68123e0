"""``motet node``: one node in the foreground; and emptying a node of a cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from motet.cli import command_app
from motet.cli.cluster import ClusterOption, ask_cluster
from motet.cli.output import OUTPUT_OPTION, Output, print_rows

app = command_app()


@app.callback(invoke_without_command=True)
def node(
    context: typer.Context,
    id: Annotated[str | None, typer.Option(help="Name of the node in its cluster.")] = None,  # noqa: A002
    host: Annotated[str | None, typer.Option(help="Address to listen at.")] = None,
    port: Annotated[
        int | None, typer.Option(help="Base port; ZooKeeper's wire is at +1, HTTP at +3.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Folder of the node's files.")] = None,
    peers: Annotated[str | None, typer.Option(help="All nodes: id=host:port,id=host:port.")] = None,
    roles: Annotated[
        str | None, typer.Option(help="Roles, separated by commas; all by default.")
    ] = None,
    format: Annotated[  # noqa: A002
        bool, typer.Option("--format", help="Make the files of a keeper that has never been.")
    ] = False,
    config: Annotated[Path | None, typer.Option(help="Settings file, see `motet config`.")] = None,
) -> None:
    """Run one node until ^C or SIGTERM; it logs to stderr.

    Flags go before the environment (MOTET_NODE__PORT), and that goes before motet.toml.

    Example: motet node --id n0 --port 7400 --data n0-data --format
    """
    if context.invoked_subcommand is not None:
        return
    from motet.node.node import run_node
    from motet.node.settings import load

    flags: dict[str, tuple[str, object]] = {
        "node.id": ("--id", id),
        "node.host": ("--host", host),
        "node.port": ("--port", port),
        "node.data": ("--data", data),
        "node.peers": ("--peers", peers),
        "node.roles": ("--roles", roles),
        "keeper.format": ("--format", format or None),
    }
    run_node(load(config, os.environ, flags).config)


@app.command()
def drain(
    name: Annotated[str, typer.Argument(help="The node to empty.")],
    undo: Annotated[bool, typer.Option("--undo", help="Let it take shards again.")] = False,
    endpoint: ClusterOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Move all shards off a node: first their leadership, then their data. Writes go on meanwhile.

    Example: motet node drain n2 --endpoint 127.0.0.1:7400
    """
    what = ask_cluster(endpoint, lambda db: db.drain(name, is_drained=not undo))
    print_rows([{"node": name, "drained": not undo, "done": what}], output)
