"""The feed of a cluster: every shard is asked how far it is closed, and all are read that far and merged.

The lowest of the closed clocks is the visible clock: nothing at or below it will appear any more in any of
these shards. Leaders say how far they are closed, and close when they have been idle; pages come from any
replica that has closed far enough, else from the leader.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from motet.client.cluster.router import Router
from motet.client.link import answer_seconds_max
from motet.core.clock.hlc import ZERO, Clock
from motet.core.operator.messages import ShardPlace
from motet.core.streams.messages import FeedPage, ReadFeed
from motet.core.transaction.merging import ShardPage, merge
from motet.core.transaction.messages import CloseShard, ReadShardFeed, ShardClosed, ShardFeed
from motet.errors import NodeError, NoSuchShard, OutcomeUnknown
from motet.ids import RequestId, ShardId, ShardName, StreamName
from motet.limits import page_bytes_max
from motet.real.entropy import RealEntropy

Places = list[tuple[StreamName, ShardId, ShardPlace]]

close_seconds_max = answer_seconds_max + 5.0
visible_seconds_max = 30.0
"""How long ``visible_clock(wait=True)`` waits for a transaction that is in its way."""


class ClusterFeed:
    """The feeds of all shards, as one."""

    def __init__(self, router: Router) -> None:
        self._router = router
        #: shard -> the highest clock that it was ever said to be closed at: that stays true
        self._closed: dict[ShardName, Clock] = {}
        #: which replica of an ensemble is asked first
        self._favourite = RealEntropy().nonce() & 0xFFFF

    async def visible(self, streams: tuple[StreamName, ...], *, wait: bool) -> Clock:
        """The visible clock of these streams, of all if none is named."""
        places = await self._places(streams)
        if not places:
            return self._router.clock
        heads = await asyncio.gather(*(self._close(place.shard, None) for *_, place in places))
        if not wait:
            return self._lowest(places)
        target = max(self._router.clock, *(head.clock for head in heads))
        deadline = asyncio.get_running_loop().time() + visible_seconds_max
        while (visible := self._lowest(places)) < target:
            late = [p.shard for *_, p in places if self._closed[p.shard] < target]
            answers = await asyncio.gather(*(self._close(shard, target) for shard in late))
            if asyncio.get_running_loop().time() > deadline and self._lowest(places) < target:
                held = next((each.held_by for each in answers if each.held_by is not None), None)
                what = "a shard" if held is None else f"transaction {held[0]}"
                raise NodeError(f"{what} holds the visible clock back", hint="try again later")
        return visible

    async def read(self, message: ReadFeed) -> FeedPage:
        """One page: whole transactions, up to the visible clock."""
        places = await self._places(message.streams)
        await asyncio.gather(*(self._close(place.shard, None) for *_, place in places))
        visible = self._lowest(places)
        target = visible if message.up_to is None else min(visible, message.up_to)
        after = message.after or ZERO
        if after >= target:
            return FeedPage(message.request, (), after, visible, more=False)
        pages = await asyncio.gather(
            *(self._page(*place, message, target) for place in places),
        )
        merged = merge(pages, message.limit)
        more = merged.more or merged.through < target
        return FeedPage(message.request, merged.changes, merged.through, visible, more)

    async def _places(self, streams: tuple[StreamName, ...]) -> Places:
        if streams:
            found = [await self._router.stream(name) for name in streams]
        else:
            await self._router.refresh()
            found = [each for each in self._router.map.streams if not each.definition.is_deleted]
        return [
            (each.definition.name, ShardId(number), place)
            for each in found
            for number, place in enumerate(each.places)
        ]

    def _lowest(self, places: Places) -> Clock:
        return min(self._closed[place.shard] for *_, place in places)

    async def _close(self, shard: ShardName, at_least: Clock | None) -> ShardClosed:
        def make(request: RequestId, clock: Clock) -> CloseShard:
            return CloseShard(request, clock, shard, at_least)

        answer = await self._router.ask_leader(
            shard, make, ShardClosed, may_repeat=True, seconds=close_seconds_max
        )
        self._router.see(answer.clock)
        self._closed[shard] = max(answer.closed, self._closed.get(shard, ZERO))
        return answer

    async def _page(
        self,
        stream: StreamName,
        number: ShardId,
        place: ShardPlace,
        message: ReadFeed,
        target: Clock,
    ) -> ShardPage:
        shard = place.shard

        def make(request: RequestId, clock: Clock) -> ReadShardFeed:
            return ReadShardFeed(
                request, clock, shard, message.after, target, message.limit, page_bytes_max
            )

        found: ShardFeed | None = None
        with suppress(NodeError, NoSuchShard, OutcomeUnknown):  # the map may be old
            found = await self._router.ask_replicas(shard, make, ShardFeed, first=self._favourite)
        if found is None or (not found.entries and found.through < target):
            found = await self._router.ask_leader(
                shard, make, ShardFeed, may_repeat=True, seconds=answer_seconds_max
            )
        return ShardPage(stream, number, shard, found.entries, found.through)
