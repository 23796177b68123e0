"""The bound on disk: what was written is read, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.core.clock.hlc import END, PACKED_MAX, ZERO, Clock
from motet.core.clock.reservation import (
    BOUND_FILE_BYTES,
    bound_change,
    decode_bound,
    encode_bound,
)
from motet.core.machine import Replace, Write
from motet.errors import BadRecord
from motet.ids import FileName, WriteId


@given(st.integers(0, PACKED_MAX).map(Clock.from_int))
def test_a_bound_is_read_as_it_was_written(bound: Clock) -> None:
    data = encode_bound(bound)
    assert len(data) == BOUND_FILE_BYTES
    assert decode_bound(data) == bound


@pytest.mark.parametrize("bound", [ZERO, Clock(1763233000123, 4), END])
def test_each_flipped_bit_is_noticed(bound: Clock) -> None:
    data = encode_bound(bound)
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadRecord):
            decode_bound(bytes(damaged))


def test_a_torn_or_prolonged_bound_is_noticed() -> None:
    data = encode_bound(Clock(5000, 1))
    for damaged in [*(data[:size] for size in range(len(data))), data + b"\x00"]:
        with pytest.raises(BadRecord):
            decode_bound(damaged)


@given(st.binary(max_size=2 * BOUND_FILE_BYTES))
def test_foreign_bytes_are_refused(data: bytes) -> None:
    try:
        bound = decode_bound(data)
    except BadRecord:
        return
    assert encode_bound(bound) == data


def test_zeros_are_no_bound() -> None:
    with pytest.raises(BadRecord):
        decode_bound(bytes(BOUND_FILE_BYTES))


def test_the_first_bound_comes_with_its_file_and_the_next_is_written_over_it_within_a_sector() -> (
    None
):
    file, first, second = FileName("bound"), Clock(5000, 1), Clock(6000, 0)
    assert bound_change(WriteId(1), file, ZERO, first) == Replace(
        WriteId(1), file, encode_bound(first)
    )
    assert bound_change(WriteId(2), file, first, second) == Write(
        WriteId(2), file, 0, encode_bound(second)
    )
    assert BOUND_FILE_BYTES <= 512
