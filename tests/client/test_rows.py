"""What callers hand in: taken as it is, or refused before anything is sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.client.rows import (
    key_bytes,
    row_bytes,
    row_of,
    stream_name,
    stream_names,
    token_of,
    value_bytes,
    whole_number,
)
from motet.core.streams.change import Token
from motet.errors import BadInput, TooLarge
from motet.limits import key_bytes_max, row_bytes_max

# Lone surrogates are no characters; JSON's numbers have no NaN and no infinity.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    SCALARS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(TEXT, VALUES, max_size=6))
def test_a_row_comes_back_as_it_went_in(row: dict[str, Any]) -> None:
    assert row_of(row_bytes(row)) == row


@given(st.dictionaries(TEXT, st.none() | st.booleans() | st.integers() | TEXT, max_size=6))
def test_a_plain_row_is_encoded_as_any_other(row: dict[str, Any]) -> None:
    text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
    assert row_bytes(row) == text.encode()


@pytest.mark.parametrize(
    "row",
    [
        None,
        [1],
        "text",
        {1: "a number as a name"},
        {"nested": [{"deeper": {None: 1}}]},
        {"x": {1, 2}},
        {"x": b"bytes"},
        {"x": float("nan")},
        {"x": float("inf")},
        {"x": "\ud800"},
    ],
    ids=repr,
)
def test_what_is_no_json_is_refused(row: Any) -> None:
    with pytest.raises(BadInput):
        row_bytes(row)


def test_a_row_that_contains_itself_is_refused() -> None:
    row: dict[str, Any] = {}
    row["self"] = row
    with pytest.raises(BadInput):
        row_bytes(row)


def test_the_largest_row_is_taken_and_one_byte_more_is_not() -> None:
    frame = len(row_bytes({"x": ""}))
    assert len(row_bytes({"x": "a" * (row_bytes_max - frame)})) == row_bytes_max
    with pytest.raises(TooLarge):
        row_bytes({"x": "a" * (row_bytes_max - frame + 1)})
    assert len(value_bytes(bytes(row_bytes_max))) == row_bytes_max
    with pytest.raises(TooLarge):
        value_bytes(bytes(row_bytes_max + 1))


def test_a_key_is_text_or_bytes() -> None:
    assert key_bytes("ö") == key_bytes("ö".encode()) == b"\xc3\xb6"
    assert key_bytes(b"\xff" * key_bytes_max) == b"\xff" * key_bytes_max
    with pytest.raises(TooLarge):
        key_bytes("ö" * (key_bytes_max // 2 + 1))


@pytest.mark.parametrize("key", ["", b"", 7, None, bytearray(b"x"), "\udc00"], ids=repr)
def test_other_keys_are_refused(key: Any) -> None:
    with pytest.raises(BadInput):
        key_bytes(key)


@pytest.mark.parametrize("value", ["text", None, 7, {}], ids=repr)
def test_a_value_is_bytes(value: Any) -> None:
    assert value_bytes(bytearray(b"x")) == value_bytes(memoryview(b"x")) == b"x"
    with pytest.raises(BadInput):
        value_bytes(value)


@pytest.mark.parametrize("name", ["", "a b", "a,b", "a/b", "1st", "é", "x" * 129, 7, None])
def test_bad_names_of_streams_are_refused(name: Any) -> None:
    with pytest.raises(BadInput):
        stream_name(name)


def test_a_set_of_streams_is_sorted_and_has_each_once() -> None:
    assert stream_names(("b", "a", "b")) == ("a", "b")
    with pytest.raises(BadInput):
        stream_names(())


def test_a_token_is_a_producer_and_a_count() -> None:
    assert token_of(None) is None
    assert token_of(("p", 0)) == Token("p", 0)


@pytest.mark.parametrize(
    "token", ["p", ("p",), ("", 1), ("p", -1), ("p", True), ("p", 1 << 63), (7, 1), ["p", 1]]
)
def test_other_tokens_are_refused(token: Any) -> None:
    with pytest.raises(BadInput):
        token_of(token)


@pytest.mark.parametrize("value", [-1, 11, 1.0, "1", True, None])
def test_a_number_outside_its_bounds_is_refused_by_name(value: Any) -> None:
    assert whole_number("limit", 10, 0, 10) == 10
    with pytest.raises(BadInput, match="limit"):
        whole_number("limit", value, 0, 10)
