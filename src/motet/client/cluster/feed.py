"""The feed of a cluster: every shard is asked how far it is closed, and all are read that far and merged.

The lowest of the closed clocks is the visible clock: nothing at or below it will appear any more in any of
these shards. Leaders say how far they are closed, and close when they have been idle; pages come from any
replica that has closed far enough, else from the leader.

Every node is asked once for all of its shards (:mod:`motet.client.cluster.together`), and a shard that has
said that nothing was changed in it is not read.

What is closed stays as it is. So nobody is asked how far it is closed for a page that can be filled with what
is known to be; and what a shard has given beyond the end of a page is kept for the next one.
"""

from __future__ import annotations

import asyncio

from motet.client.cluster.read_ahead import ReadAhead
from motet.client.cluster.router import Router
from motet.client.cluster.together import Make, ask_leaders, ask_replicas
from motet.client.feed_status import FeedStatus, IncompleteTransaction, ShardStanding
from motet.client.link import answer_seconds_max
from motet.core.clock.hlc import ZERO, Clock
from motet.core.onelog.messages import FeedPage, ReadFeed
from motet.core.streams.change import Run, count_in
from motet.core.streams.cluster_messages import ShardPlace
from motet.core.streams.feed_merge import ShardPage, merge
from motet.core.streams.messages import (
    CloseShard,
    DescribeFeed,
    FeedDescribed,
    ListPrepared,
    PreparedAre,
    ReadShardFeed,
    ShardClosed,
    ShardFeed,
)
from motet.core.streams.orders import KeptFrom, common_begin
from motet.errors import MotetError, NodeError
from motet.errors.shards import CursorExpired
from motet.ids import ShardId, ShardName, StreamName
from motet.limits import page_bytes_max, page_changes_max
from motet.real.process import RealEntropy

Places = list[tuple[StreamName, ShardId, ShardPlace]]

close_seconds_max = answer_seconds_max + 5.0
scan_seconds_max = 30.0
"""How long a leader may take over a page: while a transaction was in doubt, much may have been logged."""

visible_seconds_max = 30.0
"""How long ``visible_clock(wait=True)`` waits for a transaction that is in its way."""

begun_again_max = 3
"""How often somebody who reads from the beginning is told another one."""

standing_seconds_max = 2.0
"""How long a leader may take to say how far its shard is closed, when somebody asks what is wrong."""


