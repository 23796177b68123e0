"""Named cursors and pruning on an embedded database: its one node obeys an order for all streams at once."""

from __future__ import annotations

from motet.client.calls import Calls
from motet.client.named_cursor import NamedCursor, named_cursors
from motet.core.clock.hlc import Clock
from motet.core.onelog.messages import DescribeFeed, FeedDescribed, FeedObeyed, KeptFeed, OrderFeed
from motet.core.streams.orders import Order, Prune, SetCursor
from motet.ids import StreamName

prune_seconds_max = 120.0
"""How long a node may take to write once more what it keeps of files that it gives back."""


class NodeOrders:
    """The orders of one client."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def set_cursor(
        self, name: str, streams: tuple[StreamName, ...], clock: Clock | None
    ) -> None:
        await self._order(streams, SetCursor(name, clock))

    async def prune(
        self, streams: tuple[StreamName, ...], up_to: Clock, *, is_forced: bool
    ) -> None:
        await self._order(streams, Prune(up_to, is_forced), prune_seconds_max)

    async def low_watermarks(self, streams: tuple[StreamName, ...]) -> dict[StreamName, Clock]:
        return {each.stream: each.low_watermark for each in await self._described(streams)}

    async def cursors(self) -> list[NamedCursor]:
        found = await self._described(())
        return named_cursors((each.stream, each.cursors, each.low_watermark) for each in found)

    async def _order(
        self, streams: tuple[StreamName, ...], order: Order, seconds: float | None = None
    ) -> None:
        await self._calls.repeated(lambda n: OrderFeed(n, streams, order), FeedObeyed, seconds)

    async def _described(self, streams: tuple[StreamName, ...]) -> tuple[KeptFeed, ...]:
        answer = await self._calls.repeated(lambda n: DescribeFeed(n, streams), FeedDescribed)
        return answer.streams
