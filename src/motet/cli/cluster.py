"""What commands about a cluster share: its endpoint, and a connection for one question."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from motet.errors import NodeError

if TYPE_CHECKING:
    from motet.client.cluster.database import AsyncClusterDatabase

T = TypeVar("T")

ClusterOption = Annotated[
    str | None,
    typer.Option("--endpoint", help="Nodes of the cluster, host:port,…; else $MOTET_ENDPOINT."),
]


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
