"""``motet node``, ``dev``, ``status``, ``config`` and ``inspect``: nodes, their settings and files."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from motet.cli import command_app
from motet.cli.database import ClusterOption, ask_cluster, fetch_status, nodes_at
from motet.cli.interrupt import on_interrupt
from motet.cli.output import OUTPUT_OPTION, Output, cell, print_json, print_rows
from motet.errors import BadInput, BadRecord, NodeError
from motet.limits import MIB

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


dev_app = command_app()
_look_every_seconds = 0.2


@dev_app.command()
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
    from motet.node.config import ROLES, check_roles
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


status_app = command_app()


@status_app.command()
def status(endpoint: ClusterOption = None, output: Output = OUTPUT_OPTION) -> None:
    """Show each node of a cluster: is it ready, what does it do, how much does it hold.

    One node that answers is enough: it names the others.

    Example: motet status --endpoint 127.0.0.1:7400
    """
    rows = _rows(nodes_at(endpoint))
    print_rows(rows, output)
    if not all(row["ready"] for row in rows):
        raise typer.Exit(1)


def _rows(asked: list[str]) -> list[dict[str, object]]:
    found: dict[str, dict[str, Any]] = {}
    missing: dict[str, str] = {}
    queue = list(dict.fromkeys(asked))
    names: dict[str, str] = {}
    for one in queue:
        try:
            found[one] = fetch_status(one)
        except NodeError as error:
            missing[one] = error.what
            continue
        for peer in found[one]["peers"]:
            names[peer["address"]] = peer["id"]
            if peer["address"] not in queue:
                queue.append(peer["address"])
    if not found:
        raise NodeError(
            "; ".join(missing.values()), hint="start a cluster with `motet dev --nodes 3`"
        )
    rows = [_row(one, found.get(one), names.get(one, "-")) for one in queue]
    return sorted(rows, key=lambda row: str(row["node"]))


def _row(endpoint: str, shown: dict[str, Any] | None, name: str) -> dict[str, object]:
    if shown is None:
        silent = dict.fromkeys(
            ("roles", "keeper", "operator", "shards", "leads", "stalled", "drift_ms", "since")
        )
        return {"node": name, "endpoint": endpoint, "ready": False, **silent}
    machines = shown["machines"]
    keeper = machines.get("keeper", {}).get("detail", {})
    data = machines.get("data", {}).get("detail", {})
    operator = machines.get("operator", {}).get("detail", {})
    return {
        "node": shown["id"],
        "endpoint": endpoint,
        "ready": shown["ready"],
        "roles": shown["roles"],
        "keeper": None if not keeper else "primary" if keeper.get("is_primary") else "backup",
        "operator": None if not operator else "active" if operator.get("active") else "waiting",
        "shards": data.get("shards"),
        "leads": data.get("leads"),
        "stalled": data.get("stalled"),
        "drift_ms": data.get("wall_drift_ms"),
        "since": shown["started_at"],
    }


config_app = command_app()


@config_app.callback()
def group() -> None:
    """Show the settings and where they come from."""


@config_app.command()
def show(
    config: Annotated[
        Path | None,
        typer.Option(help="The file to read; the default is ./motet.toml if there is one."),
    ] = None,
    origin: Annotated[bool, typer.Option("--origin", help="Say where each value is from.")] = False,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Print every setting with the value a node started here would use.

    Example: MOTET_NODE__PORT=7500 motet config show --origin
    """
    from motet.node.settings import load

    settings = load(config, os.environ)
    if output is Output.JSON:
        print_json(
            {row.key: {"value": row.value, "origin": row.origin} for row in settings.rows()}
            if origin
            else {row.key: row.value for row in settings.rows()}
        )
        return
    print_rows(
        [
            {"setting": row.key, "value": row.value}
            | ({"origin": row.origin} if origin else {"meaning": row.description})
            for row in settings.rows()
        ],
        output,
    )


inspect_app = command_app()

inspected_bytes_max = 256 * MIB
"""A file is read whole; a larger one is shown up to here, and the answer says so."""


@inspect_app.command()
def inspect(
    file: Annotated[
        Path,
        typer.Argument(
            help="A journal, a clock bound, a part's file, a replica's file, or frames of a connection."
        ),
    ],
    output: Output = OUTPUT_OPTION,
) -> None:
    """Describe a journal, a clock bound, a part, a replica's file or frames; damage is shown, never hidden.

    The files of a replica of the consensus are its superblock, wal, replies and grid.

    Example: motet inspect data/streams/database-log-1
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(inspected_bytes_max + 1)
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}") from None
    is_whole = len(data) <= inspected_bytes_max
    if is_whole and _is_of_replica(file, data, output):
        return
    lines = _describe(data[:inspected_bytes_max])
    if not is_whole:
        lines.append(f"… only the first {inspected_bytes_max} bytes were read")
    if output is Output.JSON:
        print_json({"file": str(file), "lines": lines})
    else:
        typer.echo("\n".join(lines))


def _is_of_replica(file: Path, data: bytes, output: Output) -> bool:
    """Show a file of a replica; False if it is none."""
    from motet.node.replica_report import report_file

    report = report_file(file, data)
    if report is None:
        return False
    if output is Output.JSON:
        print_json({"file": str(file), "kind": report.kind, **report.summary, "rows": report.rows})
        return True
    typer.echo(f"{report.kind} of a replica, {len(data)} bytes")
    for name, value in report.summary.items():
        typer.echo(f"  {name.replace('_', ' '):<16} {cell(value)}")
    if report.rows:
        typer.echo()
        print_rows(report.rows, output)
    return True


def _describe(data: bytes) -> list[str]:
    from motet.core.clock.reservation import MAGIC, decode_bound
    from motet.format.inspect import describe

    if not data.startswith(MAGIC):
        return describe(data)
    try:
        return [f"durable bound of a clock: {decode_bound(data)}"]
    except BadRecord as error:
        return [f"damaged durable bound of a clock: {error.what}"]
