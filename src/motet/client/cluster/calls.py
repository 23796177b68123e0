"""The requests of a database about streams, answered by a cluster: by the operator and leaders of shards."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from motet.client.calls import Calls, Changes, Expected, Make, ToldClock, closed
from motet.client.clock_visibility import ClockVisibility
from motet.client.cluster.feed import ClusterFeed
from motet.client.cluster.measure import FeedMeasure
from motet.client.cluster.refusals import after_a_moment
from motet.client.cluster.router import Router
from motet.client.cluster.session import UnderWay
from motet.client.cluster.transactions import Coordinator
from motet.client.link import answer_seconds_max
from motet.core.clock.hlc import ZERO, Clock
from motet.core.metadata.definitions import NEWEST, StreamDefinition
from motet.core.onelog.conversation import StreamsMessage, StreamsRequest
from motet.core.onelog.messages import (
    ClockReleased,
    CreateStream,
    Describe,
    Described,
    GetLatest,
    GetTransaction,
    KeyRead,
    Latest,
    ReadFeed,
    ReadVisible,
    ReleaseClock,
    SplitFeed,
    StreamInfo,
    StreamReady,
    TransactionIs,
    VisibleIs,
)
from motet.core.streams.cluster_messages import CreateStream as CreateOnCluster
from motet.core.streams.cluster_messages import (
    DeleteStream,
    DescribeShards,
    OperatorDone,
    ShardsDescribed,
    StreamCreated,
    StreamPlace,
)
from motet.errors import MotetError
from motet.errors.operator import MapTooOld, NoNodeToPlaceOn
from motet.ids import RequestId, StreamId, StreamName, TransactionId
from motet.real.process import RealEntropy

operator_seconds_max = 15.0
"""How long an operator may take: a new stream is ready when all its shards have leaders."""

map_seconds_max = 5.0


class ClusterCalls(Calls):
    """Stands where an embedded database has its one node."""

    def __init__(self, router: Router) -> None:
        self.name = router.name
        self.router = router
        self.coordinator = Coordinator(router)
        self.feed = ClusterFeed(router)
        self._measure = FeedMeasure(self.feed)
        self.clock_visibility = ClockVisibility()
        self._closing = asyncio.Event()
        #: what closing waits for
        self.under_way = UnderWay()
        self._entropy = RealEntropy()

    async def once(
        self, make: Make, kind: type[Expected], _seconds: float | None = None
    ) -> Expected:
        self._check_open()
        with self.under_way:
            answer = await self._answer(make(RequestId(0)))
        assert isinstance(answer, kind)
        return answer

    async def repeated(
        self, make: Make, kind: type[Expected], seconds: float | None = None
    ) -> Expected:
        return await self.once(make, kind, seconds)

    async def commit(
        self, name: TransactionId, begin: Clock, reads: Sequence[KeyRead], changes: Changes
    ) -> ToldClock:
        self._check_open()
        with self.under_way:
            return await self.coordinator.commit(name, begin, reads, changes)

    async def fix_clock(
        self, name: TransactionId, begin: Clock, reads: Sequence[KeyRead], changes: Changes
    ) -> ToldClock:
        self._check_open()
        with self.under_way:
            return await self.coordinator.fix(name, begin, reads, changes)

    async def commit_fixed(self, name: TransactionId) -> ToldClock:
        self._check_open()
        with self.under_way:
            return await self.coordinator.commit_fixed(name)

    async def feed_begins(self, streams: tuple[StreamName, ...]) -> dict[StreamName, Clock]:
        self._check_open()
        return await self.feed.begins(await self.feed.places(streams))

    def _check_open(self) -> None:
        if self.is_closing():
            raise closed(self.name)

    async def close(self) -> None:
        self._closing.set()
        await self.under_way.until_none(answer_seconds_max)
        await self.router.close()

    async def _answer(self, message: StreamsRequest) -> StreamsMessage:
        if isinstance(message, GetLatest):
            found = await self.coordinator.latest(message.stream, message.key)
            return Latest(message.request, found)
        if isinstance(message, ReleaseClock):
            await self.coordinator.release(message.transaction)
            return ClockReleased(message.request)
        if isinstance(message, GetTransaction):
            return TransactionIs(
                message.request, *await self.coordinator.status(message.transaction)
            )
        if isinstance(message, ReadFeed):
            return await self.feed.read(message)
        if isinstance(message, SplitFeed):
            return await self._measure.split(message, self.router.map.cluster)
        if isinstance(message, ReadVisible):
            visible = await self.feed.visible(message.streams, wait=message.wait)
            return VisibleIs(message.request, visible)
        if isinstance(message, Describe):
            return await self.described()
        if isinstance(message, CreateStream):
            return await self.create(message.name, message.shards, None, message.schema)
        raise AssertionError(f"a cluster is not asked for {type(message).__name__}")

    async def create(
        self, name: StreamName, shards: int, replicas: int | None, schema: bytes | None
    ) -> StreamReady:
        """Have a stream created, and wait until all its shards can be written to."""
        stream, fence = StreamId(f"{self._entropy.nonce():016x}"), self.router.map.fence
        definition = StreamDefinition(stream, name, shards, replicas, schema, key_hash=NEWEST)

        def attempt(number: RequestId) -> CreateOnCluster:
            return CreateOnCluster(number, definition, fence)

        async def asked() -> StreamCreated:
            nonlocal fence
            try:
                return await self.router.ask_operator(attempt, StreamCreated, operator_seconds_max)
            except MapTooOld as error:  # others have been deleted meanwhile: it is still wanted
                fence = error.fence
                raise

        done = await after_a_moment(asked, NoNodeToPlaceOn, MapTooOld)
        await self.router.until_known(name, is_there=True, seconds=map_seconds_max)
        return StreamReady(RequestId(0), done.created, info_of(done.place.definition))

    async def delete(self, name: StreamName) -> None:
        """Have a stream deleted, with its data: the one that has the name now."""
        found = await self.router.ask_operator(
            lambda n: DescribeShards(n, name), ShardsDescribed, operator_seconds_max
        )
        stream = found.streams[0].id
        await self.router.ask_operator(
            lambda n: DeleteStream(n, name, stream), OperatorDone, operator_seconds_max
        )
        await self.router.until_known(name, is_there=False, seconds=map_seconds_max)

    async def described(self) -> Described:
        """The streams, as the newest map has them."""
        await self.router.refresh()
        streams = tuple(
            info_of(place.definition)
            for place in self.router.map.streams
            if not place.definition.is_deleted
        )
        clock, is_enabled = self.router.clock, self.router.map.clock_enabled
        return Described(RequestId(0), self.router.map.cluster, clock, clock, streams, is_enabled)

    async def infos(self) -> list[StreamInfo]:
        """The streams by name, with what the leaders of their shards say."""
        await self.router.refresh()
        places = [each for each in self.router.map.streams if not each.definition.is_deleted]
        return sorted(
            await asyncio.gather(*map(self._info, places)), key=lambda info: str(info.name)
        )

    async def _info(self, stream: StreamPlace) -> StreamInfo:
        info = info_of(stream.definition)
        try:
            shown = await asyncio.gather(
                *(self.router.describe(place.shard) for place in stream.places)
            )
        except MotetError:
            return info  # a shard without a leader: nobody can say
        entries = tuple(each.next_offset - each.first_offset for each in shown)
        return msgspec.structs.replace(
            info, entries=entries, created=min(each.created for each in shown)
        )


def info_of(definition: StreamDefinition) -> StreamInfo:
    """A definition as the face of a database shows it; how many entries there are is not known here."""
    return StreamInfo(definition.name, definition.shards, definition.schema, ZERO, ())
