"""Named cursors and pruning on a cluster: orders to all shards of some streams, each obeyed once or for ever.

A named cursor is kept by every shard of its streams; whoever sets it again, after a crash in between, sets
all of them. Pruning asks all shards first, so that a cursor in the way of one is told before any has pruned.
"""

from __future__ import annotations

import asyncio

from motet.client.cluster.feed import ClusterFeed, Places
from motet.client.cluster.router import Router
from motet.client.link import answer_seconds_max
from motet.client.named_cursor import NamedCursor, named_cursors
from motet.core.clock.hlc import Clock
from motet.core.streams.messages import OrderShard, ShardOrdered
from motet.core.streams.orders import FeedRules, Order, Prune, SetCursor
from motet.ids import ShardName, StreamName


class ClusterOrders:
    """The orders of one client."""

    def __init__(self, router: Router, feed: ClusterFeed) -> None:
        self._router = router
        self._feed = feed

    async def set_cursor(
        self, name: str, streams: tuple[StreamName, ...], clock: Clock | None
    ) -> None:
        """Keep what is above a clock for a reader of these streams; None: keep nothing for it."""
        places = await self._feed.places(streams)
        await self._order(places, SetCursor(name, clock))

    async def prune(
        self, streams: tuple[StreamName, ...], up_to: Clock, *, is_forced: bool
    ) -> None:
        """Prune these streams, if no named cursor is in the way, or all the same."""
        places, order = await self._feed.places(streams), Prune(up_to, is_forced)
        for found in await self._feed.kept(places):
            FeedRules(dict(found.cursors), found.low_watermark).check(order, up_to)
        await self._order(places, order)

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

    async def _order(self, places: Places, order: Order) -> None:
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
