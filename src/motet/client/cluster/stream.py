"""A stream of a cluster: appends go to the leaders of its shards, reads to leaders or to any replica."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from motet.client.change import Entry, Position
from motet.client.cluster.appender import ShardAppender
from motet.client.cluster.calls import ClusterCalls, info_of
from motet.client.cluster.feed import close_seconds_max
from motet.client.cluster.router import MakeData, Router
from motet.client.link import answer_seconds_max
from motet.client.rows import (
    Key,
    Schemas,
    key_bytes,
    need_pyarrow,
    page_limit,
    token_of,
    value_bytes,
    whole_number,
)
from motet.client.stream import AsyncStream, HasOffset, check_source, offset_of
from motet.core.clock.hlc import Clock
from motet.core.shardlog.entry import EntryKind
from motet.core.streams.change import FeedChange
from motet.core.streams.cluster_messages import ShardPlace, StreamPlace
from motet.core.streams.entries import changes_of, decode_records, record_range
from motet.core.streams.messages import (
    CloseShard,
    FoundRecords,
    ReadRecords,
    RecordsRead,
    ShardClosed,
    Source,
)
from motet.errors import NodeError, NoSuchShard
from motet.ids import Epoch, Offset, ShardId, ShardName, StreamName
from motet.limits import page_bytes_max
from motet.real.process import RealEntropy

if TYPE_CHECKING:
    from motet.columnar.raw_records import KeyValues


class Appenders:
    """All ways of a client into shards, each made when it is first needed."""

    def __init__(self, router: Router, seconds: float = answer_seconds_max) -> None:
        self._router = router
        self._seconds = seconds
        self._by_shard: dict[ShardName, ShardAppender] = {}

    def of(self, shard: ShardName, number: ShardId) -> ShardAppender:
        found = self._by_shard.get(shard)
        if found is None:
            found = ShardAppender(self._router, shard, number, self._seconds)
            self._by_shard[shard] = found
        return found


class ClusterStream(AsyncStream):
    """A stream by its name; whether there is one shows when it is used."""

    def __init__(
        self,
        calls: ClusterCalls,
        name: str,
        schemas: Schemas,
        router: Router,
        appenders: Appenders,
    ) -> None:
        super().__init__(calls, name, schemas)
        self._under_way = calls.under_way
        self._router = router
        self._appenders = appenders
        self._place: StreamPlace | None = None
        #: which replica of an ensemble is asked first: readers are spread over all of them
        self._favourite = RealEntropy().nonce() & 0xFFFF

    async def append(
        self, key: Key, value: bytes, token: tuple[str, int] | None = None
    ) -> Position:
        key, value, named = key_bytes(key), value_bytes(value), token_of(token)
        with self._under_way:
            place = self._place or await self._find()
            try:
                return await self._way(place, key).append(key, value, named)
            except NoSuchShard:
                # The stream was deleted. If there is a new one of its name, that is the one that is meant.
                place = await self._find()
                return await self._way(place, key).append(key, value, named)

    def _way(self, place: StreamPlace, key: bytes) -> ShardAppender:
        places = place.places
        number = place.shard_of(key) if len(places) > 1 else ShardId(0)
        return self._appenders.of(places[number].shard, number)

    async def append_batch(self, data: object) -> list[Position]:
        need_pyarrow("append_batch")
        from motet.columnar.raw_records import KeyValues

        rows = KeyValues.of(data)
        with self._under_way:
            return await self._append_all(rows)

    async def _append_all(self, rows: KeyValues) -> list[Position]:
        place = self._place or await self._find()
        places = place.places
        if len(places) == 1:
            return await self._append_rows(ShardId(0), places[0].shard, rows)
        parts = rows.by_shard(place.shard_of)
        found: dict[int, Position] = {}

        async def append_part(shard: int, numbers: list[int], part: KeyValues) -> None:
            done = await self._append_rows(ShardId(shard), places[shard].shard, part)
            found.update(zip(numbers, done, strict=True))

        await asyncio.gather(*(append_part(*part) for part in parts))
        return [found[row] for row in range(len(rows))]

    async def _append_rows(
        self, shard: ShardId, name: ShardName, rows: KeyValues
    ) -> list[Position]:
        """The rows of one shard, a block after the other, so that they stay in order."""
        appender = self._appenders.of(name, shard)
        found: list[Position] = []
        for many, block in rows.blocks():
            place = await appender.append_block(many, block)
            epoch, first, clock = place.epoch, place.first_offset, place.clock
            found += [
                Position(shard, epoch, Offset(offset), clock)
                for offset in range(first, first + many)
            ]
        return found

    async def _find(self) -> StreamPlace:
        self._place = await self._router.stream(self.name)
        self._schemas.learn([info_of(self._place.definition)])
        return self._place

    async def read(
        self,
        shard: int = 0,
        after: int | HasOffset | None = None,
        limit: int = 1000,
        source: Source = "leader",
    ) -> list[Entry]:
        page_limit(limit)
        check_source(source)
        begin = Offset(offset_of(after))
        found = await self._read(shard, begin, limit, source, None)
        schema = await self._schemas.of(self.name)
        name = (await self._shard(shard)).shard
        entries = _entries(self.name, ShardId(shard), name, found, begin)
        return [Entry(raw, schema, epoch) for raw, epoch in islice(entries, limit)]

    async def _read(
        self, shard: int, after: Offset, limit: int, source: Source, resume: Offset | None
    ) -> RecordsRead:
        place = await self._shard(shard)
        session = self._router.session

        def make(asked: Source) -> MakeData:
            return lambda request, clock: ReadRecords(
                request, clock, place.shard, after, limit, page_bytes_max, asked, resume
            )

        found: RecordsRead | None = None
        try:
            if source == "replica":
                found = await self._router.ask_replicas(
                    place.shard, make("replica"), RecordsRead, first=self._favourite
                )
            if found is None or not session.is_enough(place.shard, found):
                found = await self._ask_leader(place.shard, make("leader"))
        except NoSuchShard:
            self._place = None  # whoever asks again gets the stream that has its name now
            await self._find()
            raise
        self._router.see(found.clock)
        session.reached(place.shard, found.next_offset)
        return found

    async def _ask_leader(self, shard: ShardName, make: MakeData) -> RecordsRead:
        """What the leader has; and all that we have been told of is in it."""
        while True:
            found = await self._router.ask_leader(
                shard, make, RecordsRead, may_repeat=True, seconds=answer_seconds_max
            )
            floor = self._router.session.closed_floor(shard)
            if found.closed >= floor:
                return found
            await self._close(shard, floor)

    async def _close(self, shard: ShardName, clock: Clock) -> None:
        """Wait until a shard is closed up to a clock: then all that was committed up to it is there."""
        closed = await self._router.ask_leader(
            shard,
            lambda request, seen: CloseShard(request, seen, shard, clock),
            ShardClosed,
            may_repeat=True,
            seconds=close_seconds_max,
        )
        if closed.closed < clock:
            held = "" if closed.held_by is None else f": transaction {closed.held_by[0]} is open"
            label = self._router.map.label(shard)
            raise NodeError(f"{label} is not closed up to {clock}{held}", hint="try again later")

    async def _shard(self, shard: int) -> ShardPlace:
        places = (self._place or await self._find()).places
        whole_number("shard", shard, 0, (1 << 31) - 1)
        if shard >= len(places):
            raise NoSuchShard(f"{self.name} has no shard {shard}, it has {len(places)}")
        return places[shard]

    async def read_arrow(
        self, shard: int = 0, after: int | HasOffset | None = None, limit: int = 10_000
    ) -> Any:
        page_limit(limit)
        begin = Offset(offset_of(after))
        found = await self._read(shard, begin, limit, "leader", None)
        from motet.columnar.raw_records import entries_table, records_table

        if any(entry.kind != EntryKind.RECORDS for entry in found.entries):
            name = (await self._shard(shard)).shard
            entries = _entries(self.name, ShardId(shard), name, found, begin)
            return entries_table(list(islice(entries, limit)))
        bodies = [(e.epoch, e.clock, decode_records(e.body)) for e in found.entries]
        return records_table(bodies, begin, limit)

    async def pages(
        self, shard: int, after: Offset, source: Source = "leader"
    ) -> AsyncIterator[list[FoundRecords]]:
        """The entries of a shard as they were logged, page by page, up to its end."""
        resume: Offset | None = None
        while True:
            found = await self._read(shard, after, page_limit_max, source, resume)
            if not found.entries:
                return
            yield list(found.entries)
            last = record_range(found.entries[-1])
            assert last is not None
            after, resume = Offset(last[0] + last[1] - 1), found.resume

    async def stats(self) -> list[dict[str, Any]]:
        """Of each shard its leader, its ensemble, and how many records it has."""
        rows: list[dict[str, Any]] = []
        for number in count():
            places = (await self._find()).places
            if number >= len(places):
                return rows
            place = places[number]
            shown = await self._router.describe(place.shard)
            rows.append(
                {
                    "shard": number,
                    "leader": place.leader,
                    "ensemble": list(place.ensemble),
                    "epoch": shown.epoch,
                    "first_offset": shown.first_offset,
                    "next_offset": shown.next_offset,
                }
            )
        return rows


page_limit_max = 1 << 20


def _entries(
    stream: StreamName, number: ShardId, shard: ShardName, found: RecordsRead, after: Offset
) -> Iterator[tuple[FeedChange, Epoch]]:
    for logged in found.entries:
        for raw in changes_of(stream, number, shard, logged):
            if raw.offset > after:
                yield raw, logged.epoch
