"""``motet node``: one node in the foreground."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from motet.cli import command_app

app = command_app()


@app.command()
def node(
    id: Annotated[str | None, typer.Option(help="Name of the node in its cluster.")] = None,  # noqa: A002
    host: Annotated[str | None, typer.Option(help="Address to listen at.")] = None,
    port: Annotated[
        int | None, typer.Option(help="Base port; ZooKeeper's wire is at +1, HTTP at +3.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Folder of the node's files.")] = None,
    peers: Annotated[str | None, typer.Option(help="All nodes: id=host:port,id=host:port.")] = None,
    roles: Annotated[str | None, typer.Option(help="Roles, separated by commas.")] = None,
    format: Annotated[  # noqa: A002
        bool, typer.Option("--format", help="Make the files of a keeper that has never been.")
    ] = False,
    config: Annotated[Path | None, typer.Option(help="Settings file, see `motet config`.")] = None,
) -> None:
    """Run one node until ^C or SIGTERM; it logs to stderr.

    Flags go before the environment (MOTET_NODE__PORT), and that goes before motet.toml.

    Example: motet node --id n0 --port 7400 --data n0-data --peers n0=127.0.0.1:7400,n1=127.0.0.1:7410
    """
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