class ClusterFeed:
    """The feeds of all shards, as one."""

    def __init__(self, router: Router) -> None:
        self._router = router
        #: shard -> the highest clock that it was ever said to be closed at: that stays true
        self._closed: dict[ShardName, Clock] = {}
        #: shard -> what its leader last said: closed so far, and nothing of that is changed above the other
        self._quiet: dict[ShardName, tuple[Clock, Clock]] = {}
        #: which replica of an ensemble is asked first
        self._favourite = RealEntropy().nonce() & 0xFFFF
        self._ahead = ReadAhead()

    # The visible clock

    async def visible(self, streams: tuple[StreamName, ...], *, wait: bool) -> Clock:
        """The visible clock of these streams, of all if none is named."""
        places = await self.places(streams)
        if not places:
            return self._router.clock
        heads = await self._close_all(places)
        if not wait:
            return await self._reach(places, self._router.session.bookmark)
        return await self._reach(places, max(self._router.clock, *(head.clock for head in heads)))

    async def _reach(self, places: Places, target: Clock) -> Clock:
        """The visible clock, once it is not below the target."""
        deadline = asyncio.get_running_loop().time() + visible_seconds_max
        while (visible := self._lowest(places)) < target:
            late = [p.shard for *_, p in places if self._closed[p.shard] < target]
            answers = await self._close(late, target)
            if asyncio.get_running_loop().time() > deadline and self._lowest(places) < target:
                held = next((each.held_by for each in answers if each.held_by is not None), None)
                label = self._router.map.label(late[0])
                what = label if held is None else f"transaction {held[0]}"
                raise NodeError(
                    f"{what} holds the visible clock back", hint="`motet feed status` says more"
                )
        return visible

    async def status(self, streams: tuple[StreamName, ...]) -> FeedStatus:
        """How far each shard is closed, and what holds it back; also when some do not answer."""
        places = await self.places(streams)
        answers = await asyncio.gather(*(self._standing(*place) for place in places))
        closed = [each.closed for each in answers]
        known = [clock for clock in closed if clock is not None]
        visible = min(known) if known and None not in closed else None
        is_enabled = self._router.map.clock_enabled
        return FeedStatus(visible, self._router.clock, tuple(answers), is_enabled)

    async def _standing(
        self, stream: StreamName, number: ShardId, place: ShardPlace
    ) -> ShardStanding:
        shard, error = place.shard, ""
        answer: ShardClosed | None = None
        try:
            if place.leader is None:
                raise NodeError("it has no leader")
            answer = await self._router.ask_node(
                place.leader,
                lambda n, clock: CloseShard(n, clock, shard),
                ShardClosed,
                standing_seconds_max,
            )
            self._take(shard, answer)
        except MotetError as failure:
            error = failure.what
        held = None if answer is None else answer.held_by
        return ShardStanding(
            stream=stream,
            shard=number,
            leader=place.leader,
            closed=self._closed.get(shard),
            ensemble=place.ensemble,
            transaction=None if held is None else held[0],
            home=None if held is None else self._router.map.label(held[1]),
            error=error,
        )

    async def incomplete(self) -> list[IncompleteTransaction]:
        """All transactions that are prepared and not ended, shard by shard."""

        def make(shard: ShardName) -> Make:
            return lambda n, clock: ListPrepared(n, clock, shard)

        places = await self.places(())
        questions = {place.shard: make(place.shard) for *_, place in places}
        found = await ask_leaders(self._router, questions, PreparedAre, answer_seconds_max)
        return [
            IncompleteTransaction(
                each.transaction, stream, number, self._router.map.label(each.home), each.clock
            )
            for stream, number, place in places
            for each in found[place.shard].prepared
        ]

    async def places(self, streams: tuple[StreamName, ...]) -> Places:
        """All shards of these streams, of all if none is named."""
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
        return min(self._closed.get(place.shard, ZERO) for *_, place in places)

    async def _close_all(self, places: Places) -> list[ShardClosed]:
        return await self._close([place.shard for *_, place in places], None)

    async def _close(self, shards: list[ShardName], at_least: Clock | None) -> list[ShardClosed]:
        def make(shard: ShardName) -> Make:
            return lambda n, clock: CloseShard(n, clock, shard, at_least)

        questions = {shard: make(shard) for shard in shards}
        answers = await ask_leaders(self._router, questions, ShardClosed, close_seconds_max)
        for shard, answer in answers.items():
            self._take(shard, answer)
        return [answers[shard] for shard in shards]

    def _take(self, shard: ShardName, answer: ShardClosed) -> None:
        self._router.see(answer.clock)
        self._closed[shard] = max(answer.closed, self._closed.get(shard, ZERO))
        if answer.changed is not None:
            self._quiet[shard] = answer.closed, answer.changed

    # What is kept

    async def kept(self, places: Places) -> list[FeedDescribed]:
        """What each shard keeps of its feed, and for whom."""

        def make(shard: ShardName) -> Make:
            return lambda n, clock: DescribeFeed(n, clock, shard)

        questions = {place.shard: make(place.shard) for *_, place in places}
        found = await ask_leaders(self._router, questions, FeedDescribed, answer_seconds_max)
        return [found[place.shard] for *_, place in places]

    async def low_watermarks(self, places: Places) -> dict[StreamName, Clock]:
        """The highest low watermark of the shards of each stream."""
        found: dict[StreamName, Clock] = {}
        for (stream, *_), kept in zip(places, await self.kept(places), strict=True):
            found[stream] = max(kept.low_watermark, found.get(stream, ZERO))
        return found

    async def begins(self, places: Places) -> dict[StreamName, Clock]:
        """For each stream: after this clock all its shards have their feed; zero: all of it."""
        found: dict[StreamName, Clock] = {}
        for (stream, *_), kept in zip(places, await self.kept(places), strict=True):
            found[stream] = max(kept.begins, found.get(stream, ZERO))
        return found

    async def begin(self, places: Places, after: Clock | None) -> Clock:
        """Where a reader begins: one that wants all gets whole transactions, after the last low watermark.

        ``CursorExpired`` if some streams have more than others: see ``common_begin``.
        """
        if after is not None and after > ZERO:
            return after
        begins: dict[StreamName, Clock] = {}
        for (stream, *_), closed in zip(places, await self._close_all(places), strict=True):
            begins[stream] = max(closed.begins, begins.get(stream, ZERO))
        is_even = len(set(begins.values())) <= 1
        created = {} if is_even else await self._created(places)
        return common_begin(
            [KeptFrom(name, at, created.get(name, ZERO)) for name, at in begins.items()]
        )

    async def _created(self, places: Places) -> dict[StreamName, Clock]:
        """The clock of each stream's first entry: nothing of it is below."""
        shown = await asyncio.gather(*(self._router.describe(place.shard) for *_, place in places))
        found: dict[StreamName, Clock] = {}
        for (stream, *_), each in zip(places, shown, strict=True):
            found[stream] = min(each.created, found.get(stream, each.created))
        return found

    # Pages

    async def read(self, message: ReadFeed) -> FeedPage:
        """One page: whole transactions, up to the visible clock."""
        places = await self.places(message.streams)
        # Whoever begins at the beginning has closed them to find it: nothing is gained by doing so twice.
        was_closed = message.after is None or message.after <= ZERO
        what = ""
        for _ in range(begun_again_max if was_closed else 1):
            after = await self.begin(places, message.after)
            try:
                return await self._read(places, message, after, was_closed=was_closed)
            except CursorExpired as error:
                # Pruned meanwhile, or whoever said where a shard begins leads it no longer: look again.
                what = error.what
        # Where all of these shards have the feed, not only the one that said so.
        begins = max([kept.begins for kept in await self.kept(places)])
        raise CursorExpired(what, hint=f"read on after {begins}")

    async def _read(
        self, places: Places, message: ReadFeed, after: Clock, *, was_closed: bool
    ) -> FeedPage:
        wanted = await self._with_key(places, message.key)
        page: FeedPage | None = None
        reached = after
        for is_fresh in (False, True):
            if is_fresh:
                if not was_closed:
                    await self._close_all(places)
                await self._reach(places, self._router.session.bookmark)
            visible = self._lowest(places)
            target = visible if message.up_to is None else min(visible, message.up_to)
            if reached < target:
                reached = target
                runs, through, more = await self._merged(wanted, message, after, target)
                more = more or through < target
                page = FeedPage(message.request, tuple(runs), through, visible, more)
                if more or target == message.up_to:
                    return page  # what may have been closed since comes after it
        return page or FeedPage(message.request, (), after, self._lowest(places), more=False)

    async def _with_key(self, places: Places, key: bytes | None) -> Places:
        """A key lives in one shard of each stream: the others need not be read."""
        if key is None:
            return places
        streams = {stream: await self._router.stream(stream) for stream, *_ in places}
        return [where for where in places if where[1] == streams[where[0]].shard_of(key)]

    async def _merged(
        self, places: Places, message: ReadFeed, after: Clock, target: Clock
    ) -> tuple[list[Run], Clock, bool]:
        pages = await self.pages(places, after, target, message.limit)
        while True:
            runs, through, more = merge(pages, message.limit, message.key)
            size_bytes = sum([page.size_bytes for page in pages])
            is_full = count_in(runs) >= message.limit or size_bytes >= page_bytes_max
            if through >= target or more or is_full:
                return runs, through, more
            pages = await self._longer(pages, after, target, message.limit)

    async def pages(
        self, places: Places, after: Clock, target: Clock, limit: int
    ) -> list[ShardPage]:
        """What each shard has after one clock, up to another at most: what is at hand, or else some."""
        share = max(-(-limit // len(places)), 1)
        wanted: list[tuple[ShardPage, int]] = []
        pages: dict[ShardName, ShardPage] = {}
        for stream, number, place in places:
            kept = self._ahead.of(place.shard, after)
            if kept is not None:
                pages[place.shard] = kept
                continue
            # Whoever reads on where the last page ended will want the next one too.
            is_next = self._ahead.has_ended_at(place.shard, after)
            nothing = ShardPage(stream, number, place.shard, (), after, after)
            wanted.append((nothing, page_changes_max if is_next else share))
        for shard, found in (await self._fetch(wanted, target)).items():
            self._ahead.keep(found)
            pages[shard] = found
        return [pages[place.shard].between(after, target) for *_, place in places]

    async def _longer(
        self, pages: list[ShardPage], after: Clock, target: Clock, limit: int
    ) -> list[ShardPage]:
        """The same with more of those shards that end first."""
        through = min(page.through for page in pages)
        found = await self._fetch(
            [(each, limit) for each in pages if each.through == through], target
        )
        longer = []
        for page in pages:
            more = found.get(page.shard)
            if more is not None:
                page = page.followed_by(more)
                self._ahead.keep(page)
            longer.append(page.between(after, target))
        return longer

    async def _fetch(
        self, wanted: list[tuple[ShardPage, int]], target: Clock
    ) -> dict[ShardName, ShardPage]:
        """The page that follows each of these, some changes of it if it is much."""
        found: dict[ShardName, ShardPage] = {}
        questions: dict[ShardName, Make] = {}
        for last, limit in wanted:
            if self._is_quiet(last.shard, last.through, target):
                found[last.shard] = last.next_page((), target)
            else:
                questions[last.shard] = _question(last.shard, last.through, target, limit)
        answers = await ask_replicas(self._router, questions, ShardFeed, first=self._favourite)
        late = {
            last.shard: questions[last.shard]
            for last, _ in wanted
            if last.shard in questions and _is_late(answers.get(last.shard), last.through, target)
        }
        if late:
            answers |= await ask_leaders(self._router, late, ShardFeed, scan_seconds_max)
        for last, _ in wanted:
            answer = answers.get(last.shard)
            if answer is None:
                continue
            if answer.begins > last.through:
                # From the beginning a shard gives what it has, which is not what all of them have.
                label = self._router.map.label(last.shard)
                raise CursorExpired(f"the feed of {label} is kept only after {answer.begins}")
            found[last.shard] = last.next_page(answer.entries, answer.through)
        return found

    def _is_quiet(self, shard: ShardName, after: Clock, target: Clock) -> bool:
        """Whether its leader has said that nothing was changed between these clocks."""
        closed, changed = self._quiet.get(shard, (ZERO, target))
        return changed <= after and target <= closed


def _question(shard: ShardName, after: Clock, target: Clock, limit: int) -> Make:
    return lambda n, clock: ReadShardFeed(n, clock, shard, after, target, limit, page_bytes_max)


def _is_late(answer: ShardFeed | None, after: Clock, target: Clock) -> bool:
    """Whether the leader of the shard may have more than this replica."""
    if answer is None or answer.begins > after:
        return True
    return not answer.entries and answer.through < target
