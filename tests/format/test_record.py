"""Journal records: one record, its bytes, and how it is found among others."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.errors import BadRecord
from motet.format import record
from motet.format.checksum import crc32c
from motet.format.record import (
    RECORD_BODY_BYTES_MAX,
    RECORD_HEADER_BYTES,
    encode_record,
    find_header,
    parse_body,
    parse_header,
)
from motet.limits import record_bytes_max

SALT = 0x5EED_0123_4567_89AB
numbers = st.integers(0, 2**64 - 1)


def test_a_record_is_its_fields_its_body_and_zeros() -> None:
    padded = b"abc" + bytes(5)
    checked = struct.pack("<2sBBIQQQI", b"mj", 1, 9, 3, SALT, 12, 10, crc32c(padded))
    whole = checked + struct.pack("<I", crc32c(checked)) + padded
    assert encode_record(SALT, 12, 9, b"abc", durable_below=10) == whole


@given(numbers, numbers, st.integers(0, 255), st.binary(max_size=70), st.data())
def test_a_record_reads_back(
    salt: int, sequence: int, kind: int, body: bytes, data: st.DataObject
) -> None:
    durable_below = data.draw(st.integers(0, sequence))
    encoded = encode_record(salt, sequence, kind, body, durable_below)
    header = parse_header(encoded, 0)
    assert header is not None
    assert (header.salt, header.sequence, header.kind) == (salt, sequence, kind)
    assert header.durable_below == durable_below
    assert header.record_bytes == len(encoded)
    assert len(encoded) % 8 == 0
    assert parse_body(encoded, 0, header) == body


def test_without_a_word_everything_before_was_durable() -> None:
    assert encode_record(SALT, 12, 9, b"x") == encode_record(SALT, 12, 9, b"x", durable_below=12)


def test_every_bit_of_a_record_is_covered() -> None:
    encoded = encode_record(SALT, 12, 9, b"abc")
    for bit in range(len(encoded) * 8):
        flipped = bytearray(encoded)
        flipped[bit // 8] ^= 1 << bit % 8
        header = parse_header(bytes(flipped), 0)
        assert header is None or parse_body(bytes(flipped), 0, header) is None


def test_every_truncation_is_noticed() -> None:
    encoded = encode_record(SALT, 12, 9, bytes(16))
    for length in range(len(encoded)):
        header = parse_header(encoded[:length], 0)
        assert (header is not None) == (length >= RECORD_HEADER_BYTES)
        assert header is None or parse_body(encoded[:length], 0, header) is None


def test_the_longest_record_fits_and_one_byte_more_is_refused() -> None:
    assert len(encode_record(SALT, 0, 0, bytes(RECORD_BODY_BYTES_MAX))) == record_bytes_max
    with pytest.raises(BadRecord, match="exceeds the limit of"):
        encode_record(SALT, 0, 0, bytes(RECORD_BODY_BYTES_MAX + 1))


@pytest.mark.parametrize(
    ("salt", "sequence", "kind"), [(2**64, 0, 0), (-1, 0, 0), (0, 2**64, 0), (0, 0, 256)]
)
def test_a_number_that_does_not_fit_is_refused(salt: int, sequence: int, kind: int) -> None:
    with pytest.raises(BadRecord, match="does not fit"):
        encode_record(salt, sequence, kind, b"")


@given(st.binary(max_size=100), st.integers(0, 7))
def test_a_header_is_found_at_aligned_places_alone(before: bytes, offset: int) -> None:
    encoded = encode_record(SALT, 3, 1, b"body")
    found = find_header(before + encoded, 0, offset)
    if (offset + len(before)) % 8 == 0:
        assert found is not None
        assert found[0] == len(before)
    else:
        assert found is None


def test_a_search_looks_at_each_aligned_place_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def counting(data: bytes, position: int) -> record.RecordHeader | None:
        looks.append(position)
        return parse_header(data, position)

    monkeypatch.setattr(record, "parse_header", counting)
    data = b"mj" * 4000
    assert find_header(data, 0) is None
    assert looks == list(range(0, len(data), 8))
