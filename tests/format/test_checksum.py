"""The checksum is CRC-32C as everybody else computes it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from motet.format.checksum import crc32c


def bit_by_bit(data: bytes) -> int:
    """The definition: the reflected Castagnoli polynomial, one bit at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_the_check_value_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@given(st.binary(max_size=300))
def test_it_is_what_the_definition_says(data: bytes) -> None:
    assert crc32c(data) == bit_by_bit(data)
