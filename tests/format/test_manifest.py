"""Manifests: read back as written, and no damaged byte is believed."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from motet.errors import BadInput, BadRecord
from motet.format.inspect import describe
from motet.format.journal import encode_record
from motet.format.manifest import (
    MANIFEST_KIND,
    Manifest,
    content_hash,
    decode_manifest,
    encode_manifest,
    manifest_bytes_max,
)
from motet.ids import PartId, ShardId, TableId, TableName

HASH = content_hash(b"rows")
MANIFEST = Manifest(
    table=TableName("sales"),
    table_id=TableId("0123456789abcdef"),
    part_id=PartId("fedcba9876543210"),
    shard=ShardId(1),
    engine="replacing",
    order_by=("sku", "at"),
    rows=12,
    file=f"0-{HASH}",
    size_bytes=4,
    hash=HASH,
    low_key='["a", 1]',
    high_key='["z", null]',
    written_at_ms=1_800_000_000_000,
)
DATA = encode_manifest(MANIFEST)


@given(
    st.text(min_size=1),
    st.lists(st.text(min_size=1), max_size=4),
    st.integers(0, 2**62),
    st.text(),
    st.integers(0, 2**64 - 1),
)
def test_it_is_read_back_as_it_was_written(
    table: str, order_by: list[str], count: int, key: str, part: int
) -> None:
    manifest = msgspec.structs.replace(
        MANIFEST,
        table=TableName(table),
        order_by=tuple(order_by),
        rows=count,
        size_bytes=count,
        low_key=key,
        part_id=PartId(f"{part:016x}"),
    )
    assert decode_manifest(encode_manifest(manifest)) == manifest


def test_no_flipped_bit_is_believed() -> None:
    for bit in range(8 * len(DATA)):
        damaged = bytearray(DATA)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadRecord):
            decode_manifest(bytes(damaged))


def test_nothing_may_be_missing_or_follow() -> None:
    for size_bytes in range(len(DATA)):
        with pytest.raises(BadRecord):
            decode_manifest(DATA[:size_bytes])
    for more in (b"\0", bytes(8), DATA):
        with pytest.raises(BadRecord):
            decode_manifest(DATA + more)


def test_what_contradicts_itself_is_neither_written_nor_read() -> None:
    wrong = [
        msgspec.structs.replace(MANIFEST, hash=content_hash(b"other")),
        msgspec.structs.replace(MANIFEST, file="manifest"),
        msgspec.structs.replace(MANIFEST, part_id=PartId("../../../x")),
        msgspec.structs.replace(MANIFEST, rows=-1),
    ]
    salt = int(MANIFEST.part_id, 16)
    for manifest in wrong:
        with pytest.raises(BadInput):
            encode_manifest(manifest)
        with pytest.raises(BadRecord, match="contradicts"):
            decode_manifest(encode_record(salt, 0, MANIFEST_KIND, msgspec.json.encode(manifest)))
    body = msgspec.json.encode(MANIFEST)
    with pytest.raises(BadRecord, match="part 0000000000000007"):
        decode_manifest(encode_record(7, 0, MANIFEST_KIND, body))
    with pytest.raises(BadRecord, match="not the manifest"):
        decode_manifest(encode_record(salt, 0, 1, body))
    with pytest.raises(BadRecord, match="no manifest says"):
        decode_manifest(encode_record(salt, 0, MANIFEST_KIND, b'{"table":1}'))


def test_one_that_is_too_long_is_refused() -> None:
    with pytest.raises(BadInput, match="bytes"):
        encode_manifest(msgspec.structs.replace(MANIFEST, low_key="x" * manifest_bytes_max))


def test_it_is_described_with_all_that_it_says() -> None:
    summary, *lines = describe(DATA)
    assert summary == "manifest of part fedcba9876543210 of table 'sales'"
    said = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}
    assert said["order_by"] == "sku, at"
    assert said["rows"] == "12"
    assert set(said) == set(Manifest.__struct_fields__)
    (damage,) = describe(DATA[:-1])
    assert damage.startswith("damaged manifest of a part: ")


def test_a_part_file_is_told_from_its_damaged_twin() -> None:
    data = b"PAR1" + bytes(100) + (40).to_bytes(4, "little") + b"PAR1"
    name = f"0-{content_hash(data)}"
    assert describe(data) == ["part file of 112 bytes", "Parquet, footer of 40 bytes"]
    assert describe(data, name=name)[-1].endswith("as its name says")
    assert "DAMAGED" in describe(data[:50] + b"?" + data[51:], name=name)[-1]
    assert "cut off" in describe(data[:-1], name=name)[1]
    assert "not Parquet" in describe(b"", name=name)[1]
