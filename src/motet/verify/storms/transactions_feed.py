"""A reader of the feed of all shards: any replica, pages of any size, one cursor.

It reads the second stream as well, from the moment it hears of it. One that keeps a named cursor is never
overtaken by pruning; another one is told so, and goes on where all shards have the feed.

Every page of a shard's feed that anybody was shown, compared with the log in the end.

N1             a page holds every change above where it begins and up to where it says it is complete, once

A reader of several shards goes only as far as the one that is complete the least far: most of what a page
says is not used, and asked for again. Here all of it counts. And somebody asks for pages as no reader does:
from anywhere, by any replica, as small as can be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from motet.core.clock.hlc import ZERO, Clock, plus
from motet.core.machine import Effect, Message
from motet.core.shardlog.entry import Entry, EntryKind
from motet.core.streams.change import Run, changes_in
from motet.core.streams.entries import decode_committed, record_range
from motet.core.streams.feed_merge import ShardPage
from motet.core.streams.messages import (
    CloseShard,
    DataRefused,
    DescribeFeed,
    FeedDescribed,
    GetShardMap,
    OrderShard,
    ReadShardFeed,
    ShardClosed,
    ShardFeed,
    ShardOrdered,
)
from motet.core.streams.orders import SetCursor
from motet.errors.shards import CursorExpired
from motet.ids import Address, ShardId, ShardName
from motet.sim.world import World
from motet.verify.storms.streams_changes import STAYS
from motet.verify.storms.streams_clients import TIMEOUT_MS, DataClient
from motet.verify.storms.transactions_checks import SeenChange, seen_of
from motet.verify.storms.transactions_clients import Bank

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

    def __init__(self, site: Bank, name: str, pages: Pages) -> None:
        super().__init__(site, name)
        self._shards = site.ledger.shards
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


save_share = 0.3
patience_ms_max = 16 * TIMEOUT_MS


class FeedReader(DataClient):
    """Asks how far every shard is closed, then reads all of them that far, a page at a time."""

    def __init__(
        self,
        site: Bank,
        name: str,
        merge: Callable[[Sequence[ShardPage], int], tuple[list[Run], Clock, bool]],
        pages: Pages,
        *,
        keeps: bool,
    ) -> None:
        super().__init__(site, name)
        #: has a named cursor
        self._keeps = keeps
        #: shards that have it
        self.saved: dict[ShardName, None] = {}
        self._to_save: list[ShardName] = []
        self._saving: Clock = ZERO
        #: what was pruned before it came there: above one clock, up to another
        self.gaps: list[tuple[Clock, Clock]] = []
        #: where it was when the second stream was there
        self.joined: Clock | None = None
        self._shards = list(site.ledger.stays)
        #: of each shard, where its feed begins; asked for after it was told that it is too late
        self._begins: dict[ShardName, Clock] = {}
        self._is_late = False
        self._between_ms_max //= 2
        self._merge = merge
        self._shown = pages
        self._ledger = site.ledger
        #: everything that was shown, in order
        self.seen: list[SeenChange] = []
        #: the cursor
        self.after: Clock = ZERO
        self.is_last_round = False
        self._is_ending = False
        self._last_floor: Clock | None = None
        self._closed: dict[ShardName, Clock] = {}
        self._heads: dict[ShardName, Clock] = {}
        self._pages: dict[ShardName, ShardPage] = {}
        self._visible: Clock = ZERO
        self._limit = 1

    def begin(self) -> list[Effect]:
        if self._map is None or self.place(self._ledger.shards[0]) is None:
            return self.look()
        if self.is_last_round and not self._is_ending:
            self._is_ending = True
            self._closed, self._heads, self._pages = {}, {}, {}
        if self._to_save:
            return self._save(self._to_save[0])
        if self._is_late:
            return self._look_where_it_begins()
        if not self._closed:
            self._join()
        for shard in self._shards:
            if shard not in self._closed:
                return self._close(shard)
        self._take_visible()
        for shard in self._shards:
            if shard not in self._pages:
                return self._read(shard)
        self._turn()
        return self.pause()

    # The second stream, a named cursor, and pruning

    def _join(self) -> None:
        later = self._ledger.later
        if self.joined is None and self.place(later[0]) is not None:
            self.joined = self.after
            self._shards = self._shards + later
            self._visible = ZERO  # it is another one, of more shards

    def _save(self, shard: ShardName) -> list[Effect]:
        leader = self.leader(shard)
        if leader is None:
            return self.look()
        order = SetCursor(self.name, self._saving)
        return self.ask_at(leader, OrderShard(self.next_request(), self._clock, shard, order))

    def _look_where_it_begins(self) -> list[Effect]:
        """All shards are asked, not only the one that has given up what was asked for."""
        for shard in self._shards:
            if shard not in self._begins:
                leader = self.leader(shard)
                if leader is None:
                    return self.look()
                return self.ask_at(leader, DescribeFeed(self.next_request(), self._clock, shard))
        resume = max(self._begins.values())
        if not self.after < resume <= self._ledger.pruned:
            what = f"{self.name} at {self.after} can resume at {resume}"
            self.world.violated("Expired", f"{what}, {self._ledger.pruned} was pruned")
        self._go_on_at(resume)
        self._is_late, self._begins = False, {}
        return self.pause()

    def _go_on_at(self, resume: Clock) -> None:
        self.gaps.append((self.after, resume))
        self.after, self._pages = resume, {}
        if resume >= self._visible:
            self._closed = {}

    def _too_late(self, refused: DataRefused) -> None:
        if self._keeps and not self._ledger.is_forced:
            self.world.violated("CursorKept", f"{self.name} at {self.after}: {refused.what}")
        self._is_late = True
        self._begins, self._pages = {}, {}

    def _close(self, shard: ShardName) -> list[Effect]:
        leader = self.leader(shard)
        if leader is None:
            return self.look()
        return self.ask_at(
            leader, CloseShard(self.next_request(), self._clock, shard, self._last_floor)
        )

    def _take_visible(self) -> None:
        if self._is_ending and self._last_floor is None:
            # What was handed out before must be visible in the end.
            self._last_floor = max(self._heads.values())
            self._closed = {}
            return
        visible = min(self._closed.values(), default=self._visible)
        self._visible = max(visible, self._visible)

    def _read(self, shard: ShardName) -> list[Effect]:
        if shard not in self._closed:
            return self.pause()
        place = self.place(shard)
        if place is None or not place.ensemble:
            return self.look()
        if not self._pages:
            self._limit = self._large(self.dice.pick([1, 3, 50]), 50)
        message = ReadShardFeed(
            self.next_request(),
            self._clock,
            shard,
            self.after if self.after > ZERO else None,
            self._visible,
            self._large(self.dice.pick([1, 3, 50]), 50),
            self._large(self.dice.pick([1, 500, 20_000]), 20_000),
        )
        return self.ask_at(Address(self.dice.pick(place.ensemble)), message)

    def _large(self, drawn: int, largest: int) -> int:
        """In the end pages are large: somebody waits for this reader to be done."""
        return largest if self._is_ending else drawn

    def _turn(self) -> None:
        """A page is whole: show it."""
        begins = max(self._begins.values(), default=ZERO)
        self._begins = {}
        if self.after == ZERO and begins > ZERO:
            self._go_on_at(begins)  # what one of them has pruned is shown of none
            return
        runs, through, _ = self._merge(list(self._pages.values()), self._limit)
        changes = changes_in(runs)
        if changes and changes[0].clock <= self.after:
            self.world.violated("FeedOrder", f"{self.name}: {changes[0]} at {self.after}")
        self.seen += map(seen_of, changes)
        if through < self.after:
            self.world.violated("FeedOrder", f"{self.name}: {through} < {self.after}")
        self.after = through
        self._pages = {}
        if changes:
            self.world.mark("feed_page")
        floor = self._last_floor
        if self.is_last_round and floor is not None and self.after >= floor:
            self.is_done = True
        elif self.after >= self._visible:
            self._closed = {}
        if self._keeps and not self._is_ending and self.dice.chance(save_share):
            self._to_save, self._saving = list(self._shards), self.after

    def _learn_patience(self, answer: Message | None) -> None:
        """A page after a transaction that was long in doubt takes long: who gives up soon never gets it."""
        grown_ms = min(2 * self._timeout_ms, patience_ms_max)
        self._timeout_ms = grown_ms if answer is None else TIMEOUT_MS

    def answered(self, asked: Message, answer: Message | None) -> list[Effect]:
        if isinstance(asked, ReadShardFeed):
            self._learn_patience(answer)
        if isinstance(asked, GetShardMap):
            return self.take_map(answer)
        if isinstance(asked, CloseShard) and isinstance(answer, ShardClosed):
            self._closed[asked.shard] = answer.closed
            self._heads[asked.shard] = answer.clock
            self.see_clock(answer.clock)
        elif isinstance(asked, ReadShardFeed) and isinstance(answer, ShardFeed):
            if answer.through > answer.closed and answer.through > self.after:
                self.world.violated("FeedClosed", f"{self.name}: {answer}")
            self._shown.shown(self.name, asked, answer)
            number = self._ledger.shards.index(asked.shard)
            self._pages[asked.shard] = ShardPage(
                STAYS, ShardId(number), asked.shard, answer.entries, answer.through
            )
            self._begins[asked.shard] = answer.begins
        elif isinstance(asked, OrderShard) and isinstance(answer, ShardOrdered):
            self._to_save.remove(asked.shard)
            self.saved[asked.shard] = None
        elif isinstance(asked, DescribeFeed) and isinstance(answer, FeedDescribed):
            self._begins[asked.shard] = answer.begins
        elif isinstance(answer, DataRefused) and answer.code == CursorExpired.code:
            self.world.mark("feed_expired")
            self._to_save = []
            self._too_late(answer)
        elif isinstance(answer, DataRefused):
            self.world.mark(f"feed_{answer.code.lower()}")
            self._map = None
        if isinstance(asked, CloseShard | OrderShard | DescribeFeed) and (
            answer is None or isinstance(answer, DataRefused)
        ):
            self.lose_leader(asked.shard, answer)
        return self.pause()
