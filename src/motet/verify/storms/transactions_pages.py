"""Every page of a shard's feed that anybody was shown, compared with the log in the end.

N1             a page holds every change above where it begins and up to where it says it is complete, once

A reader of several shards goes only as far as the one that is complete the least far: most of what a page
says is not used, and asked for again. Here all of it counts. And somebody asks for pages as no reader does:
from anywhere, by any replica, as small as can be.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from motet.core.clock.hlc import ZERO, Clock, plus
from motet.core.machine import Effect, Message
from motet.core.shardlog.entry import Entry, EntryKind
from motet.core.streams.entries import decode_committed, record_range
from motet.core.streams.messages import GetShardMap, ReadShardFeed, ShardFeed
from motet.ids import Address, ShardName
from motet.sim.world import World
from motet.verify.storms.streams_checks import Watch
from motet.verify.storms.streams_clients import DataClient

places_max = 200


class Page(msgspec.Struct, frozen=True):
    """What somebody was shown of a shard."""

    who: str
    shard: ShardName
    #: it holds what is above the one and up to the other
    after: Clock
    through: Clock
    #: by clock; of what has one clock, as it is in the log
    entries: tuple[tuple[Clock, bytes], ...]


class Pages:
    """All pages of a run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._pages: list[Page] = []
        #: where pages have ended, of all shards: the newest
        self.places: list[Clock] = []

    def shown(self, who: str, asked: ReadShardFeed, answer: ShardFeed) -> None:
        """Somebody has got a page."""
        # Who asks for all gets what was there when it was looked for: some of that may be pruned by now.
        after = answer.begins if asked.after is None else asked.after
        entries = tuple(
            (entry.clock, entry.body)
            for entry in answer.entries
            if asked.after is not None or entry.clock > after
        )
        self._pages.append(Page(who, asked.shard, after, answer.through, entries))
        self.places = [*self.places, *(clock for clock, _ in entries)][-places_max:]

    def check(self, entries_of: Callable[[ShardName], list[Entry]]) -> None:
        """In the end."""
        logs: dict[ShardName, list[tuple[Clock, bytes]]] = {}
        for page in self._pages:
            log = logs.get(page.shard)
            if log is None:
                log = logs[page.shard] = by_clock(entries_of(page.shard))
            wanted = [each for each in log if page.after < each[0] <= page.through]
            clocks = [clock for clock, _ in page.entries]
            if sorted(page.entries) != wanted or clocks != sorted(clocks):
                what = f"{page.who} {page.shard}: {len(page.entries)} entries of {len(wanted)}"
                self._world.violated("N1", f"{what} above {page.after}, up to {page.through}")
                return


def by_clock(entries: list[Entry]) -> list[tuple[Clock, bytes]]:
    """What of a log belongs to the feed."""
    found = []
    for entry in entries:
        if record_range(entry) is not None:
            is_part = entry.kind == EntryKind.BRANCH_COMMITTED
            clock = decode_committed(entry.body).clock if is_part else entry.clock
            found.append((clock, entry.body))
    return sorted(found)


class PageReader(DataClient):
    """Asks any replica for a page that begins anywhere."""

    def __init__(
        self,
        world: World,
        name: str,
        watch: Watch,
        nodes: tuple[Address, ...],
        shards: list[ShardName],
        pages: Pages,
    ) -> None:
        super().__init__(world, name, watch, nodes)
        self._shards = shards
        self._pages = pages

    def begin(self) -> list[Effect]:
        if self._map is None or self.dice.chance(0.03):
            return self.look()
        shard = self.dice.pick(self._shards)
        place = self.place(shard)
        if place is None or not place.ensemble or not self._pages.places:
            return self.pause()
        after = plus(self.dice.pick(self._pages.places), self.dice.pick([-1, 0]))
        message = ReadShardFeed(
            self.next_request(),
            self._clock,
            shard,
            after if after > ZERO else None,
            None,
            self.dice.pick([1, 2, 5]),
            20_000,
        )
        return self.ask_at(Address(self.dice.pick(place.ensemble)), message)

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        if isinstance(asked, GetShardMap):
            return self.take_map(answer)
        if isinstance(asked, ReadShardFeed) and isinstance(answer, ShardFeed):
            self._pages.shown(self.name, asked, answer)
            self.world.mark("page_from_anywhere")
        elif answer is None:
            self._map = None
        return self.pause()
