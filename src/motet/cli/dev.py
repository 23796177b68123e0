"""``motet dev``: a whole cluster on this machine, in the foreground."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from motet.cli import command_app
from motet.cli.interrupt import on_interrupt

app = command_app()
_look_every_seconds = 0.2


@app.command()
def dev(
    nodes: Annotated[int, typer.Option(help="How many nodes.")] = 3,
    port: Annotated[
        int, typer.Option(help="Base port of the first; the next is 10 higher.")
    ] = 7400,
    data: Annotated[Path, typer.Option(help="Folder of their files; used again if there.")] = Path(
        "motet-dev"
    ),
    roles: Annotated[
        str | None, typer.Option(help="Roles of each, separated by commas; the default is all.")
    ] = None,
) -> None:
    """Run a cluster on loopback until ^C or SIGTERM, and start nodes again that die.

    Node i listens at PORT + 10 i (ZooKeeper's protocol at +1, HTTP at +3); its pid and its log are in
    DATA/node-<i>.

    Example: motet dev --nodes 3 --roles keeper --port 7400
    """
    from motet.node.roles import ROLES, check_roles
    from motet.testing.caretaker import Caretaker
    from motet.testing.local_cluster import LocalCluster

    wanted = ROLES if roles is None else tuple(filter(None, roles.split(",")))
    check_roles(wanted)
    over = threading.Event()
    on_interrupt(lambda: "all nodes have ended", 0)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    with LocalCluster(nodes, data, port=port, roles=wanted) as cluster:
        caretaker = Caretaker(cluster, typer.echo)
        for i in range(nodes):
            line = (
                f"n{i} is ready at {cluster.endpoint(i)}, pid {cluster.pid(i)}, {cluster.http(i)}"
            )
            typer.echo(line)
        typer.echo("end it with ^C")
        while not over.wait(_look_every_seconds):
            caretaker.look_after()
    typer.echo("all nodes have ended", err=True)
