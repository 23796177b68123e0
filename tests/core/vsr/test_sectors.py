"""Sectors that vouch for themselves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.core.vsr.sectors import (
    BLANK_SECTOR,
    check_sector,
    seal,
    sector_bytes,
    sector_count,
    sector_data_bytes,
)

GENERATION = b"generation-1"


@given(st.binary(min_size=1, max_size=3_000))
def test_what_is_sealed_is_read_back(payload: bytes) -> None:
    sealed = seal(payload, GENERATION)
    assert len(sealed) == sector_count(len(payload)) * sector_bytes
    read = b""
    for number in range(len(sealed) // sector_bytes):
        sector = check_sector(sealed, number)
        assert sector is not None
        assert sector.generation == GENERATION
        read += sector.data
    assert read.rstrip(b"\0") == payload.rstrip(b"\0")
    assert len(read) >= len(payload)


@pytest.mark.parametrize(
    ("payload_bytes", "sectors"),
    [(1, 1), (sector_data_bytes, 1), (sector_data_bytes + 1, 2), (10 * sector_data_bytes, 10)],
)
def test_a_payload_takes_whole_sectors(payload_bytes: int, sectors: int) -> None:
    assert len(seal(b"x" * payload_bytes, GENERATION)) == sectors * sector_bytes


def test_any_changed_byte_makes_a_sector_invalid() -> None:
    sealed = seal(b"data" * 200, GENERATION)
    for at in range(len(sealed)):
        rotten = sealed[:at] + bytes([sealed[at] ^ 0x10]) + sealed[at + 1 :]
        assert check_sector(rotten, at // sector_bytes) is None
        assert check_sector(rotten, 1 - at // sector_bytes) is not None


def test_a_sector_in_the_wrong_row_is_invalid() -> None:
    sealed = seal(b"x" * 2 * sector_data_bytes, GENERATION)
    shifted = sealed[sector_bytes:] + sealed[:sector_bytes]
    assert check_sector(shifted, 0) is None
    assert check_sector(shifted, 1) is None


def test_a_sector_of_zeros_is_blank_and_sealed_zeros_are_not() -> None:
    assert check_sector(bytes(sector_bytes), 0) == BLANK_SECTOR
    zeros = check_sector(seal(bytes(10), bytes(12)), 0)
    assert zeros is not None
    assert zeros.generation == bytes(12)


def test_a_sector_that_is_not_there_is_invalid() -> None:
    assert check_sector(b"", 0) is None
    assert check_sector(bytes(sector_bytes - 1), 0) is None
    assert check_sector(bytes(sector_bytes), 1) is None
