"""Connecting: to an embedded database that another process serves, or to a cluster by any of its nodes."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack

from motet.client.cluster.calls import info_of
from motet.client.cluster.database import AsyncClusterDatabase
from motet.client.cluster.router import Router
from motet.client.cursors import parse_bookmark
from motet.client.database import AsyncDatabase, begin, connect_seconds_max
from motet.client.link import Link, answer_seconds_max, greeting_of, parse_endpoint
from motet.client.table_link import TableLink
from motet.client.tables import Tables
from motet.core.mergetree.conversation import TablesAnswer
from motet.core.onelog.messages import StreamsAnswer
from motet.errors import BadConfig, MotetError, NodeError
from motet.errors.shards import Unavailable
from motet.format.frame import FrameKind
from motet.ids import Address
from motet.real.process import RealEntropy

ENDPOINT_VARIABLE = "MOTET_ENDPOINT"

map_seconds_max = 15.0
"""How long a cluster that has just started may take to have a shard map."""


class _Remote:
    """A database at an endpoint."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint

    async def endpoint(self) -> str:
        return self._endpoint


async def connect(endpoint: str | None = None, after: str | None = None) -> AsyncDatabase:
    """The database or the cluster at an endpoint: the first of a comma separated list that answers.

    With a bookmark, whatever its client has seen or done is seen here too.
    """
    if after is None:
        return await _connect(endpoint)
    parse_bookmark(after)
    async with AsyncExitStack() as opening:
        database = await opening.enter_async_context(await _connect(endpoint))
        await database.resume_after(after)
        opening.pop_all()
        return database


async def _connect(endpoint: str | None) -> AsyncDatabase:
    failures = []
    endpoints = _endpoints(endpoint)
    for one in endpoints:
        try:
            return await _whatever_is_there(one, endpoints)
        except Unavailable:
            raise  # it is the same for all nodes of the cluster
        except MotetError as error:
            failures.append(error)
    if len(failures) == 1:
        raise failures[0]
    whats = ", ".join(failure.what for failure in failures)
    raise NodeError(f"no endpoint answers: {whats}", hint="start a node, or name another endpoint")


async def _whatever_is_there(endpoint: str, all_endpoints: list[str]) -> AsyncDatabase:
    """An embedded database and a node of a cluster are asked differently; a greeting says which it is."""
    takes = await greeting_of(*parse_endpoint(endpoint), connect_seconds_max)
    if FrameKind.STREAMS in takes:
        return await _connect_to(endpoint)
    if FrameKind.DATA in takes:
        return await _connect_to_cluster(endpoint, all_endpoints)
    raise NodeError(
        f"{endpoint} does not answer as a database",
        hint="check the address: it is what db.endpoint says there, or a data node's",
    )


async def _connect_to(endpoint: str) -> AsyncDatabase:
    node = Address(endpoint)
    async with AsyncExitStack() as opening:
        link: Link[StreamsAnswer] = Link({node: endpoint}, FrameKind.STREAMS, StreamsAnswer)
        await opening.enter_async_context(link)
        table_link: Link[TablesAnswer] = Link({node: endpoint}, FrameKind.TABLES, TablesAnswer)
        await opening.enter_async_context(table_link)
        tables = Tables(TableLink(table_link, endpoint, lambda: {node: endpoint}), RealEntropy())
        opened = AsyncExitStack()
        database = await begin(link, node, endpoint, _Remote(endpoint), tables, opened)
        opened.push_async_exit(opening.pop_all())
        return database


async def _connect_to_cluster(endpoint: str, all_endpoints: list[str]) -> AsyncDatabase:
    # The node that has answered first, so that the others need not be up.
    others = [other for other in all_endpoints if other != endpoint]
    router = Router([endpoint, *others], endpoint)
    async with AsyncExitStack() as opening:
        await router.start()
        opening.push_async_callback(router.close)
        await router.wait_for_map(map_seconds_max)
        table_link: Link[TablesAnswer] = Link({}, FrameKind.TABLES, TablesAnswer)
        await opening.enter_async_context(table_link)
        link = TableLink(table_link, router.name, router.data_nodes, router.refresh)
        opened = AsyncExitStack()
        database = AsyncClusterDatabase(router, endpoint, Tables(link, RealEntropy()), opened)
        database.schemas.learn(info_of(place.definition) for place in router.map.streams)
        opened.push_async_exit(opening.pop_all())
        return database


def _endpoints(text: str | None) -> list[str]:
    given = os.environ.get(ENDPOINT_VARIABLE, "") if text is None else text
    endpoints = [part.strip() for part in given.split(",") if part.strip()]
    if not endpoints:
        raise BadConfig(
            "no endpoint is given",
            hint=f'motet.connect("127.0.0.1:7400"), or set ${ENDPOINT_VARIABLE}',
        )
    for endpoint in endpoints:
        parse_endpoint(endpoint)
    return endpoints


assert connect_seconds_max <= answer_seconds_max
