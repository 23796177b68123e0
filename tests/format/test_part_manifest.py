"""Manifests of parts: read back as written, no damaged byte is believed, every byte lies in one piece."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.core.mergetree.entries import PartHeader, header_of
from motet.errors import BadInput, BadRecord
from motet.format.inspect import describe
from motet.format.part_manifest import (
    PART_MANIFEST_KIND,
    Bound,
    ColumnFacts,
    PartManifest,
    PieceTable,
    decode_part_manifest,
    encode_part_manifest,
    packed,
)
from motet.format.record import encode_record
from motet.ids import PartId, TableId
from motet.limits import part_manifest_bytes_max

LENGTHS = [4, 10, 20, 0, 40, 50]
MANIFEST = PartManifest(
    table_id=TableId("0123456789abcdef"),
    part_id=PartId("fedcba9876543210"),
    shard=1,
    partition="2026-11-19",
    rows=12,
    size_bytes=sum(LENGTHS),
    hash="ab" * 32,
    schema_version=3,
    engine="merge",
    order_by=(1, 2),
    low_key='["a",1]',
    high_key='["z",null]',
    columns=(ColumnFacts(1, "sku", 0, "a", "z"), ColumnFacts(2, "qty", 2, -1, 7.5)),
    leaves=(1, 2),
    row_groups=1,
    piece_lengths=packed(LENGTHS),
    piece_checksums=packed([0, 1, 2, 3, 4, (1 << 32) - 1]),
)
DATA = encode_part_manifest(MANIFEST)

bounds: st.SearchStrategy[Bound] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.text(),
    st.floats(allow_nan=False, allow_infinity=False),
)
facts = st.builds(
    ColumnFacts, st.integers(1), st.text(), st.none() | st.integers(0), bounds, bounds
)


@given(
    st.lists(facts, max_size=4),
    st.lists(st.integers(0, 2**32 - 1), min_size=4, max_size=9),
    st.text(),
    st.integers(0, 2**64 - 1),
)
def test_it_is_read_back_as_it_was_written(
    columns: list[ColumnFacts], pieces: list[int], key: str, part: int
) -> None:
    manifest = msgspec.structs.replace(
        MANIFEST,
        columns=tuple(columns),
        size_bytes=sum(pieces),
        piece_lengths=packed(pieces),
        piece_checksums=packed(pieces[::-1]),
        low_key=key,
        part_id=PartId(f"{part:016x}"),
    )
    read = decode_part_manifest(encode_part_manifest(manifest))
    assert read == manifest
    assert encode_part_manifest(read) == encode_part_manifest(manifest)


def test_no_flipped_bit_is_believed() -> None:
    for bit in range(8 * len(DATA)):
        damaged = bytearray(DATA)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadRecord):
            decode_part_manifest(bytes(damaged))


def test_nothing_may_be_missing_or_follow() -> None:
    for size_bytes in range(len(DATA)):
        with pytest.raises(BadRecord):
            decode_part_manifest(DATA[:size_bytes])
    for more in (b"\0", bytes(8), DATA):
        with pytest.raises(BadRecord):
            decode_part_manifest(DATA + more)


@pytest.mark.parametrize(
    "wrong",
    [
        {"hash": "ab"},
        {"part_id": "../../../x"},
        {"table_id": "sales"},
        {"partition": "a/b"},
        {"partition": ""},
        {"rows": -1},
        {"size_bytes": 5},
        {"row_groups": 3},
        {"piece_lengths": packed(LENGTHS[:-1])},
        {"piece_lengths": b"x"},
        {"format": 0},
    ],
)
def test_what_contradicts_itself_is_neither_written_nor_read(wrong: dict[str, object]) -> None:
    manifest = msgspec.structs.replace(MANIFEST, **wrong)
    with pytest.raises(BadInput):
        encode_part_manifest(manifest)
    body = msgspec.json.encode(manifest)
    with pytest.raises(BadRecord, match="contradicts"):
        decode_part_manifest(encode_record(int(MANIFEST.part_id, 16), 0, PART_MANIFEST_KIND, body))


def test_a_record_of_another_part_or_kind_is_no_manifest() -> None:
    body = msgspec.json.encode(MANIFEST)
    with pytest.raises(BadRecord, match="part 0000000000000007"):
        decode_part_manifest(encode_record(7, 0, PART_MANIFEST_KIND, body))
    with pytest.raises(BadRecord, match="not the manifest"):
        decode_part_manifest(encode_record(int(MANIFEST.part_id, 16), 0, ord("p"), body))
    with pytest.raises(BadRecord, match="no manifest says"):
        decode_part_manifest(encode_record(7, 0, PART_MANIFEST_KIND, b'{"rows":"x"}'))


def test_one_that_is_too_long_is_refused() -> None:
    long = msgspec.structs.replace(MANIFEST, low_key="x" * part_manifest_bytes_max)
    with pytest.raises(BadInput, match="exceeds the limit"):
        encode_part_manifest(long)


def test_a_part_with_many_chunks_has_a_manifest_that_fits() -> None:
    pieces = [1] * (100_000 + 2)
    manifest = msgspec.structs.replace(
        MANIFEST,
        leaves=tuple(range(50)),
        row_groups=2_000,
        size_bytes=len(pieces),
        piece_lengths=packed(pieces),
        piece_checksums=packed(pieces),
    )
    assert len(encode_part_manifest(manifest)) < 1_200_000


@given(st.integers(0, 130), st.integers(0, 130))
def test_a_range_lies_within_the_pieces_that_cover_it(offset: int, length: int) -> None:
    table = PieceTable(MANIFEST)
    numbers = table.covering(offset, length)
    wanted = range(offset, min(offset + length, MANIFEST.size_bytes))
    if not wanted:
        assert not numbers
        return
    first, last = table[numbers[0]], table[numbers[-1]]
    assert first.offset <= offset < first.offset + first.length
    assert last.offset < wanted.stop <= last.offset + last.length


def test_chunks_and_footer_are_found() -> None:
    table = PieceTable(MANIFEST)
    assert table.chunk(0, 0).offset == 4
    assert table.chunk(0, 1) == table[2]
    assert table.footer.offset + table.footer.length == MANIFEST.size_bytes
    assert len(table) == len(LENGTHS)


def test_the_header_says_what_the_manifest_says() -> None:
    assert header_of(MANIFEST) == PartHeader(
        PartId("fedcba9876543210"), "2026-11-19", 12, sum(LENGTHS), "ab" * 32, 3, 1
    )


def test_it_is_described() -> None:
    summary, *lines = describe(DATA)
    assert summary == "manifest of part fedcba9876543210 of table 0123456789abcdef"
    said = {line.split()[0] for line in lines}
    assert {"rows", "hash", "low_key", "column"} <= said
    (damage,) = describe(DATA[:-1])
    assert damage.startswith("damaged manifest of a part: ")
