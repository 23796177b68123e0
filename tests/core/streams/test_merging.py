"""The feeds of shards, scanned out of their logs and merged: against sorting everything at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from motet.core.clock.hlc import ZERO, Clock
from motet.core.shardlog.entry import Entry, EntryId, EntryKind
from motet.core.streams.change import Branch, FeedChange, RowChange, changes_in
from motet.core.streams.entries import Aborted, Committed, Prepared, changes_of, encode_body
from motet.core.streams.feed_merge import ShardPage, merge
from motet.core.streams.feed_scan import FeedScan
from motet.core.streams.messages import FoundEntry, ReadShardFeed
from motet.ids import (
    Epoch,
    Offset,
    RequestId,
    ShardId,
    ShardName,
    StreamName,
    TransactionId,
)

STREAM = StreamName("s")
HOME = ShardName("h.0")


class Log:
    """A log of one shard, made as leaders make it."""

    def __init__(self, shard: int) -> None:
        self.shard = shard
        self.name = ShardName(f"s.{shard}")
        self.entries: list[Entry] = []
        self.clock = ZERO
        self.next_offset = 0
        self.opened: dict[TransactionId, Clock] = {}

    def add(self, kind: EntryKind, body: bytes, clock: Clock) -> None:
        assert clock > self.clock
        self.clock = clock
        entry = EntryId(Epoch(1), Offset(len(self.entries) + 1))
        self.entries.append(Entry(entry, kind, clock, body))

    def commit(self, name: TransactionId, index: int, count: int, at: Clock, clock: Clock) -> None:
        change = RowChange(index, b"k", "update", b"v", None)
        branch = Branch(name, ZERO, ZERO, count, (change,))
        body = Committed(branch, at, 0, Offset(self.next_offset))
        self.next_offset += 1
        self.opened.pop(name, None)
        self.add(EntryKind.BRANCH_COMMITTED, encode_body(body), clock)

    def closed(self) -> Clock:
        oldest = min(self.opened.values(), default=None)
        return self.clock if oldest is None else Clock(oldest.logical, oldest.counter - 1)


def next_above(*clocks: Clock) -> Clock:
    highest = max(clocks)
    return Clock(highest.logical, highest.counter + 1)


def play(steps: list[tuple[int, int]], shards: int) -> list[Log]:
    """Transactions of one shard and of all, prepared, committed and aborted in any order."""
    logs = [Log(shard) for shard in range(shards)]
    waiting: dict[TransactionId, Clock] = {}
    for number, (what, shard) in enumerate(steps):
        log, name = logs[shard % shards], TransactionId(f"t{number:03}")
        if what == 0:
            clock = next_above(log.clock)
            log.commit(name, 0, 1, clock, clock)
        elif what == 1:
            for each in logs:
                branch = Branch(name, ZERO, ZERO, shards, ())
                clock = next_above(each.clock)
                body = Prepared(branch, (), HOME, ())
                each.opened[name] = clock
                each.add(EntryKind.PREPARED, encode_body(body), clock)
            waiting[name] = max(each.clock for each in logs)
        elif waiting:
            resolved = list(waiting)[shard % len(waiting)]
            at = waiting.pop(resolved)
            for index, each in enumerate(logs):
                clock = next_above(each.clock, at)
                if what == 2:
                    each.commit(resolved, index, shards, at, clock)
                else:
                    del each.opened[resolved]
                    each.add(EntryKind.ABORTED, encode_body(Aborted(resolved, ZERO)), clock)
    return logs


def scanned(log: Log, after: Clock, up_to: Clock, limit: int, step: int) -> ShardPage:
    message = ReadShardFeed(RequestId(1), ZERO, log.name, after, up_to, limit, 1 << 20)
    scan = FeedScan.of(message, log.closed(), (), after)
    place, is_done = 0, scan.up_to <= after
    while not is_done and place < len(log.entries):
        is_done = scan.take(log.entries[place : place + step])
        place += step
    if not log.entries or scan.reached == log.entries[-1].id.offset:
        scan.closed = max(scan.closed, scan.up_to)
    entries, through = scan.page()
    return ShardPage(STREAM, ShardId(log.shard), log.name, entries, through)


def page(
    logs: list[Log], after: Clock, limit: int, shard_limit: int, step: int
) -> tuple[tuple[FeedChange, ...], Clock]:
    visible = min(log.closed() for log in logs)
    pages = [scanned(log, after, visible, shard_limit, step) for log in logs]
    runs, through, _ = merge(pages, limit)
    return changes_in(runs), through


def naive(logs: list[Log]) -> list[FeedChange]:
    visible = min(log.closed() for log in logs)
    found = [
        change
        for log in logs
        for entry in log.entries
        if entry.kind == EntryKind.BRANCH_COMMITTED
        for change in changes_of(
            STREAM,
            ShardId(log.shard),
            log.name,
            entry,
        )
        if change.clock <= visible
    ]
    return sorted(found, key=lambda c: (c.clock, c.transaction, c.index))


STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=40)


@given(STEPS, st.integers(1, 3), st.integers(1, 5), st.integers(1, 5), st.integers(1, 7))
def test_pages_of_any_size_are_the_whole_feed(
    steps: list[tuple[int, int]], shards: int, limit: int, shard_limit: int, step: int
) -> None:
    logs = play(steps, shards)
    visible = min(log.closed() for log in logs)
    seen: list[FeedChange] = []
    after = ZERO
    while after < visible:
        changes, through = page(logs, after, limit, shard_limit, step)
        assert through > after, "a page goes on"
        assert all(after < change.clock <= through for change in changes)
        seen += changes
        after = through
    assert seen == naive(logs)


@given(STEPS, st.integers(2, 3), st.integers(1, 5))
def test_a_page_never_splits_what_has_one_clock(
    steps: list[tuple[int, int]], shards: int, limit: int
) -> None:
    logs = play(steps, shards)
    changes, through = page(logs, ZERO, limit, 100, 100)
    rest = [change for change in naive(logs) if change.clock > through]
    shown = {change.clock for change in changes}
    assert not shown & {change.clock for change in rest}
    if len(changes) > limit:
        assert len(shown) == 1, "only what has one clock may be more than was asked for"


@given(st.integers(0, 400), st.integers(1, 20))
def test_a_page_takes_in_what_it_gives_wherever_it_is(begin: int, limit: int) -> None:
    (log,) = play([(0, 0)] * 400, shards=1)
    after = log.entries[begin - 1].clock if begin else ZERO
    message = ReadShardFeed(RequestId(1), ZERO, log.name, after, None, limit, 1 << 20)
    scan = FeedScan.of(message, log.closed(), (), after)
    rest = iter(log.entries[begin:])
    scan.take(rest)
    left = sum(1 for _ in rest)
    assert len(scan.page()[0]) == min(limit, 400 - begin)
    assert 400 - begin - left == len(scan.page()[0]), "no entry more than the page has"


def test_what_has_no_clock_for_its_readers_has_none_in_any_piece() -> None:
    """The changes of two shards take turns, so that each run is cut."""
    clock, name, pages = Clock(5, 0), TransactionId("t1"), []
    for shard, indices in ((0, (0, 2, 3)), (1, (1, 4))):
        made = tuple(RowChange(n, f"k{n}".encode(), "update", b"v", None) for n in indices)
        body = Committed(
            Branch(name, ZERO, ZERO, 5, made), clock, 0, Offset(0), (), has_clock=False
        )
        entry = FoundEntry(Epoch(1), clock, EntryKind.BRANCH_COMMITTED, encode_body(body))
        pages.append(
            ShardPage(STREAM, ShardId(shard), ShardName(f"s.{shard}"), (entry,), Clock(6, 0))
        )
    for key in (None, b"k2"):
        found = changes_in(merge(pages, 100, key)[0])
        assert [change.index for change in found] == ([0, 1, 2, 3, 4] if key is None else [2])
        assert not any(change.has_clock for change in found)
