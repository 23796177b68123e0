"""``motet keeper``: the keeper's tree, as any ZooKeeper client sees it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from motet.cli import command_app
from motet.cli.database import fetch_status, nodes_at
from motet.cli.output import OUTPUT_OPTION, Output, print_json, print_rows
from motet.errors import NodeError

if TYPE_CHECKING:
    from motet.client.keeper.sync import Keeper
    from motet.format.zookeeper.messages import Stat

app = command_app()

NOTHING = -1

PathArgument = Annotated[str, typer.Argument(help="Path of the node, from / on.")]
VersionOption = Annotated[
    int, typer.Option(help="Only if the node has this version; -1: whatever it is.")
]
EndpointOption = Annotated[
    str | None,
    typer.Option(help="Nodes as host:port,host:port (native); the default is $MOTET_ENDPOINT."),
]
ZookeeperOption = Annotated[
    str | None, typer.Option(help="Servers that speak ZooKeeper's protocol, instead of --endpoint.")
]

AsNodeOption = Annotated[
    bool,
    typer.Option(
        "--as-node",
        help="Write as a node of the cluster, which /motet needs: by the cluster key of the settings.",
    ),
]


@app.callback()
def keeper() -> None:
    """Look at the keeper's tree and change it; reads are linearizable."""


@app.command()
def ls(
    path: PathArgument = "/",
    endpoint: EndpointOption = None,
    zookeeper: ZookeeperOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """List the children of a node.

    Example: motet keeper ls /motet/nodes
    """
    with _connected(endpoint, zookeeper) as tree:
        names = sorted(tree.children(path))
    if output is Output.JSON:
        print_json(names)
        return
    for name in names:
        typer.echo(name)


@app.command()
def tree(
    path: PathArgument = "/",
    endpoint: EndpointOption = None,
    zookeeper: ZookeeperOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Draw a node and all below it, with the size of its data.

    Example: motet keeper tree /
    """
    with _connected(endpoint, zookeeper) as keeper:
        rows = list(_walk(keeper, path, ""))
    if output is Output.JSON:
        print_json([{"path": where, "bytes": size} for _, where, size in rows])
        return
    for drawn, _, size in rows:
        typer.echo(f"{drawn}  {size} bytes" if size else drawn)


@app.command()
def get(
    path: PathArgument,
    endpoint: EndpointOption = None,
    zookeeper: ZookeeperOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Print the data of a node, and its stat with --output json.

    Example: motet keeper get /motet/nodes/n0
    """
    with _connected(endpoint, zookeeper) as tree:
        data, stat = tree.get(path)
    if output is Output.JSON:
        print_json({"path": path, "data": data.decode(errors="replace"), **_stat_row(stat)})
    else:
        typer.echo(data.decode(errors="replace"))


@app.command("set")
def set_data(
    path: PathArgument,
    data: Annotated[str, typer.Argument(help="The new data.")],
    version: VersionOption = NOTHING,
    as_node: AsNodeOption = False,
    endpoint: EndpointOption = None,
    zookeeper: ZookeeperOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Set the data of a node.

    Example: motet keeper set /settings/limit 7 --version 3
    """
    with _connected(endpoint, zookeeper, as_node) as tree:
        stat = tree.set(path, data.encode(), version)
    print_rows([{"path": path, **_stat_row(stat)}], output)


@app.command()
def create(
    path: PathArgument,
    data: Annotated[str, typer.Argument(help="Its data.")] = "",
    sequential: Annotated[
        bool, typer.Option("--sequential", help="Append a number that was never used.")
    ] = False,
    parents: Annotated[
        bool, typer.Option("--parents", help="Create the nodes above it as well.")
    ] = False,
    as_node: AsNodeOption = False,
    endpoint: EndpointOption = None,
    zookeeper: ZookeeperOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Create a node.

    Example: motet keeper create /settings/limit 5 --parents
    """
    with _connected(endpoint, zookeeper, as_node) as tree:
        above = path.rpartition("/")[0]
        if parents and above:
            tree.ensure_path(above)
        made = tree.create(path, data.encode(), sequential=sequential)
    print_rows([{"path": made}], output)


@app.command()
def delete(
    path: PathArgument,
    version: VersionOption = NOTHING,
    as_node: AsNodeOption = False,
    endpoint: EndpointOption = None,
    zookeeper: ZookeeperOption = None,
    output: Output = OUTPUT_OPTION,
) -> None:
    """Delete a node that has no children.

    Example: motet keeper delete /settings/limit
    """
    with _connected(endpoint, zookeeper, as_node) as tree:
        tree.delete(path, version)
    print_rows([{"path": path, "deleted": True}], output)


@app.command()
def watch(
    path: PathArgument,
    count: Annotated[int, typer.Option(help="End after so many events; 0: never.")] = 0,
    endpoint: EndpointOption = None,
    zookeeper: ZookeeperOption = None,
) -> None:
    """Print what happens to a node and its children, a line each, until ^C.

    Example: motet keeper watch /motet/nodes
    """
    from motet.client.keeper.watches import WATCH_LOST, ThreadWatch
    from motet.format.zookeeper.messages import EventType

    with _connected(endpoint, zookeeper) as tree:
        seen = 0
        while not count or seen < count:
            happened = ThreadWatch()
            if tree.exists(path, happened) is not None:
                tree.children(path, happened)
            event = happened.wait()
            if event is None or event.type == WATCH_LOST:
                raise NodeError("the session is over", hint="start the command again")
            typer.echo(f"{EventType(event.type).name.lower()} {event.path}")
            seen += 1


@app.command()
def status(endpoint: EndpointOption = None, output: Output = OUTPUT_OPTION) -> None:
    """Show each node of the keeper: who leads, and how far it is.

    Example: motet keeper status --endpoint 127.0.0.1:7400,127.0.0.1:7410,127.0.0.1:7420
    """
    print_rows([_status_row(one) for one in nodes_at(endpoint)], output)


# Where, and how things are shown


@contextmanager
def _connected(
    endpoint: str | None, zookeeper: str | None, as_node: bool = False
) -> Iterator[Keeper]:
    from motet.client.keeper.sync import connect

    where = zookeeper or ",".join(map(_zookeeper_endpoint, nodes_at(endpoint)))
    with connect(where) as keeper:
        if as_node:
            keeper.add_auth("motet", _node_secret())
        yield keeper


def _node_secret() -> bytes:
    """What a node that is started here would prove to the keeper."""
    from motet.node.settings import keeper_secret, load, load_cluster_key

    config = load(None, os.environ).config
    return keeper_secret(config, load_cluster_key(config))


def _zookeeper_endpoint(endpoint: str) -> str:
    from motet.client.link import ZOOKEEPER_PORT_OFFSET, parse_endpoint

    host, port = parse_endpoint(endpoint)
    return f"{host}:{port + ZOOKEEPER_PORT_OFFSET}"


def _walk(keeper: Keeper, path: str, indent: str) -> Iterator[tuple[str, str, int]]:
    """Each node as it is drawn, its path, and the size of its data."""
    from motet.client.keeper.errors import NoNode

    try:
        _, stat = keeper.get(path)
        names = sorted(keeper.children(path))
    except NoNode:  # gone while we walked
        if not indent:
            raise
        return
    name = path if not indent else path.rpartition("/")[2]
    yield f"{indent}{name}", path, stat.data_length
    for child in names:
        yield from _walk(keeper, f"{path.rstrip('/')}/{child}", indent + "  ")


def _stat_row(stat: Stat) -> dict[str, object]:
    return {
        "version": stat.version,
        "children": stat.num_children,
        "bytes": stat.data_length,
        "created": stat.czxid,
        "modified": stat.mzxid,
        "ephemeral": bool(stat.ephemeral_owner),
    }


def _status_row(endpoint: str) -> dict[str, object]:
    fields = ("view", "op", "commit_min", "checkpoint_op", "zxid", "nodes", "client_sessions")
    try:
        found = fetch_status(endpoint)
    except NodeError:
        return {"node": endpoint, "role": "unreachable", **dict.fromkeys(fields)}
    machine = found["machines"].get("keeper")
    if machine is None:
        return {"node": found["id"], "role": "no keeper", **dict.fromkeys(fields)}
    detail = machine["detail"]
    role = "primary" if detail["is_primary"] else "backup"
    if not machine["serving"]:
        role = machine["reason"]
    return {"node": found["id"], "role": role, **{name: detail[name] for name in fields}}
