"""Bookmarks: printable, checked, and whoever connects after one sees what its client has seen."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.client.cursors import Bookmark, bookmark_clock, bookmark_text, parse_bookmark
from motet.core.clock.hlc import Clock
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
    assert bookmark_clock(text, database=bookmark.database, name="here") == bookmark.clock


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
