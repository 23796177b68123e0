"""A cluster of processes with one table, made below the level of `motet.connect`."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from tests.node.made_parts import MadePart

from motet.client.keeper.client import KeeperClient
from motet.client.link import Link
from motet.client.part_client import PartClient
from motet.core.mergetree.conversation import TablesAnswer
from motet.core.mergetree.entries import PartHeader
from motet.core.mergetree.messages import (
    BlockInserted,
    CreateTable,
    DescribeTables,
    InsertBlock,
    ListParts,
    NodeRefused,
    PartsListed,
    TableReady,
    TableRefused,
    TablesDescribed,
)
from motet.core.mergetree.paths import ShardPaths
from motet.core.metadata.definitions import Column, TableDefinition
from motet.errors import MotetError, error_of
from motet.format.frame import FrameKind
from motet.ids import Address, NodeId, RequestId, TableId, TableName, Zxid
from motet.limits import insert_inline_bytes_max
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

    async def create(self) -> None:
        """A replica of each shard on each node."""
        definition = TableDefinition(
            self.table, b"a schema", (Column(1, "a"),), ("a",), shards=self.shard + 1
        )
        name, replicas = TableName("t"), len(self.nodes)
        answer = await self._ask(
            0, lambda request: CreateTable(request, name, definition, replicas)
        )
        assert isinstance(answer, TableReady)
        assert answer.definition == definition
        for i in range(len(self.nodes)):
            await self.until_active(i)

    async def head(self) -> tuple[int, Zxid]:
        """The head of the log, and a version at which all of it is seen."""
        names = (TableName("t"),)
        answer = await self._ask(0, lambda request: DescribeTables(request, names))
        assert isinstance(answer, TablesDescribed)
        return answer.tables[0].shards[self.shard].head, answer.version.zxid

    async def insert(self, i: int, part: MadePart, *, quorum: int) -> BlockInserted:
        """Through node i, where a large part is put before."""
        is_small = len(part.data) <= insert_inline_bytes_max
        if not is_small:
            endpoint = self.cluster.endpoint(i)
            await asyncio.to_thread(self.parts.put, endpoint, part.key, part.manifest, part.data)
        self._tokens += 1
        token, block = f"t{self._tokens}", part.block if is_small else None
        answer = await self._ask(
            i,
            lambda request: InsertBlock(
                self.table, self.shard, request, part.header, quorum, token, "c", block=block
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
            async with KeeperClient(self.cluster.zookeeper(i)) as keeper:
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
        if isinstance(answer, TableRefused | NodeRefused):
            raise error_of(answer.code, answer.what, answer.advice)
        return answer


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
