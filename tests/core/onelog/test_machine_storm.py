"""The machine against a model, over random requests, orders of writes, full disks and crashes.

The model is a list of what was asked and what was answered. After each recovery the feed must be the
confirmed ones and some of the unknown ones, in the order of their clocks; everything else that can be
read must be a fold of that feed.
"""

from __future__ import annotations

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from tests.core.onelog.harness import Bench, put, saw

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import Preallocate, Replace, Write
from motet.core.onelog.context import Phase
from motet.core.onelog.messages import (
    Appended,
    CommitDone,
    FeedPage,
    KeyRead,
    OrderFeed,
    ReadFeed,
    StreamsRefused,
)
from motet.core.streams.change import FeedChange, Token
from motet.core.streams.orders import Prune
from motet.ids import RequestId, StreamName

STREAMS = ("stock", "orders")
KEYS = ("a", "b", "c")
streams = st.sampled_from(STREAMS)
keys = st.sampled_from(KEYS)
sizes = st.sampled_from([0, 30, 250])


class Asked(msgspec.Struct):
    """A transaction of the model: what it should bring about if it happens."""

    #: (stream, key, row) of each change, which is unique to this request
    changes: list[tuple[str, str, str]]
    reads: tuple[KeyRead, ...] = ()
    token: Token | None = None


