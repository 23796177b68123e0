"""Bookmarks: printable, checked, and whoever connects behind one sees what its client has seen."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import motet
from motet.client.bookmark import Bookmark, bookmark_text, clock_of, parse_bookmark
from motet.core.clock.hlc import END, Clock
from motet.errors import BadBookmark
from motet.limits import clock_counter_max, clock_logical_max

BOOKMARKS = st.builds(
    Bookmark,
    st.integers(0, (1 << 64) - 1),
    st.builds(Clock, st.integers(0, clock_logical_max), st.integers(0, clock_counter_max)),
)


@given(BOOKMARKS)
def test_a_bookmark_comes_back_from_its_text(bookmark: Bookmark) -> None:
    text = bookmark_text(bookmark)
    assert re.fullmatch(r"[A-Za-z0-9._-]+", text)
    assert parse_bookmark(text) == bookmark
    assert clock_of(text, database=bookmark.database, name="here") == bookmark.clock


@given(BOOKMARKS, st.data())
def test_one_changed_character_is_noticed(bookmark: Bookmark, data: st.DataObject) -> None:
    text = bookmark_text(bookmark)
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda c: c != text[at]))
    with pytest.raises(BadBookmark):
        parse_bookmark(text[:at] + other + text[at + 1 :])


@pytest.mark.parametrize("text", ["", "motet-b1.", "motet-b1.AAAA", "motet1.AAAA", 7, None, "ü"])
def test_other_text_is_refused(text: object) -> None:
    with pytest.raises(BadBookmark):
        parse_bookmark(text)


def test_who_connects_behind_a_bookmark_sees_what_its_client_did(db: motet.Database) -> None:
    db.create_stream("orders")
    with db.transaction() as txn:
        txn.change("orders", key="o-1", op="insert", row={"n": 1})
    assert txn.clock is not None
    mark = db.bookmark()
    with motet.connect(db.endpoint, after=mark) as other:
        assert [c.clock for c in other.changes("orders")] == [txn.clock]
        assert other.stream("orders").append("o-2", b"x").clock > txn.clock
        assert parse_bookmark(other.bookmark()).clock > parse_bookmark(mark).clock


def test_a_bookmark_of_another_database_is_refused(db: motet.Database) -> None:
    foreign = bookmark_text(Bookmark(db.database_id ^ 1, Clock(1, 0)))
    with pytest.raises(BadBookmark, match="another database"):
        motet.connect(db.endpoint, after=foreign)


def test_a_bookmark_ahead_of_the_database_is_refused(db: motet.Database) -> None:
    with pytest.raises(BadBookmark, match="ahead"):
        motet.connect(db.endpoint, after=bookmark_text(Bookmark(db.database_id, END)))


def test_a_garbled_bookmark_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(BadBookmark, match="not a bookmark"):
        motet.connect("127.0.0.1:1", after="garbled")
