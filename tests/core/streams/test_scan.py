"""Reading the feed past prepares: what one that was long in doubt holds back, and what it does not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from motet.core.clock.hlc import ZERO, Clock, plus
from motet.core.shardlog.entry import Entry, EntryId, EntryKind
from motet.core.streams.change import Branch, RowChange
from motet.core.streams.entries import Aborted, Committed, Prepared, encode_body
from motet.core.streams.feed_scan import FeedScan
from motet.core.streams.messages import ReadShardFeed
from motet.core.streams.shard import StreamShard
from motet.ids import Epoch, Offset, RequestId, ShardName, TransactionId

HOME, SHARD = ShardName("s.1"), ShardName("s.0")
LONG = TransactionId("long")


def clock(number: int) -> Clock:
    return Clock(1_000, number)


class Log:
    """A shard with an index point at every entry that holds changes."""

    def __init__(self) -> None:
        self.shard = StreamShard(outcomes=3, index_step_bytes=1)
        self.entries: list[Entry] = []

    def add(self, kind: EntryKind, body: object) -> Clock:
        number = len(self.entries) + 1
        entry = Entry(EntryId(Epoch(1), Offset(number)), kind, clock(number), encode_body(body))
        self.entries.append(entry)
        self.shard.apply(entry)
        return entry.clock

    def branch(self, name: TransactionId) -> Branch:
        key = name.encode()
        return Branch(name, ZERO, ZERO, 1, (RowChange(0, key, "insert", b"{}", None),))

    def commit(self, name: TransactionId, at: Clock | None = None) -> Clock:
        offset = self.shard.state.next_offset
        commit_clock = at or clock(len(self.entries) + 1)
        body = Committed(self.branch(name), commit_clock, 1, offset)
        return self.add(EntryKind.BRANCH_COMMITTED, body)

    def short(self, count: int) -> list[Clock]:
        first = len(self.entries)
        return [self.commit(TransactionId(f"t{first + n}")) for n in range(count)]

    def prepare(self) -> Clock:
        return self.add(EntryKind.PREPARED, Prepared(self.branch(LONG), (), HOME, (SHARD,)))

    def page(self, after: Clock, limit: int) -> tuple[list[Clock], Clock, int]:
        """What a page holds, how far it is complete, and how many entries were read for it."""
        state = self.shard.state
        first, opens = self.shard.entry_above(after)
        message = ReadShardFeed(RequestId(1), ZERO, SHARD, after, None, limit, 1 << 20)
        scan = FeedScan.of(message, state.transactions.closed, opens, after, state.long_open)
        read = 0
        for entry in self.entries[first - 1 :]:
            read += 1
            if scan.take([entry], state.long_open):
                break
        entries, through = scan.page()
        return [entry.clock for entry in entries], through, read


def all_pages(log: Log, after: Clock, limit: int) -> Sequence[Clock]:
    found: list[Clock] = []
    while after < log.shard.state.transactions.closed:
        clocks, through, _ = log.page(after, limit)
        assert through > after
        found += clocks
        after = through
    return found


def test_one_that_was_given_up_holds_nothing_back() -> None:
    log = Log()
    before = log.prepare()
    clocks = log.short(40)
    log.add(EntryKind.ABORTED, Aborted(LONG, ZERO))
    log.short(40)
    found, _, read = log.page(before, 5)
    assert found == clocks[:5]
    assert read <= 7


@pytest.mark.parametrize("limit", [1, 5, 200])
def test_one_that_was_committed_holds_back_what_is_not_below_it(limit: int) -> None:
    log = Log()
    before = log.prepare()
    early = log.short(40)
    decided = plus(early[-1], 1)  # elsewhere, and logged here long after it
    log.add(EntryKind.CLOSED, ())
    late = log.short(40)
    log.commit(LONG, at=decided)
    log.short(40)
    found, through, read = log.page(before, 5)
    assert found == early[:5]
    assert (through, read <= 7) == (early[4], True)
    shown = all_pages(log, before, limit)
    assert shown[:82] == [*early, decided, *late, shown[81]]
    assert list(shown) == sorted(shown)
    assert len(shown) == 121


def test_one_that_is_open_holds_back_everything_behind_it() -> None:
    log = Log()
    first = log.short(2)
    log.prepare()
    log.short(5)
    assert log.page(ZERO, 100)[0] == first


def test_what_is_known_goes_with_its_milestones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("motet.core.streams.shard.index_points_max", 8)
    log = Log()
    log.prepare()
    log.short(2)
    log.add(EntryKind.ABORTED, Aborted(LONG, ZERO))
    assert LONG in log.shard.state.long_open
    log.short(60)
    kept = {name for opens in log.shard.state.index_opens for name, _ in opens}
    assert set(log.shard.state.long_open) == kept
    twin = StreamShard()
    twin.restore(log.shard.snapshot())
    assert twin.fingerprint() == log.shard.fingerprint()
