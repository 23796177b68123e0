"""Ranges of HTTP against slices of Python."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.node.file_answer import ByteRange, NoSuchRange, parse_range

DATA = bytes(range(20))


def taken(header: str | None, data: bytes = DATA) -> bytes | None:
    """What is given for this header; None for a refusal."""
    try:
        part = parse_range(header, len(data))
    except NoSuchRange:
        return None
    return data if part is None else data[part.start : part.end]


@given(st.integers(0, 30), st.integers(0, 30))
def test_from_here_to_there(first: int, last: int) -> None:
    assert taken(f"bytes={first}-{last}") == (DATA[first : last + 1] or None)


@given(st.integers(0, 30))
def test_from_here_on_and_the_last(count: int) -> None:
    assert taken(f"bytes={count}-") == (DATA[count:] or None)
    assert taken(f"bytes=-{count}") == (DATA[-count:] if count else None)


@pytest.mark.parametrize(
    "header",
    [None, "", "bytes=-", "bytes=1", "bytes=a-b", "bytes=0-1,3-4", "lines=0-1", "bytes=٣-"],
)
def test_anything_else_gives_all(header: str | None) -> None:
    assert parse_range(header, 20) is None


def test_of_nothing_there_is_no_range() -> None:
    assert taken("bytes=0-", b"") is None
    assert parse_range("bytes= 0 - 4", 20) == ByteRange(0, 5)
