"""Blocks of records: what goes in comes out, and nothing else is taken for one."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.errors import BadInput, TooLarge
from motet.format.record_block import block_count, check_block, decode_block, encode_block
from motet.limits import block_records_max, key_bytes_max, row_bytes_max

RECORDS = st.lists(
    st.tuples(st.binary(min_size=1, max_size=20), st.binary(max_size=40)), min_size=1, max_size=30
)


@given(RECORDS)
def test_what_goes_in_comes_out(records: list[tuple[bytes, bytes]]) -> None:
    keys, values = [key for key, _ in records], [value for _, value in records]
    block = encode_block(keys, values)
    assert check_block(block) == block_count(block) == len(records)
    assert decode_block(block) == (keys, values)


@given(RECORDS, st.data())
def test_a_block_that_was_cut_is_none(
    records: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    block = encode_block(*map(list, zip(*records, strict=True)))
    cut = data.draw(st.integers(0, len(block) - 1))
    with pytest.raises(BadInput):
        check_block(block[:cut])


@given(st.binary(max_size=200))
def test_any_bytes_are_a_good_block_or_refused(data: bytes) -> None:
    try:
        count = check_block(data)
    except (BadInput, TooLarge):
        return
    keys, values = decode_block(data)
    assert len(keys) == len(values) == count
    assert encode_block(keys, values) == data


def test_ends_that_fall_are_refused() -> None:
    block = struct.pack("<5I", 2, 2, 1, 1, 1) + b"a" + b"c"
    with pytest.raises(BadInput, match="do not rise"):
        check_block(block)


def test_a_key_has_a_byte() -> None:
    with pytest.raises(BadInput, match="at least 1 byte"):
        check_block(encode_block([b""], [b"v"]))


@pytest.mark.parametrize(
    ("key", "value"), [(b"k" * (key_bytes_max + 1), b""), (b"k", b"v" * (row_bytes_max + 1))]
)
def test_a_record_has_its_bounds(key: bytes, value: bytes) -> None:
    with pytest.raises(TooLarge):
        check_block(encode_block([key], [value]))


def test_the_largest_record_fits() -> None:
    assert check_block(encode_block([b"k" * key_bytes_max], [b"v" * row_bytes_max])) == 1


def test_a_block_has_so_many_records_at_most() -> None:
    count = block_records_max + 1
    with pytest.raises(BadInput, match="does not hold"):
        check_block(encode_block([b"k"] * count, [b""] * count))
