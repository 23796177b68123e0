"""``motet shard`` and ``motet clock``: who holds the shards of a cluster, and how its clock stands."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from motet.cli import command_app
from motet.cli.database import (
    ClusterOption,
    DataOption,
    EndpointOption,
    ask_cluster,
    fetch_status,
    nodes_at,
    open_database,
)
from motet.cli.output import OUTPUT_OPTION, Output, print_rows
from motet.errors import MotetError, NodeError

if TYPE_CHECKING:
    from motet.core.shardlog.messages import ShardReport
    from motet.core.streams.cluster_messages import ShardsDescribed


app = command_app()

StreamArgument = Annotated[str, typer.Argument(help="Name of the stream.")]
ShardOption = Annotated[int, typer.Option("--shard", help="Which shard, from 0.")]


@app.callback()
def shard() -> None:
    """Describe shards, elect their leaders, and change who holds them."""


@app.command()
def describe(
    stream: Annotated[str | None, typer.Argument(help="Name of a stream; else all.")] = None,
    endpoint: ClusterOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Show epoch, status, leader and ensemble of each shard, and how far its replicas are.

    A replica is marked as stalled if it lacks entries and has got none for 10 seconds.

    Example: motet shard describe orders --endpoint 127.0.0.1:7400
    """
    found = ask_cluster(endpoint, lambda db: db.describe_shards(stream))
    print_rows(_rows(found), output)


@app.command()
def elect(
    stream: StreamArgument,
    shard: ShardOption,
    prefer: Annotated[str | None, typer.Option(help="Who wins among equal heads.")] = None,
    endpoint: ClusterOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Elect the leader of a shard anew.

    Example: motet shard elect orders --shard 0 --prefer n2
    """
    what = ask_cluster(endpoint, lambda db: db.elect(stream, shard, prefer))
    _done(stream, shard, what, output)


@app.command()
def swap(
    stream: StreamArgument,
    shard: ShardOption,
    old: Annotated[str, typer.Option(help="The node that leaves; not the leader.")],
    new: Annotated[str | None, typer.Option(help="The node that comes; else chosen.")] = None,
    endpoint: ClusterOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Replace a node of a shard's ensemble by another.

    Example: motet shard swap orders --shard 0 --old n1 --new n4
    """
    _done(stream, shard, ask_cluster(endpoint, lambda db: db.swap(stream, shard, old, new)), output)


@app.command()
def expand(
    stream: StreamArgument,
    shard: ShardOption,
    new: Annotated[str | None, typer.Option(help="The node that comes; else chosen.")] = None,
    endpoint: ClusterOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Add a node to a shard's ensemble.

    Example: motet shard expand orders --shard 0
    """
    _done(stream, shard, ask_cluster(endpoint, lambda db: db.expand(stream, shard, new)), output)


@app.command()
def contract(
    stream: StreamArgument,
    shard: ShardOption,
    old: Annotated[str | None, typer.Option(help="The node that leaves; else chosen.")] = None,
    endpoint: ClusterOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Take a node out of a shard's ensemble.

    Example: motet shard contract orders --shard 0 --old n3
    """
    _done(stream, shard, ask_cluster(endpoint, lambda db: db.contract(stream, shard, old)), output)


def _done(stream: str, shard: int, what: str, output: Output) -> None:
    print_rows([{"stream": stream, "shard": shard, "done": what}], output)


def _replica(report: ShardReport | None) -> str:
    """How one replica stands, as its node said last."""
    if report is None:
        return "silent"
    whole = "" if report.is_whole else " without its data"
    return f"{report.status}{report.head_index}{whole}"


def _rows(found: ShardsDescribed) -> list[dict[str, object]]:
    from motet.core.metadata.definitions import shard_names

    names = {
        shard: (definition.name, number)
        for definition in found.streams
        for number, shard in enumerate(shard_names(definition))
    }
    reports: dict[tuple[str, str], ShardReport] = {
        (report.shard, node): report for node, of_node in found.reports for report in of_node
    }
    rows: list[dict[str, object]] = []
    for meta in sorted(found.shards, key=lambda meta: names.get(meta.shard, ("", 0))):
        stream, number = names.get(meta.shard, (meta.shard, 0))
        leads = None if meta.leader is None else reports.get((meta.shard, meta.leader))
        stalled = {} if leads is None or leads.epoch != meta.epoch else dict(leads.stalled)
        replicas = {}
        for node in meta.ensemble:
            report = reports.get((meta.shard, node))
            told = _replica(report)
            replicas[node] = f"{told} stalled" if node in stalled else told
        change = meta.reconfiguration
        rows.append(
            {
                "stream": stream,
                "shard": number,
                "epoch": meta.epoch,
                "status": meta.status.value,
                "leader": meta.leader,
                "replicas": replicas,
                "reconfiguration": None if change is None else f"{change.op} {change.phase}",
            }
        )
    return rows


clock_app = command_app()


@clock_app.callback(invoke_without_command=True)
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


@clock_app.command()
def enable(
    data: DataOption = None, endpoint: EndpointOption = None, output: Output = OUTPUT_OPTION
) -> None:
    """Show clocks to users again: what is committed from now on is above everything before.

    Example: motet clock enable --endpoint 127.0.0.1:7400
    """
    _turn(data, endpoint, output, enabled=True)


@clock_app.command()
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
