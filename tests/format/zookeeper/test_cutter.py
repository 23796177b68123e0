"""Cutting: the same messages however their bytes arrive, and an end at the first absurd length."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.errors import BadFrame
from motet.format.zookeeper.jute import PAYLOAD_BYTES_MAX, FrameCutter, framed, write_int


@given(st.lists(st.binary(max_size=30), max_size=6), st.lists(st.integers(0, 10_000), max_size=8))
def test_any_chunking_gives_the_same_messages(sent: list[bytes], places: list[int]) -> None:
    stream = b"".join(map(framed, sent))
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    cutter = FrameCutter()
    cut = [found for start, end in pairwise(edges) for found in cutter.feed(stream[start:end])]
    assert cut == sent
    assert cutter.pending_bytes == 0


def test_single_bytes_make_messages_as_soon_as_they_are_whole() -> None:
    cutter = FrameCutter()
    found = [cutter.feed(bytes([byte])) for byte in framed(b"ab") + framed(b"") + framed(b"c")]
    assert [(at, some) for at, some in enumerate(found) if some] == [
        (5, [b"ab"]),
        (9, [b""]),
        (14, [b"c"]),
    ]


def test_the_tail_is_kept_and_nothing_more() -> None:
    cutter = FrameCutter()
    assert cutter.feed(framed(b"first") + framed(b"second")[:-1]) == [b"first"]
    assert cutter.pending_bytes == 9
    assert cutter.feed(b"d") == [b"second"]
    assert cutter.pending_bytes == 0


@pytest.mark.parametrize("payload_bytes_max", [1, 44, PAYLOAD_BYTES_MAX])
def test_the_bound_itself_is_allowed_and_one_more_is_not(payload_bytes_max: int) -> None:
    largest = bytes(payload_bytes_max)
    assert FrameCutter(payload_bytes_max).feed(framed(largest)) == [largest]
    with pytest.raises(BadFrame, match=f"limit of {payload_bytes_max}"):
        FrameCutter(payload_bytes_max).feed(write_int(payload_bytes_max + 1))


@pytest.mark.parametrize("start", [b"\xff\xff\xff\xff", b"\x80\0\0\0", b"GET / HTTP/1.1", b"kill"])
def test_an_absurd_length_kills_the_cutter_for_good(start: bytes) -> None:
    cutter = FrameCutter()
    with pytest.raises(BadFrame) as first:
        cutter.feed(framed(b"good") + start)
    with pytest.raises(BadFrame) as again:
        cutter.feed(framed(b"good"))
    assert str(again.value) == str(first.value)
    assert cutter.pending_bytes == 0


@given(st.lists(st.binary(max_size=20), max_size=8))
def test_any_bytes_are_messages_or_a_bad_frame(chunks: list[bytes]) -> None:
    cutter = FrameCutter(payload_bytes_max=16)
    try:
        found = [payload for chunk in chunks for payload in cutter.feed(chunk)]
    except BadFrame:
        return
    stream = b"".join(chunks)
    assert b"".join(map(framed, found)) == stream[: len(stream) - cutter.pending_bytes]
    assert cutter.pending_bytes < 4 + 16
