"""A cluster with the face of a database."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial

from motet.client.cluster.calls import ClusterCalls, info_of, map_seconds_max, operator_seconds_max
from motet.client.cluster.feed import ClusterFeed
from motet.client.cluster.refusals import after_a_moment
from motet.client.cluster.router import MakeOperator, Router
from motet.client.cluster.stream import Appenders, ClusterStream
from motet.client.cursors import Bookmark, NamedCursor, bookmark_clock, bookmark_text, named_cursors
from motet.client.database import AsyncDatabase
from motet.client.feed_status import FeedStatus, IncompleteTransaction, NodeStanding
from motet.client.link import answer_seconds_max
from motet.client.rows import shard_count, stream_name, whole_number
from motet.client.stream import AsyncStream
from motet.client.tables import Tables
from motet.core.clock.hlc import Clock
from motet.core.onelog.messages import StreamInfo
from motet.core.streams.cluster_messages import (
    ContractShard,
    DescribeShards,
    DrainNode,
    ElectLeader,
    EnableClock,
    ExpandShard,
    OperatorDone,
    ShardMap,
    ShardsDescribed,
    SwapNode,
)
from motet.core.streams.messages import OrderShard, ShardOrdered
from motet.core.streams.orders import FeedRules, Order, Prune
from motet.errors import OutcomeUnknown
from motet.errors.operator import NoLeader
from motet.ids import NodeId, ShardId, ShardName, StreamName

replicas_max = 7
reconfiguration_seconds_max = 60.0
"""How long a change of an ensemble may take: the new node gets a copy of the shard."""

drain_seconds_max = 600.0


class ClusterHome:
    """Where a cluster lives: at its endpoints."""

    def __init__(self, endpoint: str, router: Router) -> None:
        self._endpoint = endpoint
        self._router = router

    async def endpoint(self) -> str:
        """All data nodes, the one that has answered first: whoever gets this can do without any of them."""
        nodes = self._router.data_nodes().values()
        return ",".join([self._endpoint, *(each for each in nodes if each != self._endpoint)])


class AsyncClusterDatabase(AsyncDatabase):
    """A cluster; made by ``motet.aio.connect`` to any of its nodes."""

    def __init__(
        self, router: Router, endpoint: str, tables: Tables, opened: AsyncExitStack
    ) -> None:
        calls = ClusterCalls(router)
        home = ClusterHome(endpoint, router)
        super().__init__(calls, router.map.cluster, home, tables, opened)
        self._cluster = calls
        #: the ways to its nodes
        self.router = router
        self._appenders = Appenders(router)
        self._orders = ClusterOrders(router, calls.feed)
        router.on_map = self._take_schemas

    def _take_schemas(self, found: ShardMap) -> None:
        self.schemas.replace(
            info_of(each.definition) for each in found.streams if not each.definition.is_deleted
        )

    async def create_stream(
        self,
        name: str,
        schema: object | None = None,
        shards: int = 4,
        replicas: int | None = None,
    ) -> AsyncStream:
        wanted, count = stream_name(name), shard_count(shards)
        if replicas is not None:
            whole_number("replicas", replicas, 1, replicas_max)
        kept = self.schemas.encoded(schema, wanted)
        ready = await self._cluster.create(wanted, count, replicas, kept)
        self.schemas.learn([ready.info])
        return self.stream(name)

    async def delete_stream(self, name: str) -> None:
        await self._cluster.delete(stream_name(name))

    def stream(self, name: str) -> AsyncStream:
        return ClusterStream(self._cluster, name, self.schemas, self.router, self._appenders)

    async def streams(self) -> list[StreamInfo]:
        """All streams, by name; one with a shard that nobody leads tells no entries and no creation time."""
        return await self._cluster.infos()

    async def clock(self) -> Clock:
        """The highest clock of all shards, and of all that this client has seen."""
        return (await self.feed_status()).clock

    async def _enable_clock(self, enabled: bool) -> None:
        await self._ordered(lambda n: EnableClock(n, enabled), operator_seconds_max)
        await self.router.until_clock(is_enabled=enabled, seconds=map_seconds_max)

    async def feed_status(self, *streams: str) -> FeedStatus:
        return await self._cluster.feed.status(tuple(map(stream_name, streams)))

    async def nodes(self) -> list[NodeStanding]:
        await self.router.refresh()
        places = [place for stream in self.router.map.streams for place in stream.places]
        return [
            NodeStanding(
                node.id,
                node.native,
                node.roles,
                shards=sum(node.id in place.ensemble for place in places),
                leads=sum(node.id == place.leader for place in places),
            )
            for node in self.router.map.nodes
        ]

    async def incomplete_transactions(self) -> list[IncompleteTransaction]:
        return await self._cluster.feed.incomplete()

    async def bookmark(self) -> str:
        return bookmark_text(Bookmark(self.database_id, self.router.clock))

    async def resume_after(self, bookmark: str) -> None:
        self.router.resume_after(
            bookmark_clock(bookmark, database=self.database_id, name=self.router.name)
        )

    def _age(self) -> Clock:
        return self.router.clock

    # Shards

    async def describe_shards(self, stream: str | None = None) -> ShardsDescribed:
        """The metadata of shards, and what their nodes say of them."""
        name = None if stream is None else stream_name(stream)
        return await self.router.ask_operator(
            lambda n: DescribeShards(n, name), ShardsDescribed, operator_seconds_max
        )

    async def elect(self, stream: str, shard: int, preferred: str | None = None) -> str:
        """Have a leader elected anew."""
        name, wanted = stream_name(stream), _node(preferred)
        return await self._ordered(
            lambda n: ElectLeader(n, name, ShardId(shard), wanted), operator_seconds_max
        )

    async def swap(self, stream: str, shard: int, old_node: str, new_node: str | None) -> str:
        """Replace a node of an ensemble."""
        name, new = stream_name(stream), _node(new_node)
        return await self._changed(
            lambda n: SwapNode(n, name, ShardId(shard), NodeId(old_node), new)
        )

    async def expand(self, stream: str, shard: int, new_node: str | None = None) -> str:
        """Add a node to an ensemble."""
        name, new = stream_name(stream), _node(new_node)
        return await self._changed(lambda n: ExpandShard(n, name, ShardId(shard), new))

    async def contract(self, stream: str, shard: int, old_node: str | None = None) -> str:
        """Take a node out of an ensemble."""
        name, old = stream_name(stream), _node(old_node)
        return await self._changed(lambda n: ContractShard(n, name, ShardId(shard), old))

    async def drain(self, node: str, *, is_drained: bool = True) -> str:
        """Empty a node of shards, or let it take some again."""
        return await self._ordered(
            lambda n: DrainNode(n, NodeId(node), is_drained), drain_seconds_max
        )

    async def _changed(self, make: MakeOperator) -> str:
        """A change of an ensemble: one that is repeated would be another one."""
        try:
            return await self._ordered(make, reconfiguration_seconds_max, may_repeat=False)
        except OutcomeUnknown as error:
            hint = "look with `motet shard describe` before you try again"
            raise OutcomeUnknown(error.what, hint=hint) from None

    async def _ordered(self, make: MakeOperator, seconds: float, *, may_repeat: bool = True) -> str:
        ask = partial(self.router.ask_operator, make, OperatorDone, seconds, may_repeat=may_repeat)
        done = await after_a_moment(ask, NoLeader)
        await self.router.refresh()
        return done.what


def _node(name: str | None) -> NodeId | None:
    return None if name is None else NodeId(name)


class ClusterOrders:
    """Orders to all shards of some streams, each obeyed once or for ever.

    A named cursor is kept by every shard of its streams; whoever sets it again, after a crash in between,
    sets all of them. Pruning asks all shards first, so that a cursor in the way of one is told before any
    has pruned.
    """

    def __init__(self, router: Router, feed: ClusterFeed) -> None:
        self._router = router
        self._feed = feed

    async def order(self, streams: tuple[StreamName, ...], order: Order) -> None:
        places = await self._feed.places(streams)
        if isinstance(order, Prune):
            for found in await self._feed.kept(places):
                FeedRules(dict(found.cursors), found.low_watermark).check(order, order.up_to)

        async def one(shard: ShardName) -> None:
            done = await self._router.ask_leader(
                shard,
                lambda n, clock: OrderShard(n, clock, shard, order),
                ShardOrdered,
                may_repeat=True,
                seconds=answer_seconds_max,
            )
            self._router.see(done.clock)

        await asyncio.gather(*(one(place.shard) for *_, place in places))

    async def low_watermarks(self, streams: tuple[StreamName, ...]) -> dict[StreamName, Clock]:
        """Everything up to this clock is pruned, in one shard of the stream at least."""
        return await self._feed.low_watermarks(await self._feed.places(streams))

    async def cursors(self) -> list[NamedCursor]:
        places = await self._feed.places(())
        described = await self._feed.kept(places)
        return named_cursors(
            (stream, each.cursors, each.low_watermark)
            for (stream, *_), each in zip(places, described, strict=True)
        )
