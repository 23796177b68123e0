"""The feed: every change once and in order, whatever the size of the pages."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import motet
from motet.client.change import Change
from motet.client.cursor import parse_cursor
from motet.errors import BadCursor, BadInput, MissingLibrary, NoSuchStream
from motet.limits import row_bytes_max


@pytest.fixture
def filled(db: motet.Database) -> motet.Database:
    """Transactions of one to four changes over three streams, and raw entries between them."""
    for name in ("a", "b", "c"):
        db.create_stream(name, shards=3)
    for i in range(30):
        with db.transaction() as txn:
            for j in range(1 + i % 4):
                txn.change("abc"[(i + j) % 3], key=f"{i}-{j}", op="insert", row={"i": i, "j": j})
        if i % 5 == 0:
            db.stream("a").append(f"raw-{i}", b"\xff\x00")
    return db


def pages(db: motet.Database, *streams: str, limit: int) -> list[list[Change]]:
    found = []
    cursor = None
    while True:
        page = db.changes(*streams, after=cursor, limit=limit)
        assert page.changes or not page.more
        found.append(page.changes)
        cursor = page.cursor
        if not page.more:
            return found


def test_pages_of_any_size_give_the_same_changes(filled: motet.Database) -> None:
    for streams in (("a",), ("a", "b"), ("c", "b", "a")):
        whole = filled.changes(*streams).changes
        places = [(c.clock, c.transaction, c.index) for c in whole]
        assert places == sorted(set(places))
        assert {c.stream for c in whole} == set(streams)
        for limit in (1, 2, 3, 7, 1000):
            found = pages(filled, *streams, limit=limit)
            assert [change for page in found for change in page] == whole
            assert all(len(page) <= max(limit, page[0].count) for page in found if page)


def test_a_long_stretch_of_other_streams_is_skipped(db: motet.Database) -> None:
    db.create_stream("a")
    db.create_stream("b")
    for i in range(5):
        db.stream("b").append(f"{i}", bytes(row_bytes_max))
    db.stream("a").append("k", b"v")
    page = db.changes("a")
    assert [c.key for c in page] == [b"k"]
    assert not page.more


def test_pages_never_split_a_transaction(filled: motet.Database) -> None:
    for page in pages(filled, "a", "b", "c", limit=2):
        whole = [c for c in page if c.transaction == page[-1].transaction]
        assert len(whole) == whole[0].count


def test_a_cursor_stands_for_what_was_read(filled: motet.Database) -> None:
    page = filled.changes("a", "b")
    assert filled.changes("b", "a", after=page.cursor).changes == []
    filled.stream("b").append("new", b"1")
    (new,) = filled.changes("a", "b", after=page.cursor)
    assert (new.key, new.op, new.row) == (b"new", "append", b"1")


def test_a_page_can_be_bounded_by_clocks(filled: motet.Database) -> None:
    whole = filled.changes("a", "b", "c").changes
    low, high = whole[10].raw.clock, whole[40].raw.clock
    between = filled.changes("a", "b", "c", after=low, up_to=high).changes
    assert between == [c for c in whole if low < c.raw.clock <= high]


@pytest.mark.parametrize("stretches", [1, 3, 50])
def test_the_stretches_of_a_split_are_the_whole_slice(
    filled: motet.Database, stretches: int
) -> None:
    whole = filled.changes("a", "b", "c").changes
    split = filled.split_feed("a", "b", "c", stretches=stretches)
    assert 1 <= len(split.bounds) <= stretches
    assert list(split.bounds) == sorted(split.bounds)
    found: list[Change] = []
    after = None
    for bound in split.bounds:
        found += filled.changes("a", "b", "c", after=after, up_to=bound).changes
        after = bound
    assert found == whole


def test_a_feed_is_split_behind_a_cursor(filled: motet.Database) -> None:
    whole = filled.changes("a", "b", "c").changes
    first = filled.changes("a", "b", "c", limit=10)
    split = filled.split_feed("a", "b", "c", after=first.cursor, changes_max=8)
    (bound,) = split.bounds
    found = filled.changes("a", "b", "c", after=first.cursor, up_to=bound).changes
    assert 0 < len(found) <= 8
    assert found == whole[len(first) : len(first) + len(found)]
    bad: list[dict[str, Any]] = [
        {"stretches": 0},
        {"changes_max": 0},
        {"after": 7},
        {"after": filled.changes("a").cursor},
    ]
    for wrong in bad:
        with pytest.raises(BadInput):
            filled.split_feed("a", "b", "c", **wrong)


def test_a_cursor_of_other_streams_is_refused(filled: motet.Database) -> None:
    cursor = filled.changes("a", "b").cursor
    with pytest.raises(BadCursor):
        filled.changes("a", after=cursor)
    with pytest.raises(BadCursor):
        filled.changes("a", "b", after=cursor[:-2])
    with pytest.raises(BadCursor):
        next(iter(filled.tail("a", after=cursor)))


def test_a_cursor_of_another_database_is_refused(filled: motet.Database, tmp_path: Path) -> None:
    cursor = filled.changes("a").cursor
    with motet.open(tmp_path / "other") as other:
        other.create_stream("a", shards=3)
        with pytest.raises(BadCursor, match="another database"):
            other.changes("a", after=cursor)


def test_bad_calls_are_refused(filled: motet.Database) -> None:
    with pytest.raises(BadInput):
        filled.changes()
    with pytest.raises(BadInput):
        filled.changes("a", limit=0)
    with pytest.raises(BadInput):
        filled.changes("a", after=7)  # type: ignore[arg-type]
    with pytest.raises(BadInput):
        filled.tail()
    with pytest.raises(BadInput):
        filled.tail("a", stop_after=-1)
    with pytest.raises(NoSuchStream):
        filled.changes("a", "nothing")
    with pytest.raises(NoSuchStream):
        filled.visible_clock("nothing")


def test_the_visible_clock_covers_what_was_committed(filled: motet.Database) -> None:
    newest = filled.changes("a", "b", "c").changes[-1].raw.clock
    assert filled.visible_clock("a", wait=True) >= newest
    assert filled.visible_clock(wait=True) >= newest
    assert filled.clock() >= newest
    page = filled.changes("a")
    assert parse_cursor(page.cursor).clock <= page.visible


def test_a_tail_gives_what_is_there_and_what_comes(filled: motet.Database) -> None:
    there = filled.changes("a", "b").changes
    tail = filled.tail("a", "b", limit=4)
    assert [next(tail) for _ in there] == there
    seen: list[Change] = []
    follower = threading.Thread(target=lambda: seen.append(next(tail)))
    follower.start()
    filled.stream("b").append("new", b"1")
    follower.join()
    assert [c.key for c in seen] == [b"new"]


def test_a_tail_goes_on_behind_a_cursor_and_ends_after_so_many(filled: motet.Database) -> None:
    whole = filled.changes("a", "b", "c").changes
    first = filled.changes("a", "b", "c", limit=10)
    rest = list(filled.tail("a", "b", "c", after=first.cursor, stop_after=5))
    assert rest == whole[len(first) : len(first) + 5]
    assert list(filled.tail("a", stop_after=0)) == []


def test_closing_ends_a_tail_that_waits(filled: motet.Database) -> None:
    seen: list[Change] = []
    caught_up = threading.Event()
    count = len(filled.changes("a"))

    def follow() -> None:
        for change in filled.tail("a"):
            seen.append(change)
            if len(seen) == count:
                caught_up.set()

    follower = threading.Thread(target=follow)
    follower.start()
    assert caught_up.wait(60)
    filled.close()
    follower.join(60)
    assert not follower.is_alive()
    assert len(seen) == count


def test_leaving_a_tail_leaves_nothing_behind(filled: motet.Database) -> None:
    before = threading.active_count()
    for change in filled.tail("a"):
        assert change.stream == "a"
        break
    assert threading.active_count() == before
    filled.stream("a").append("k", b"v")


def test_a_page_says_what_it_is(filled: motet.Database) -> None:
    page = filled.changes("a", "b", "c", limit=3)
    assert len(page) == len(list(page)) == len(page.changes)
    assert f"{len(page)} changes" in repr(page)
    assert "more" in repr(page)
    assert "insert a 0-0" in repr(page.changes[0])


def test_arrow_is_asked_for_by_name_when_it_is_missing(
    filled: motet.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingLibrary, match="pyarrow"):
        filled.changes("a").to_arrow()
