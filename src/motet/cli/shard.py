"""``motet shard``: who holds the shards of a cluster, and changing that while writes go on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from motet.cli import command_app
from motet.cli.database import ClusterOption, ask_cluster
from motet.cli.output import OUTPUT_OPTION, Output, print_rows

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
    reports = {
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
