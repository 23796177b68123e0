"""Cursors: text that comes back as it was, or is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.client.cursors import FeedPosition, cursor_clock, cursor_text, parse_cursor
from motet.core.clock.hlc import END, Clock
from motet.errors import BadCursor
from motet.ids import StreamName
from motet.limits import clock_counter_max, clock_logical_max

CLOCKS = st.builds(Clock, st.integers(0, clock_logical_max), st.integers(0, clock_counter_max))
NAMES = st.lists(
    st.from_regex(r"[a-z][a-z0-9_.-]{0,8}", fullmatch=True), min_size=1, unique=True
).map(lambda names: tuple(StreamName(name) for name in sorted(names)))
CURSORS = st.builds(FeedPosition, st.integers(0, (1 << 64) - 1), CLOCKS, NAMES)

ORDERS = (StreamName("orders"),)
SOME = FeedPosition(7, Clock(1000, 3), ORDERS)


@given(CURSORS)
def test_a_cursor_comes_back_from_its_text(cursor: FeedPosition) -> None:
    text = cursor_text(cursor)
    assert re.fullmatch(r"[A-Za-z0-9._-]+", text)
    assert parse_cursor(text) == cursor


@given(CURSORS, st.data())
def test_one_changed_character_is_noticed(cursor: FeedPosition, data: st.DataObject) -> None:
    text = cursor_text(cursor)
    at = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda c: c != text[at]))
    with pytest.raises(BadCursor):
        parse_cursor(text[:at] + other + text[at + 1 :])


@given(CURSORS, st.data())
def test_a_shorter_text_is_noticed(cursor: FeedPosition, data: st.DataObject) -> None:
    text = cursor_text(cursor)
    with pytest.raises(BadCursor):
        parse_cursor(text[: data.draw(st.integers(0, len(text) - 1))])


@pytest.mark.parametrize("text", ["", "motet1.", "motet1.AAAA", "(1,2)", None, 7, b"motet1."])
def test_what_is_no_cursor_is_refused(text: Any) -> None:
    with pytest.raises(BadCursor):
        parse_cursor(text)


def test_a_cursor_is_good_for_its_database_and_its_streams() -> None:
    text = cursor_text(SOME)
    assert cursor_clock(text, database=7, streams=ORDERS, name="data") == Clock(1000, 3)
    with pytest.raises(BadCursor, match="another database"):
        cursor_clock(text, database=8, streams=ORDERS, name="data")
    with pytest.raises(BadCursor, match="orders"):
        cursor_clock(text, database=7, streams=(StreamName("stock"),), name="data")


def test_the_end_of_the_range_fits() -> None:
    assert parse_cursor(cursor_text(FeedPosition(0, END, ORDERS))).clock == END
