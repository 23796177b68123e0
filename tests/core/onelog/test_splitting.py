"""Cutting the feed, against a twin that walks through all changes one by one."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.core.onelog.harness import STOCK, Bench, put, serving

from motet.core.clock.hlc import ZERO, Clock
from motet.core.onelog.index import Index
from motet.core.onelog.messages import FeedSplit, SplitFeed
from motet.core.onelog.reading import split
from motet.core.onelog.record import (
    ClockTurned,
    CommittedRecord,
    LoggedChange,
    LogRecord,
    StreamRecord,
)
from motet.errors import BadInput, NoSuchStream
from motet.ids import Epoch, Offset, RequestId, ShardId, StreamName, TransactionId
from motet.limits import feed_splits_max

DATABASE = 77
EPOCH = Epoch(1)
REQUEST = RequestId(5)


def at(counter: int) -> Clock:
    return Clock(1_000, counter)


def index_of(counts: list[int]) -> Index:
    """A log whose record i, at clock 2i + 2, has so many changes; one without turns the clock on."""
    index, offset = Index(), 0
    index.add(StreamRecord(at(1), STOCK, 1, None), EPOCH)
    for number, count in enumerate(counts, start=1):
        clock = at(2 * number)
        record: LogRecord = ClockTurned(clock, True)
        if count:
            changes = tuple(
                LoggedChange(STOCK, ShardId(0), Offset(offset + each), b"k", "append", b"v", None)
                for each in range(count)
            )
            record = CommittedRecord(clock, TransactionId(f"t{number}"), 0, changes)
        index.add(record, EPOCH)
        offset += count
    return index


def ask(
    index: Index,
    after: Clock | None = None,
    up_to: Clock | None = None,
    changes_max: int | None = None,
    splits: int = 1,
    visible: Clock | None = None,
) -> FeedSplit:
    message = SplitFeed(REQUEST, (STOCK,), after, up_to, changes_max, splits)
    return split(index, message, DATABASE, visible or index.places.newest)


class Twin:
    """What should come out, by looking at each change."""

    def __init__(self, counts: list[int], after: Clock | None, up_to: Clock | None) -> None:
        clocks = [(at(2 * number), count) for number, count in enumerate(counts, start=1)]
        behind = [each for each in clocks if (after is None or each[0] > after) and each[1]]
        #: the transactions in reach: (clock, changes)
        self.reach = [each for each in behind if up_to is None or each[0] <= up_to]
        self.behind = sum(count for _, count in behind)

    def slice(self, changes_max: int | None) -> list[tuple[Clock, int]]:
        taken: list[tuple[Clock, int]] = []
        for clock, count in self.reach:
            total = sum(each[1] for each in taken) + count
            if taken and changes_max is not None and total > changes_max:
                break
            taken.append((clock, count))
        return taken


counts = st.lists(st.integers(0, 4), max_size=12)
#: odd counters lie between two records
places = st.none() | st.builds(at, st.integers(0, 28)) | st.just(Clock(9_999, 0))


@given(counts, places, places, st.none() | st.integers(1, 12), st.integers(1, 10))
@example([1, 3, 1], None, None, 3, 2)
@example([0, 0, 3], None, None, 1, 3)
@example([2, 0, 0], at(2), None, None, 3)
def test_a_slice_is_what_its_twin_says(
    counts: list[int],
    after: Clock | None,
    up_to: Clock | None,
    changes_max: int | None,
    splits: int,
) -> None:
    index = index_of(counts)
    found = ask(index, after, up_to, changes_max, splits)
    twin = Twin(counts, after, up_to)
    taken = twin.slice(changes_max)
    assert (found.request, found.database, found.visible) == (
        REQUEST,
        DATABASE,
        index.places.newest,
    )
    assert found.changes == sum(count for _, count in taken)
    assert found.changes_after == twin.behind - found.changes
    assert len(found.bounds) <= splits
    if not taken:
        assert found.bounds == (after or ZERO,)
        return
    assert found.bounds[-1] == taken[-1][0], "the end is the last transaction"
    assert list(found.bounds) == sorted(set(found.bounds)), "bounds rise"
    ends = {clock for clock, _ in taken}
    assert set(found.bounds) <= ends, "no bound lies inside a transaction, or on anything else"


@given(counts, places, st.integers(1, 10))
def test_splits_are_of_about_the_same_size(
    counts: list[int], after: Clock | None, splits: int
) -> None:
    """Each bound is the first place at or behind its even share of the changes."""
    index = index_of(counts)
    found = ask(index, after, splits=splits)
    totals: dict[Clock, int] = {}
    total = 0
    for clock, count in Twin(counts, after, None).reach:
        total += count
        totals[clock] = total
    if not total:
        return
    wanted = []
    for number in range(1, splits + 1):
        share = total * number // splits
        if share:
            wanted.append(next(clock for clock, reached in totals.items() if reached >= share))
    assert list(found.bounds) == sorted(set(wanted))


@given(counts, st.integers(1, 5), st.integers(1, 4))
def test_slice_by_slice_the_feed_is_read_once_and_to_its_end(
    counts: list[int], changes_max: int, splits: int
) -> None:
    index = index_of(counts)
    after: Clock | None = None
    seen: list[int] = []
    for _ in range(len(counts) + 1):
        found = ask(index, after, None, changes_max, splits)
        end = found.bounds[-1]
        if found.changes == 0:
            assert end == (after or ZERO)
            assert found.changes_after == 0
            break
        for low, high in zip((after, *found.bounds), found.bounds, strict=False):
            inside = range(index.places.first_after(low), index.places.first_after(high))
            seen += [
                each
                for each in inside
                if index.places.total_before(each + 1) > index.places.total_before(each)
            ]
        after = end
    else:
        raise AssertionError("the feed has no end")
    with_changes = [number for number, count in enumerate(counts, start=1) if count]
    assert seen == with_changes


@given(counts, st.integers(0, 3), st.integers(0, 3))
def test_what_is_written_about_tables_wakes_nobody(
    counts: list[int], published: int, more: int
) -> None:
    """Who is at the end stays there, however many records without changes follow."""
    ended = ask(index_of(counts)).bounds[-1]
    grown = index_of([*counts, *([0] * published)])
    found = ask(grown, None if ended == ZERO else ended)
    assert (found.bounds, found.changes, found.changes_after) == ((ended,), 0, 0)
    news = index_of([*counts, *([0] * published), 1, *([0] * more)])
    found = ask(news, None if ended == ZERO else ended)
    assert (found.changes, found.bounds) == (1, (at(2 * (len(counts) + published + 1)),))


def test_an_empty_log_has_nothing_to_split() -> None:
    for after in (None, at(4)):
        found = ask(Index(), after, splits=3, visible=at(9))
        assert found == FeedSplit(REQUEST, DATABASE, at(9), (after or ZERO,), 0, 0)


def test_nothing_above_the_visible_clock_is_in_a_slice_or_counted() -> None:
    index = index_of([1, 2, 3])
    for up_to in (None, at(4), at(6), at(9)):
        found = ask(index, None, up_to, visible=at(5))
        assert (found.bounds, found.changes, found.changes_after) == ((at(4),), 3, 0)
    found = ask(index, at(6), visible=at(3))
    assert (found.bounds, found.changes, found.changes_after) == ((at(6),), 0, 0)


# Through the machine


def split_of(bench: Bench, after: Clock | None = None, **options: int) -> FeedSplit:
    splits, changes_max = options.get("splits", 1), options.get("changes_max")
    message = SplitFeed(bench.request(), (STOCK,), after, None, changes_max, splits)
    answer = bench.ask(message)
    assert isinstance(answer, FeedSplit), answer
    return answer


def test_each_stretch_read_by_itself_gives_the_feed() -> None:
    bench = serving(segment_bytes=8192)
    for number in range(6):
        bench.commit(f"t{number}", *(put(f"k{each}", "v") for each in range(number % 3 + 1)))
    found = split_of(bench, splits=4)
    assert len(found.bounds) > 2
    pages = [
        bench.page(after=low, up_to=high).changes
        for low, high in zip((None, *found.bounds), found.bounds, strict=False)
    ]
    assert [change for page in pages for change in page] == bench.feed()
    assert found.changes == len(bench.feed())


def test_what_is_not_durable_is_not_in_a_slice() -> None:
    bench = serving(segment_bytes=8192)
    first = bench.commit("t1", put("a", "1"))
    bench.send_commit("t2", put("a", "2"))
    message = SplitFeed(bench.request(), (STOCK,), None, None, None, 2)
    bench.send(message)
    found = bench.answers[message.request]
    assert isinstance(found, FeedSplit)
    assert (found.bounds, found.changes, found.changes_after) == ((first,), 1, 0)
    assert found.visible == bench.visible()
    bench.finish()
    assert split_of(bench, first).changes == 1


@pytest.mark.parametrize(
    ("streams", "splits", "changes_max", "code"),
    [
        ((), 1, None, BadInput.code),
        (("nowhere",), 1, None, NoSuchStream.code),
        (("stock",), 0, None, BadInput.code),
        (("stock",), feed_splits_max + 1, None, BadInput.code),
        (("stock",), 1, 0, BadInput.code),
    ],
)
def test_a_split_that_cannot_be_made_is_refused(
    streams: tuple[str, ...], splits: int, changes_max: int | None, code: str
) -> None:
    bench = serving()
    names = tuple(StreamName(name) for name in streams)
    message = SplitFeed(bench.request(), names, None, None, changes_max, splits)
    assert bench.refused(message) == code
    assert split_of(bench, splits=feed_splits_max, changes_max=1).changes == 0