class Storm(RuleBasedStateMachine):
    """One node, any number of clients, two followers of the feed."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(segment_bytes=1024)
        self.asked: dict[RequestId, Asked] = {}
        self.clocks: dict[tuple[str, str], Clock | None] = {}
        self.cursor: Clock | None = None
        self.followed: list[FeedChange] = []
        self.page_under_way: RequestId | None = None
        self.told_visible = ZERO
        self.tokens = 0

    @initialize()
    def found(self) -> None:
        self.bench.serve()
        self.bench.create("stock", 2)
        self.bench.create("orders", 1)

    # What clients do

    @rule(stream=streams, key=keys, padding=sizes, with_token=st.booleans())
    def append(self, stream: str, key: str, padding: int, with_token: bool) -> None:
        token = None
        if with_token:
            self.tokens += 1
            token = Token("p", self.tokens)
        value = f"{self.bench.requests}" + "." * padding
        request = self.bench.send_append(key, value, token, stream)
        self.asked[request] = Asked([(stream, key, value)], token=token)

    @rule(
        wanted=st.lists(st.tuples(streams, keys), min_size=1, max_size=3),
        read=st.lists(st.tuples(streams, keys), max_size=2),
        padding=sizes,
    )
    def commit(
        self, wanted: list[tuple[str, str]], read: list[tuple[str, str]], padding: int
    ) -> None:
        number = self.bench.requests
        changes = [(s, k, f"{number}-{n}" + "." * padding) for n, (s, k) in enumerate(wanted)]
        reads = tuple(saw(k, self.clocks.get((s, k)), s) for s, k in read)
        request = self.bench.send_commit(
            f"t{number}", *(put(k, row, s) for s, k, row in changes), reads=reads
        )
        self.asked[request] = Asked(changes, reads)

    @rule(stream=streams, key=keys)
    @precondition(lambda self: self.bench.state.phase is Phase.SERVING)
    def remember_what_is_there(self, stream: str, key: str) -> None:
        latest = self.bench.index.streams[StreamName(stream)].latest.get(key.encode())
        self.clocks[stream, key] = None if latest is None else latest.clock

    @rule()
    @precondition(lambda self: self.cursor is not None)
    def prune_what_was_followed(self) -> None:
        assert self.cursor is not None
        names = tuple(StreamName(name) for name in STREAMS)
        self.bench.send(OrderFeed(self.bench.request(), names, Prune(self.cursor, False)))

    @rule(limit=st.integers(1, 5))
    @precondition(lambda self: self.page_under_way is None)
    def ask_for_a_page(self, limit: int) -> None:
        names = tuple(StreamName(name) for name in STREAMS)
        message = ReadFeed(self.bench.request(), names, self.cursor, limit)
        self.page_under_way = self.bench.send(message)

    # What the disk does

    @rule(which=st.integers(0, 20))
    @precondition(lambda self: self.bench.pending)
    def one_is_durable(self, which: int) -> None:
        self.bench.done(self.bench.pending[which % len(self.bench.pending)])

    @rule()
    @precondition(lambda self: self.bench.reads)
    def one_is_read(self) -> None:
        self.bench.read_back()

    @rule(which=st.integers(0, 20))
    @precondition(lambda self: self._may_fail())
    def one_fails(self, which: int) -> None:
        failing = self._may_fail()
        self.bench.fail(failing[which % len(failing)])

    @rule(which=st.integers(0, 1 << 12), torn=st.integers(0, 400), at=st.integers(0, 20))
    def crash(self, which: int, torn: int, at: int) -> None:
        bench = self.bench
        kept = [change for n, change in enumerate(bench.pending) if which >> n & 1]
        writes = bench.writes()
        broken = writes[at % len(writes)] if writes and torn else None
        if broken is None or torn >= len(broken.data):
            bench.crash(kept)
        else:
            bench.crash([each for each in kept if each != broken], (broken, torn))
        self.page_under_way = None
        bench.start()

    @rule(by_ms=st.sampled_from([-300, 1, 90, 1_000]))
    def the_wall_moves(self, by_ms: int) -> None:
        self.bench.wall_ms = max(0, self.bench.wall_ms + by_ms)

    @rule(limit=st.integers(1, 4))
    def all_comes_to_rest(self, limit: int) -> None:
        self.rest()
        self.check(limit)

    def teardown(self) -> None:
        self.rest()
        self.check(2)

    # What must hold

    def _may_fail(self) -> list[Write | Preallocate | Replace]:
        return [
            each
            for each in self.bench.pending
            if isinstance(each, Write | Preallocate | Replace) and each.file != "identity"
        ]

    def rest(self) -> None:
        while self.bench.pending or self.bench.reads or self.bench.timers:
            self.bench.finish()
            if self.bench.timers:
                self.bench.fire()

    @invariant()
    def nothing_is_broken(self) -> None:
        assert self.bench.state.phase is not Phase.BROKEN, self.bench.state.broken

    @invariant()
    def the_visible_clock_never_falls(self) -> None:
        if self.bench.state.phase is Phase.SERVING:
            visible = self.bench.visible()
            assert visible >= self.told_visible
            self.told_visible = visible

    @invariant()
    def a_page_moves_the_cursor(self) -> None:
        answer = self.bench.answers.get(self.page_under_way or RequestId(0))
        if answer is None:
            return
        self.page_under_way = None
        if isinstance(answer, FeedPage):
            self.followed += answer.changes
            self.cursor = answer.through

    def check(self, limit: int) -> None:
        assert self.bench.state.phase is Phase.SERVING
        feed = self.bench.feed(*STREAMS)
        assert self.bench.feed(*STREAMS, limit=limit) == feed
        low_watermark = self.bench.index.streams[StreamName("stock")].rules.low_watermark
        assert all(change.clock > low_watermark for change in feed)
        # What is pruned was followed before; all that is not the feed knows of it still.
        feed = [change for change in self.followed if change.clock <= low_watermark] + feed
        places = [(change.clock, change.index) for change in feed]
        assert places == sorted(set(places))
        self._check_follower(feed)
        happened = self._check_outcomes(feed)
        self._check_reads(feed, happened)
        self._check_fold(feed)

    def _check_follower(self, feed: list[FeedChange]) -> None:
        """Nothing came later at or below the cursor."""
        cursor = self.cursor
        expected = [] if cursor is None else [each for each in feed if each.clock <= cursor]
        assert self.followed == expected

    def _check_outcomes(self, feed: list[FeedChange]) -> dict[Clock, Asked]:
        by_clock: dict[Clock, list[tuple[str, str, str]]] = {}
        for change in feed:
            assert change.row is not None
            row = (change.stream, change.key.decode(), change.row.decode())
            by_clock.setdefault(change.clock, []).append(row)
            assert change.index == len(by_clock[change.clock]) - 1
        happened = {}
        for request, asked in self.asked.items():
            clocks = [clock for clock, rows in by_clock.items() if rows == asked.changes]
            assert len(clocks) <= 1, "it happened twice"
            happened.update(dict.fromkeys(clocks, asked))
            match self.bench.answers.get(request):
                case Appended(clock=clock) | CommitDone(clock=clock):
                    assert clocks == [clock], "S1: what was confirmed is there"
                case StreamsRefused():
                    assert clocks == [], "what was refused is not there"
        assert len(happened) == len(by_clock), "what is there was asked for, and whole"
        return happened

    def _check_reads(self, feed: list[FeedChange], happened: dict[Clock, Asked]) -> None:
        seen: dict[tuple[str, bytes], Clock] = {}
        for change in feed:
            if change.index == 0:
                for read in happened[change.clock].reads:
                    assert seen.get((read.stream, read.key)) == read.seen, "S4"
            if change.index + 1 == change.count:
                for each in [each for each in feed if each.clock == change.clock]:
                    seen[each.stream, each.key] = each.clock

    def _check_fold(self, feed: list[FeedChange]) -> None:
        shards: dict[tuple[str, int], list[FeedChange]] = {}
        latest: dict[tuple[str, bytes], FeedChange] = {}
        for change in feed:
            shards.setdefault((change.stream, change.shard), []).append(change)
            latest[change.stream, change.key] = change
        for stream, count in (("stock", 2), ("orders", 1)):
            for shard in range(count):
                entries = shards.get((stream, shard), [])
                assert [each.offset for each in entries] == list(range(len(entries))), "S3"
                kept = self.bench.index.streams[StreamName(stream)].firsts[shard]
                assert list(self.bench.entries(shard, kept - 1, stream=stream)) == entries[kept:]
                half = max(len(entries) // 2, kept)
                behind = self.bench.entries(shard, half - 1, 2, stream)
                assert list(behind) == entries[half : half + 2]
            for key in KEYS:
                assert self.bench.latest(key, stream) == latest.get((stream, key.encode()))


Storm.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestStorm = Storm.TestCase
TestStorm.__doc__ = Storm.__doc__
