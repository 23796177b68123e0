"""Which database a command is about: a folder of this machine, a node that serves, or a cluster."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from motet.errors import BadConfig, BadInput, NodeError

if TYPE_CHECKING:
    from motet.client.cluster.database import AsyncClusterDatabase
    from motet.client.sync import Database


DataOption = Annotated[
    Path | None, typer.Option("--data", help="Folder of an embedded database.", show_default=False)
]
EndpointOption = Annotated[
    str | None,
    typer.Option(
        "--endpoint", help="What db.endpoint says where it is open; else $MOTET_ENDPOINT."
    ),
]


DEFAULT_ENDPOINT = "127.0.0.1:7400"
ENDPOINTS = re.compile(r"[^/\\,]+:\d+(,[^/\\,]+:\d+)*")
"""host:port, or several; anything else is a folder."""


def open_place(place: str, *, create: bool = False) -> Database:
    """What is named by one text: the folder of an embedded database, or endpoints."""
    if ENDPOINTS.fullmatch(place):
        return open_database(None, place)
    return open_database(Path(place), None, create=create)


def open_database(data: Path | None, endpoint: str | None, *, create: bool = False) -> Database:
    """Open the folder or connect to the endpoint; ``BadInput`` when it is not clear which is meant.

    Only what is to ``create`` something makes a folder: a mistyped one is an error, not an empty database.
    """
    import motet

    if data is not None and endpoint is not None:
        raise BadInput("--data and --endpoint name two databases", hint="give one of them")
    if data is None:
        if not (endpoint or os.environ.get("MOTET_ENDPOINT")):
            raise BadConfig(
                "no database is named",
                hint="give --data FOLDER or --endpoint HOST:PORT, or set $MOTET_ENDPOINT",
            )
        return motet.connect(endpoint)
    if not create and not data.exists():
        raise BadInput(
            f"there is no database in {data}", hint="correct --data, or begin with `stream create`"
        )
    return motet.open(data)


T = TypeVar("T")

ClusterOption = Annotated[
    str | None,
    typer.Option("--endpoint", help="Nodes of the cluster, host:port,…; else $MOTET_ENDPOINT."),
]


def nodes_at(endpoint: str | None) -> list[str]:
    """The nodes that are named, by an option or by the environment; else the first one of ``motet dev``."""
    return (endpoint or os.environ.get("MOTET_ENDPOINT") or DEFAULT_ENDPOINT).split(",")


def ask_cluster(endpoint: str | None, ask: Callable[[AsyncClusterDatabase], Awaitable[T]]) -> T:
    """Connect, ask, leave."""
    return asyncio.run(_ask(endpoint, ask))


async def _ask(endpoint: str | None, ask: Callable[[AsyncClusterDatabase], Awaitable[T]]) -> T:
    from motet.client.cluster.database import AsyncClusterDatabase
    from motet.client.connect import connect

    database = await connect(endpoint)
    try:
        if not isinstance(database, AsyncClusterDatabase):
            raise NodeError(
                f"{await database.endpoint()} is an embedded database, not a cluster",
                hint="start one with `motet dev --nodes 3`",
            )
        return await ask(database)
    finally:
        await database.close()


seconds_max = 5


def fetch_status(endpoint: str) -> dict[str, Any]:
    """The answer of ``/api/status``; ``NodeError`` when there is none."""
    import json
    import urllib.request

    from motet.client.link import HTTP_PORT_OFFSET, parse_endpoint

    host, port = parse_endpoint(endpoint)
    url = f"http://{host}:{port + HTTP_PORT_OFFSET}/api/status"
    try:
        with urllib.request.urlopen(url, timeout=seconds_max) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except (OSError, ValueError) as error:
        raise NodeError(
            f"{endpoint} does not say how it is: {error}", hint="is the node running there?"
        ) from None
