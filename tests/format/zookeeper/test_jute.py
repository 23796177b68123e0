"""Jute: the bytes of each kind of value, and no way to hurt the reader of one."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.format.zookeeper.samples import buffers, ints, longs, many_texts, texts

from motet.errors import BadFrame
from motet.format.zookeeper import jute

KINDS: list[tuple[Callable[[Any], bytes], Callable[[bytes, int], Any], st.SearchStrategy[Any]]] = [
    (jute.write_int, jute.read_int, ints),
    (jute.write_long, jute.read_long, longs),
    (jute.write_bool, jute.read_bool, st.booleans()),
    (jute.write_buffer, jute.read_buffer, buffers),
    (jute.write_string, jute.read_string, texts),
    (jute.write_strings, jute.read_strings, many_texts),
]
READERS = [read for _, read, _ in KINDS]
WITH_LENGTH = [jute.read_buffer, jute.read_string, jute.read_strings]


@given(st.data(), st.binary(max_size=9), st.binary(max_size=9))
def test_what_is_written_is_read_wherever_it_stands(
    data: st.DataObject, before: bytes, behind: bytes
) -> None:
    for write, read, values in KINDS:
        value = data.draw(values)
        written = write(value)
        end = len(before) + len(written)
        assert read(before + written + behind, len(before)) == (value, end)


def test_values_are_big_endian_behind_their_lengths() -> None:
    assert jute.write_int(-2) == b"\xff\xff\xff\xfe"
    assert jute.write_long(258) == bytes(6) + b"\1\2"
    assert jute.write_bool(True) == b"\1"
    assert jute.write_buffer(b"ab") == b"\0\0\0\2ab"
    assert jute.write_string("é") == b"\0\0\0\2\xc3\xa9"
    assert jute.write_strings(("a", "")) == b"\0\0\0\2\0\0\0\1a\0\0\0\0"
    assert jute.framed(b"ab", b"", b"c") == b"\0\0\0\3abc"


@pytest.mark.parametrize("read", WITH_LENGTH)
def test_nothing_at_all_is_read_as_empty(read: Callable[[bytes, int], Any]) -> None:
    empty, end = read(b"\0\0\0\0", 0)
    assert read(b"\xff\xff\xff\xff", 0) == (empty, 4)
    assert (len(empty), end) == (0, 4)


@pytest.mark.parametrize("read", WITH_LENGTH)
@pytest.mark.parametrize("length", [-(2**31), -2, 8, 1 << 28, 2**31 - 1])
def test_an_absurd_length_is_refused_without_room_for_it(
    read: Callable[[bytes, int], Any], length: int
) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(BadFrame):
            read(struct.pack(">i7x", length), 0)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("read", READERS)
@given(data=st.binary(max_size=40), at=st.integers(0, 50))
def test_any_bytes_are_a_value_or_a_bad_frame(
    read: Callable[[bytes, int], Any], data: bytes, at: int
) -> None:
    try:
        _, end = read(data, at)
    except BadFrame:
        return
    assert at < end <= len(data)


@pytest.mark.parametrize("encoded", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"ok\x80"])
def test_what_is_not_utf_8_is_no_text(encoded: bytes) -> None:
    with pytest.raises(BadFrame, match="UTF-8"):
        jute.read_string(jute.write_buffer(encoded), 0)


@pytest.mark.parametrize(
    "write",
    [
        lambda: jute.write_int(2**31),
        lambda: jute.write_long(-(2**63) - 1),
        lambda: jute.write_string("half a pair: \ud800"),
    ],
)
def test_what_cannot_be_written_is_a_bad_frame_too(write: Callable[[], bytes]) -> None:
    with pytest.raises(BadFrame):
        write()


def test_bytes_that_nobody_read_are_noticed() -> None:
    jute.check_end(b"abc", 3)
    with pytest.raises(BadFrame, match="2 bytes too many"):
        jute.check_end(b"abc", 1)
