"""Headers: sealed, chained, and recognised on disk only if they are whole."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.core.vsr.header import (
    OPERATION_MIN,
    Header,
    checksum,
    decode_header,
    encode_header,
    header_bytes,
    is_sealed,
    reserved_header,
    root_header,
    sealed,
)
from motet.ids import ClusterId, Op

ROOT = root_header(ClusterId(7))
NUMBERS = [
    "cluster",
    "epoch",
    "view",
    "op",
    "commit",
    "timestamp",
    "client",
    "session",
    "request",
    "release",
    "operation",
    "body_bytes",
]
CHECKSUMS = ["parent", "request_checksum", "body_checksum", "checkpoint_id"]

headers = st.builds(
    lambda numbers, sums: sealed(
        msgspec.structs.replace(
            ROOT,
            **dict(zip(NUMBERS, numbers, strict=True)),
            **dict(zip(CHECKSUMS, sums, strict=True)),
        )
    ),
    st.lists(st.integers(0, 2**63 - 1), min_size=len(NUMBERS), max_size=len(NUMBERS)),
    st.lists(st.binary(min_size=16, max_size=16), min_size=4, max_size=4),
)


@given(headers)
def test_what_is_written_is_read(header: Header) -> None:
    data = encode_header(header)
    assert len(data) == header_bytes
    assert decode_header(data) == header


@given(headers, st.integers(0, header_bytes * 8 - 1))
def test_a_flipped_bit_is_seen_or_harmless(header: Header, bit: int) -> None:
    data = bytearray(encode_header(header))
    data[bit // 8] ^= 1 << bit % 8
    assert decode_header(bytes(data)) in (None, header)  # what fills the place up is not read


@given(st.binary(max_size=2 * header_bytes))
def test_garbage_is_no_header(data: bytes) -> None:
    assert decode_header(data) is None


@pytest.mark.parametrize("size_bytes", [0, 1, 2, 100, header_bytes - 1])
def test_a_piece_is_no_header(size_bytes: int) -> None:
    assert decode_header(encode_header(ROOT)[:size_bytes]) is None


@pytest.mark.parametrize("field", [*NUMBERS, *CHECKSUMS])
def test_the_checksum_covers_every_field(field: str) -> None:
    before = getattr(ROOT, field)
    after = before + 1 if isinstance(before, int) else checksum(before)
    changed = msgspec.structs.replace(ROOT, **{field: after})
    assert is_sealed(ROOT)
    assert not is_sealed(changed)
    assert sealed(changed).checksum != ROOT.checksum


def test_sealing_twice_changes_nothing() -> None:
    assert sealed(ROOT) == ROOT


def test_clusters_differ_from_their_root_on() -> None:
    assert root_header(ClusterId(8)).checksum != ROOT.checksum


def test_a_reserved_place_is_no_operation() -> None:
    reserved = reserved_header(ClusterId(7), 3)
    assert reserved.op == Op(3)
    assert reserved.operation < OPERATION_MIN
    assert reserved.checksum != reserved_header(ClusterId(7), 4).checksum
