"""A cluster of processes with one table, made below the level of `motet.connect`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from tests.node.made_parts import MadePart

from motet.client.keeper.client import KeeperClient
from motet.client.link import Link
from motet.client.part_client import PartClient
from motet.core.keeper.acl import NODES_ACL
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.messages import (
    BlockInserted,
    InsertBlock,
    ListParts,
    PartsListed,
    TableRefused,
    TablesAnswer,
)
from motet.core.mergetree.paths import (
    NAMED,
    TABLE_NODES,
    ShardPaths,
    definition_path,
    hosted_path,
    layout,
    name_path,
    node_path,
    table_root,
)
from motet.core.mergetree.pulling import head_of
from motet.core.metadata.definitions import TableDefinition, encode_table_definition
from motet.core.metadata.zookeeper import stat_of
from motet.errors import MotetError, error_of
from motet.format.frame import FrameKind
from motet.ids import Address, NodeId, RequestId, TableId, TableName, Zxid
from motet.node.config import Config
from motet.node.registry import KeeperAccess
from motet.node.settings import keeper_secret
from motet.real.part_files import PartKey, PartState, part_folder
from motet.testing.local_cluster import LocalCluster

SECONDS_MAX = 90.0
"""Patience of a test; nothing is measured by it."""


class TableCluster:
    """The table of some shard, asked through the native protocol."""

    def __init__(self, cluster: LocalCluster, table: TableId, shard: int, nodes: int) -> None:
        self.cluster = cluster
        self.table, self.shard = table, shard
        self.nodes = tuple(NodeId(f"n{i}") for i in range(nodes))
        self.parts = PartClient()
        self._tokens = 0

    @asynccontextmanager
    async def keeper(self) -> AsyncIterator[KeeperClient]:
        """As a node of the cluster, which has no key."""
        endpoints = ",".join(self.cluster.zookeeper(i) for i in range(len(self.nodes)))
        access = KeeperAccess(endpoints, keeper_secret(Config(), None), 64 << 10)
        async with access.session(10_000) as keeper:
            yield keeper

    async def create(self) -> None:
        """A replica on each node."""
        definition = TableDefinition(self.table, b"", (), ("a",), shards=self.shard + 1)
        async with self.keeper() as keeper:
            await eventually(lambda: _is_there(keeper, TABLE_NODES))
            for path, data in layout(self.table, self.shard + 1, self.nodes):
                named = NAMED if path == table_root(self.table) else data
                await keeper.create(path, named, acl=NODES_ACL)
            data = encode_table_definition(definition)
            await keeper.create(definition_path(self.table), data, acl=NODES_ACL)
            await keeper.create(name_path(TableName("t")), self.table.encode(), acl=NODES_ACL)
            for node in self.nodes:
                await keeper.ensure_path(node_path(node), acl=NODES_ACL)
                shards = msgspec.json.encode([self.shard])
                await keeper.create(hosted_path(node, self.table), shards, acl=NODES_ACL)
        for i in range(len(self.nodes)):
            await self.until_active(i)

    async def head(self) -> tuple[int, Zxid]:
        """The head of the log, and a version at which all of it is seen."""
        async with self.keeper() as keeper:
            stat = await keeper.exists(ShardPaths(self.table, self.shard).log)
            assert stat is not None
            return head_of(stat_of(stat)), Zxid(stat.pzxid)

    async def insert(self, i: int, part: MadePart, *, quorum: int) -> BlockInserted:
        """Through node i, where the part is put before."""
        endpoint = self.cluster.endpoint(i)
        await asyncio.to_thread(self.parts.put, endpoint, part.key, part.manifest, part.data)
        self._tokens += 1
        token = f"t{self._tokens}"
        answer = await self._ask(
            i,
            lambda request: InsertBlock(
                self.table, self.shard, request, part.header, quorum, token, "c"
            ),
        )
        assert isinstance(answer, BlockInserted)
        return answer

    async def listed(self, i: int) -> dict[str, PartHeader]:
        """The parts of the newest version, as node i has them."""
        head, version = await self.head()
        answer = await self._ask(
            i, lambda request: ListParts(self.table, self.shard, request, head, version)
        )
        assert isinstance(answer, PartsListed)
        return {part.header.id: part.header for part in answer.parts}

    async def read(self, i: int, part: MadePart) -> bytes:
        """The bytes of a part, from node i by HTTP."""
        endpoint, size = self.cluster.endpoint(i), part.header.size_bytes
        read = self.parts.read
        return await asyncio.to_thread(read, endpoint, part.key, 0, size, size_bytes=size)

    async def until_here(self, i: int, *parts: MadePart) -> None:
        """Node i has these parts, registered, and no others are missing there."""

        async def is_here() -> bool:
            wanted = {part.key.part: part.header for part in parts}
            if await self.listed(i) != wanted:
                return False
            async with self.keeper() as keeper:
                paths = ShardPaths(self.table, self.shard).replica(self.nodes[i])
                return set(await keeper.children(paths.parts)) == {*wanted}

        await eventually(is_here)

    async def until_active(self, i: int) -> None:
        async def is_active() -> bool:
            status = await asyncio.to_thread(self.status, i)
            return bool(status.get("phase") == "active")

        await eventually(is_active)

    def status(self, i: int) -> dict[str, Any]:
        """What node i says of its replica."""
        import urllib.request

        with urllib.request.urlopen(f"{self.cluster.http(i)}/api/status", timeout=30) as said:
            replicas = json.load(said)["machines"]["tables"]["detail"]["replicas"]
        found: dict[str, Any] = replicas.get(f"{self.table}/{self.shard}", {})
        return found

    def folder(self, i: int, key: PartKey, state: PartState = PartState.STORED) -> Path:
        """Where node i has a part."""
        return part_folder(self.cluster.folder / f"node-{i}" / "parts", key, state)

    async def _ask(self, i: int, make: Callable[[RequestId], Any]) -> TablesAnswer:
        node = Address(f"n{i}")
        link: Link[TablesAnswer] = Link(
            {node: self.cluster.endpoint(i)}, FrameKind.TABLES, TablesAnswer
        )
        async with link:
            answer = await link.ask(node, lambda number: make(RequestId(number)), SECONDS_MAX)
        if isinstance(answer, TableRefused):
            raise error_of(answer.code, answer.what, answer.advice)
        return answer


async def _is_there(keeper: KeeperClient, path: str) -> bool:
    return await keeper.exists(path) is not None


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something holds; an error of ours counts as no."""
    last: MotetError | None = None
    for _ in range(int(SECONDS_MAX / 0.1)):
        try:
            if await holds():
                return
        except (MotetError, OSError) as error:
            last = error if isinstance(error, MotetError) else None
        await asyncio.sleep(0.1)
    raise AssertionError(f"it does not come to that: {last}")
