"""How it stands with the replicas of tables and with their logs, as nodes and the keeper tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from motet.client.table_link import TableLink, all_of, node_seconds_max
from motet.core.mergetree.messages import NamedTable
from motet.core.mergetree.standing_messages import (
    DescribeReplicas,
    LoggedEntry,
    OpenQuorum,
    ReadShardLog,
    ReplicasDescribed,
    ReplicaStanding,
    ShardLogIs,
)
from motet.errors import MotetError, NoSuchTable
from motet.ids import Address, NodeId, RequestId, TableId, TableName


class ReplicaAt(NamedTuple):
    """How it stands with a replica, and where that is."""

    node: NodeId
    endpoint: str
    standing: ReplicaStanding


class LogOf(NamedTuple):
    """The log of a shard, and what waits for a quorum in it."""

    table: TableName
    shard: int
    entries: list[LoggedEntry]
    quorums: list[OpenQuorum]


class TableStandings:
    """Gathers this for one database."""

    def __init__(self, link: TableLink) -> None:
        self._link = link

    async def replicas(self) -> list[ReplicaAt]:
        """How it stands with all replicas; those of nodes that do not answer are left out."""
        with self._link.under_way:
            nodes = await self._link.all_nodes()
            told = await all_of(self._replicas_at(node) for node in nodes)
        return [
            ReplicaAt(found.node, self._link.endpoint_of(node), each)
            for node, found in zip(nodes, told, strict=True)
            if found is not None
            for each in found.replicas
        ]

    async def _replicas_at(self, node: Address) -> ReplicasDescribed | None:
        try:
            return await self._link.ask(node, DescribeReplicas, ReplicasDescribed, node_seconds_max)
        except MotetError:
            self._link.check_open()
            return None

    async def logs(self, tables: Sequence[NamedTable]) -> list[LogOf]:
        """The logs of all shards, as the keeper has them; of one that grows, its beginning."""
        shards = [
            (each.name, each.definition.id, shard)
            for each in tables
            for shard in range(each.definition.shards)
        ]
        with self._link.under_way:
            return await all_of(self._log(*each) for each in shards)

    async def _log(self, name: TableName, table: TableId, shard: int) -> LogOf:
        entries: list[LoggedEntry] = []
        quorums: list[OpenQuorum] = []
        first, more = 0, True
        while more:

            def make(number: RequestId, first: int = first) -> ReadShardLog:
                return ReadShardLog(number, table, shard, first)

            try:
                page = (await self._link.read_any(make, ShardLogIs)).answer
            except NoSuchTable:  # it was dropped just now
                break
            entries += page.entries
            quorums += page.quorums
            first, more = page.next_number, page.more
        return LogOf(name, shard, entries, quorums)
