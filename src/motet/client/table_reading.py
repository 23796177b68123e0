"""Which parts show some tables at a version: a plan, made anew when a replica goes away.

The keeper is read once, through any data node: names, definitions, and the head of each shard's log, all at
one version. Then a replica of each shard is asked for its parts as of that head and version. It answers only
if it has all of them. One that cannot is followed by another, once each; then the error names what is
missing. An *eventual* reader takes what any replica has.

``at`` is a version, its text, a snapshot, or a moment by the keeper's clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Literal, NamedTuple, get_args

from motet.client.publication import PartLocation, ShownPart, Snapshot, TableSnapshot
from motet.client.table_files import TableFiles
from motet.client.table_link import TableAttempts, TableLink, Told, all_of
from motet.core.mergetree.messages import (
    DescribeTables,
    FindVersion,
    ListedPart,
    ListParts,
    PartsListed,
    ReplicaPlace,
    ShardAt,
    TableAt,
    TablesDescribed,
    VersionFound,
)
from motet.core.mergetree.version import Version, parse_version
from motet.errors import BadInput, BadRecord, MotetError, NodeError, OutcomeUnknown
from motet.errors.shards import Unavailable
from motet.errors.tables import PartMissing, SnapshotExpired
from motet.ids import Address, RequestId, TableId, TableName, Zxid

Consistency = Literal["sequential", "eventual"]
At = Version | str | Snapshot | TableSnapshot | datetime | None

plan_seconds_max = 10.0
"""How long is looked for replicas that can be asked at all."""

serve_seconds_max = 5.0
"""How long is waited for the replicas of a new table."""

hedge_seconds = 1.0
"""So long one replica is waited for before another one is asked, too."""

pages_at_once = 32


class ShardParts(NamedTuple):
    """The parts of a shard, and the nodes that have them, who has listed them first."""

    parts: tuple[ListedPart, ...]
    nodes: tuple[Address, ...]


class TablePlans:
    """Plans for one database."""

    def __init__(self, link: TableLink, files: TableFiles) -> None:
        self._link = link
        self._files = files
        self._turn = asyncio.Semaphore(pages_at_once)

    async def describe(self, names: Sequence[TableName]) -> Told[TablesDescribed]:
        """These tables at one moment; ``NoSuchTable`` names one that is not there."""
        wanted = tuple(dict.fromkeys(names))
        return await self._link.read_any(lambda n: DescribeTables(n, wanted), TablesDescribed)

    async def snapshot(
        self, names: Sequence[TableName], at: At = None, consistency: Consistency = "sequential"
    ) -> Snapshot:
        """Some tables at one version: that of this moment, unless another is asked for."""
        is_eventual = consistency == "eventual" and at is None
        attempts: TableAttempts | None = None
        while True:
            told = await self.describe(names)
            try:
                version = await self._version(at, told)
                return await self._planned(told, version, is_eventual)
            except Unavailable as error:
                self._link.check_open()
                attempts = attempts or TableAttempts(plan_seconds_max, may_repeat=True)
                attempts.last = error
                await attempts.pause()

    async def _planned(
        self, told: Told[TablesDescribed], version: Version, is_eventual: bool
    ) -> Snapshot:
        tables = told.answer.tables
        shards = [(table, shard) for table in tables for shard in range(len(table.shards))]
        listings = await all_of(
            self._list(told.node, *each, version, is_eventual) for each in shards
        )
        parts: dict[TableId, list[ShownPart]] = {table.definition.id: [] for table in tables}
        for (table, shard), listing in zip(shards, listings, strict=True):
            nodes = await self._files.of_nodes(listing.nodes)
            parts[table.definition.id] += [
                ShownPart(part.name, PartLocation(table.definition.id, shard, part.header, nodes))
                for part in listing.parts
            ]
        shown = {
            table.name: TableSnapshot(
                table.name, table.definition, version, tuple(parts[table.definition.id])
            )
            for table in tables
        }
        return Snapshot(version, shown)

    # One shard

    async def _list(
        self, told_by: Address, table: TableAt, shard: int, version: Version, is_eventual: bool
    ) -> ShardParts:
        """The parts of a shard, by the first replica that can tell.

        One that takes its time is waited for, and another one is asked meanwhile.
        """
        places = readable(table, shard, is_eventual)
        nodes = self._link.silent_last(self._link.node_of(place, told_by) for place in places)
        asked: dict[asyncio.Task[tuple[ListedPart, ...]], Address] = {}
        failures: list[MotetError] = []
        left = list(nodes)
        try:
            while left or asked:
                if left:
                    node = left.pop(0)
                    ask = self._pages(node, table, shard, version, is_eventual)
                    asked[asyncio.ensure_future(ask)] = node
                done, _ = await asyncio.wait(
                    asked,
                    timeout=hedge_seconds if left else None,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                for task in done:
                    node = asked.pop(task)
                    try:
                        parts = task.result()
                    except (BadRecord, NodeError, OutcomeUnknown) as error:
                        failures.append(error)
                        continue
                    nodes.remove(node)
                    return ShardParts(parts, (node, *nodes))
        finally:
            for task in asked:
                task.cancel()
        raise cannot_read(table, shard, failures)

    async def _pages(
        self, node: Address, table: TableAt, shard: int, version: Version, is_eventual: bool
    ) -> tuple[ListedPart, ...]:
        head, found = table.shards[shard].head, list[ListedPart]()
        more = True
        while more:
            after = found[-1].name if found else ""

            def make(number: RequestId, after: str = after) -> ListParts:
                return ListParts(
                    *(table.definition.id, shard, number, head, version.zxid, is_eventual),
                    *(after, version.incarnation),
                )

            async with self._turn:
                page = await self._link.ask(node, make, PartsListed)
            found += page.parts
            more = page.more
        return tuple(found)

    async def sync(self, name: TableName) -> Version:
        """Wait until all active replicas have the version of this moment; an error names what one lacks."""
        told = await self.describe([name])
        (table,) = told.answer.tables
        version = told.answer.version
        await all_of(
            self._pages(self._link.node_of(place, told.node), table, shard, version, False)
            for shard in range(len(table.shards))
            for place in readable(table, shard, is_eventual=False)
        )
        return version

    async def until_served(self, name: TableName) -> None:
        """Wait until a majority of the replicas of each shard is active, but not for ever."""
        attempts = TableAttempts(serve_seconds_max, may_repeat=True)
        with suppress(MotetError):  # it is there: who writes or reads is told what is in the way
            while not all(map(_is_served, (await self.describe([name])).answer.tables[0].shards)):
                await attempts.pause()

    # Versions

    async def _version(self, at: At, told: Told[TablesDescribed]) -> Version:
        """The version that is asked for, if it can be shown."""
        now = told.answer.version
        if at is None:
            return now
        wanted = await self._at_moment(at, told) if isinstance(at, datetime) else version_of(at)
        if wanted.incarnation != now.incarnation:
            raise SnapshotExpired(
                f"version {wanted} is of an incarnation of the keeper that is gone",
                hint=f"it was restored or made anew: the versions that are left end with "
                f"@{now.incarnation}, the newest is {now}",
            )
        if wanted > now:
            raise BadInput(f"version {wanted} is not visible yet", hint=f"the newest is {now}")
        return wanted

    async def _at_moment(self, at: datetime, told: Told[TablesDescribed]) -> Version:
        """The last version of these tables until a moment: the entries of all shards have one order."""
        time_ms = moment_ms(at)
        found = await all_of(
            self._find(told.node, table, shard, time_ms)
            for table in told.answer.tables
            for shard in range(len(table.shards))
        )
        now = told.answer.version
        # An entry that came after that look may be older than the moment, by a clock that is ahead.
        return Version(now.incarnation, min(max(found, default=Zxid(0)), now.zxid))

    async def _find(self, told_by: Address, table: TableAt, shard: int, time_ms: int) -> Zxid:
        failures: list[MotetError] = []
        for place in readable(table, shard, is_eventual=False):
            node = self._link.node_of(place, told_by)
            try:
                async with self._turn:
                    found = await self._link.ask(
                        node,
                        lambda n: FindVersion(table.definition.id, shard, n, time_ms),
                        VersionFound,
                    )
            except (NodeError, OutcomeUnknown) as error:
                failures.append(error)
            else:
                return found.version
        raise cannot_read(table, shard, failures)


def readable(table: TableAt, shard: int, is_eventual: bool) -> list[ReplicaPlace]:
    """The replicas of a shard that may be read, in the order in which they are asked."""
    places = [
        place
        for place in table.shards[shard].replicas
        if not place.is_lost and (place.is_active or is_eventual)
    ]
    places.sort(key=lambda place: not place.is_active)
    first = shard % max(sum(place.is_active for place in places), 1)  # shards are spread over nodes
    return places[first:] + places[:first]


def _is_served(shard: ShardAt) -> bool:
    active = sum(place.is_active and not place.is_lost for place in shard.replicas)
    return 2 * active > len(shard.replicas)


def cannot_read(table: TableAt, shard: int, failures: Sequence[MotetError]) -> MotetError:
    """Why no replica of a shard can tell."""
    for failure in failures:
        if isinstance(failure, BadRecord | PartMissing):  # it names the part, and who has it
            return type(failure)(f"table {table.name}: {failure.what}", hint=failure.advice)
    what = f"shard {shard} of table {table.name} cannot be read"
    if failures:
        return Unavailable(f"{what}: {', '.join(failure.what for failure in failures)}")
    replicas = table.shards[shard].replicas
    lost = [place.node for place in replicas if place.is_lost]
    away = [place.node for place in replicas if not place.is_lost]
    why = [f"{' and '.join(away)} not active"] if away else []
    why += [f"{' and '.join(lost)} lost"] if lost else []
    return Unavailable(f"{what}: {', '.join(why)}", hint="start the nodes that have its replicas")


def version_of(at: object) -> Version:
    """What is given as a version."""
    if isinstance(at, Snapshot | TableSnapshot):
        return at.version
    if isinstance(at, Version):
        return at
    if isinstance(at, str):
        return parse_version(at)
    raise BadInput(
        f"{at!r} is not a version", hint="at is a version, its text, a Snapshot or a datetime"
    )


def moment_ms(at: datetime) -> int:
    """A moment as the keeper counts."""
    if at.tzinfo is None:
        raise BadInput(
            f"at={at.isoformat()} has no time zone", hint="for instance datetime.now(UTC)"
        )
    return int(at.timestamp() * 1000)


def check_consistency(consistency: object) -> None:
    """``BadInput`` for a consistency there is not."""
    if consistency not in get_args(Consistency):
        raise BadInput(f"{consistency!r} is not a consistency", hint="use sequential or eventual")
