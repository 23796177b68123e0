"""Pages, entries and the latest change, read in ranges while the log goes on."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.onelog.harness import STOCK, Bench, put, serving

from motet.core.clock.hlc import Clock
from motet.core.onelog import reading
from motet.core.onelog.messages import (
    Entries,
    FeedPage,
    GetLatest,
    Latest,
    ReadEntries,
    ReadFeed,
)
from motet.core.streams.change import FeedChange
from motet.ids import Offset, ShardId

LONG = "x" * 200


def filled(count: int = 12) -> Bench:
    """Two streams over several files; every third entry is of the other one."""
    bench = serving(shards=2)
    bench.create("other")
    for number in range(count):
        bench.append(f"k{number}", f"{number}{LONG}", stream="other" if number % 3 == 0 else STOCK)
    assert bench.machine.core.log.segments > 3
    return bench


def rows(page: FeedPage) -> list[bytes | None]:
    return [change.row for change in page.changes]


@pytest.mark.parametrize("range_bytes", [1, 300, 1 << 20])
@pytest.mark.parametrize("page_bytes", [1, 700, 1 << 20])
def test_however_it_is_cut_the_whole_is_the_same(
    monkeypatch: pytest.MonkeyPatch, range_bytes: int, page_bytes: int
) -> None:
    bench = filled()
    whole = bench.feed(STOCK, "other")
    entries = [bench.entries(shard) for shard in (0, 1)]
    monkeypatch.setattr(reading, "RANGE_BYTES", range_bytes)
    monkeypatch.setattr(reading, "page_bytes_max", page_bytes)
    for limit in (1, 2, 5, 100):
        assert bench.feed(STOCK, "other", limit=limit) == whole
        assert bench.feed("other", limit=limit) == [c for c in whole if c.stream == "other"]
    for shard in (0, 1):
        found: list[FeedChange] = []
        while page := bench.entries(shard, len(found) - 1, limit=3):
            assert len(page) <= 3
            found += page
        assert tuple(found) == entries[shard]


def test_a_page_that_has_looked_at_enough_may_be_empty_and_still_leads_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = serving()
    bench.create("rare")
    for _ in range(5):
        bench.append("k", LONG)
    bench.append("k", "found", stream="rare")
    monkeypatch.setattr(reading, "page_bytes_max", 300)
    monkeypatch.setattr(reading, "RANGE_BYTES", 200)
    first = bench.page("rare")
    assert (rows(first), first.more) == ([], True)
    assert [change.row for change in bench.feed("rare")] == [b"found"]


def test_entries_of_a_shard_that_lie_far_apart_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = serving()
    bench.create("rare")
    for number in range(3):
        bench.append("k", f"{number}", stream="rare")
        for _ in range(4):
            bench.append("k", LONG)
    monkeypatch.setattr(reading, "page_bytes_max", 300)
    monkeypatch.setattr(reading, "RANGE_BYTES", 200)
    for after in (-5, -1, 0, 1):
        found = bench.entries(after=after, stream="rare")
        assert found[0].offset == max(after + 1, 0), "a page is empty at the end only"
    assert bench.entries(after=2, stream="rare") == ()


def test_a_transaction_larger_than_a_page_comes_whole() -> None:
    bench = serving(segment_bytes=8192)
    bench.append("a")
    bench.commit("t1", *(put(f"k{n}", "1") for n in range(9)))
    bench.append("b")
    pages = []
    after = None
    while True:
        page = bench.page(after=after, limit=4)
        pages.append(len(page.changes))
        after = page.through
        if not page.more:
            break
    assert pages == [1, 9, 1]


def test_a_page_that_is_just_full_takes_what_fits() -> None:
    bench = serving(segment_bytes=8192)
    bench.append("a")
    bench.commit("t1", put("b", "1"), put("c", "1"))
    assert len(bench.page(limit=3).changes) == 3
    assert len(bench.page(limit=2).changes) == 1


def test_a_key_is_found_without_reading_what_lies_far_from_it() -> None:
    bench = serving(segment_bytes=1 << 16)
    for number in range(60):
        bench.append(f"k{number}", f"{number}{LONG}")
    for is_restarted in (False, True):
        if is_restarted:
            bench.crash()
            bench.serve()
        for number in (0, 30, 59):
            request = bench.send(GetLatest(bench.request(), STOCK, f"k{number}".encode()))
            looked_at = 0
            while bench.reads:
                looked_at += bench.reads[0].size_bytes or 1 << 20
                bench.read_back()
            answer = bench.answers[request]
            assert isinstance(answer, Latest)
            assert answer.change is not None
            assert answer.change.row == f"{number}{LONG}".encode()
            assert looked_at < 3 * 4096


# Pages while the log goes on


def test_what_comes_while_a_page_is_read_is_on_the_next_page() -> None:
    bench = serving(segment_bytes=8192)
    bench.append("a", "1")
    request = bench.send(ReadFeed(bench.request(), (STOCK,), None, 100))
    (read,) = bench.reads
    bench.reads.clear()
    bench.append("a", "2")
    bench.reads.append(read)
    bench.read_back()
    page = bench.answers[request]
    assert isinstance(page, FeedPage)
    assert rows(page) == [b"1"]
    assert rows(bench.page(after=page.through)) == [b"2"]


def test_reading_goes_on_while_the_log_begins_a_new_file() -> None:
    bench = serving()
    bench.append("a", f"1{LONG}")
    requests = [
        bench.send(ReadFeed(bench.request(), (STOCK,), None, 100)),
        bench.send(ReadEntries(bench.request(), STOCK, ShardId(0), Offset(-1), 100)),
        bench.send(GetLatest(bench.request(), STOCK, b"a")),
    ]
    for _ in range(3):
        bench.send_append("a", LONG)
    while bench.pending:
        bench.done(bench.pending[-1])
    bench.finish()
    page, entries, latest = (bench.answers[request] for request in requests)
    assert isinstance(page, FeedPage)
    assert isinstance(entries, Entries)
    assert isinstance(latest, Latest)
    assert page.changes == entries.entries == (latest.change,)
    assert rows(page) == [f"1{LONG}".encode()]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(0, 2)),
            st.tuples(st.just("page"), st.integers(1, 3)),
            st.tuples(st.just("page up to"), st.integers(-3, 3)),
            st.tuples(st.just("durable"), st.integers(0, 9)),
        ),
        max_size=30,
    )
)
def test_nothing_appears_at_or_below_a_cursor_that_was_handed_out(
    steps: list[tuple[str, int]],
) -> None:
    bench = serving(segment_bytes=8192)
    bench.create("other")
    seen: list[FeedChange] = []
    after = None
    for what, number in steps:
        if what == "append":
            bench.send_append(f"k{number}", stream=(STOCK, "other", "other")[number])
        elif what == "durable" and bench.pending:
            bench.done(bench.pending[number % len(bench.pending)])
        elif what.startswith("page"):
            up_to = None
            if what == "page up to":
                up_to = Clock.from_int(bench.state.clock.last.to_int() + number)
            request = bench.request()
            bench.send(ReadFeed(request, (STOCK,), after, max(number, 1), up_to))
            while bench.reads:
                bench.read_back()
            page = bench.answers[request]
            assert isinstance(page, FeedPage)
            assert page.through <= max(page.visible, after or page.visible)
            assert all(change.clock <= page.through for change in page.changes)
            assert up_to is None or all(change.clock <= up_to for change in page.changes)
            seen += page.changes
            after = page.through
    bench.finish()
    whole = bench.feed()
    assert seen == [change for change in whole if after is not None and change.clock <= after]


def test_the_latest_change_of_a_key_changed_twice_is_the_later() -> None:
    bench = serving()
    bench.commit("t1", put("a", "1"), put("b", "2"), put("a", "3"))
    latest = bench.latest("a")
    assert latest is not None
    assert (latest.row, latest.index) == (b"3", 2)
    assert bench.latest("c") is None


def test_a_stream_sees_only_its_own() -> None:
    bench = serving(segment_bytes=8192)
    bench.create("other")
    bench.commit("t1", put("a", "1"), put("a", "2", "other"))
    assert rows(bench.page()) == [b"1"]
    assert rows(bench.page("other")) == [b"2"]
    (change,) = bench.page("other").changes
    assert (change.index, change.count) == (1, 2), "its place in the whole transaction"
    assert [each.row for each in bench.entries(stream="other")] == [b"2"]
    latest = bench.latest("a", "other")
    assert latest is not None
    assert latest.row == b"2"


def test_a_cursor_from_the_future_stays_where_it_is() -> None:
    bench = serving()
    bench.append("a")
    ahead = Clock(bench.state.clock.last.logical + 10_000, 0)
    page = bench.page(after=ahead)
    assert (rows(page), page.through, page.more) == ([], ahead, False)
    page = bench.page(after=ahead, up_to=Clock(1, 0))
    assert (rows(page), page.through, page.more) == ([], ahead, False)
