"""The shard of a row: hashes that never change, and the same by a plain program."""

from __future__ import annotations

import math
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.columnar.typed_rows import plain_types, values_of

from motet.columnar.definitions import make_definition
from motet.columnar.placing import hash_rows, is_hashable, shards_of
from motet.core.metadata.definitions import shard_of
from motet.format.checksum import crc32c
from motet.ids import TableId

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "placing.md").read_text()

VECTORS: list[tuple[pa.DataType, Any, int]] = [
    (pa.int64(), 0, 0x6110879E),
    (pa.int64(), 1, 0xDDF83900),
    (pa.int32(), -1, 0x49FB3355),
    (pa.int64(), 2**63 - 1, 0x27C8A682),
    (pa.bool_(), True, 0xDDF83900),
    (pa.date32(), date(2026, 11, 19), 0x8C30BEB7),
    (pa.timestamp("us", tz="UTC"), datetime(2026, 11, 19, 12, 30, tzinfo=UTC), 0x9DADFA68),
    (pa.float64(), 0.0, 0x6110879E),
    (pa.float64(), -0.0, 0x6110879E),
    (pa.float32(), 1.5, 0xCB498D35),
    (pa.float64(), math.nan, 0xF10CFBA4),
    (pa.float64(), math.inf, 0x246093E9),
    (pa.decimal128(10, 2), Decimal("-1.50"), 0xF7F51FA4),
    (pa.string(), "", 0),
    (pa.string(), "sku-1", 0xBD917457),
    (pa.string(), "größe", 0xEF7B3B0D),
    (pa.binary(), b"\xff\x00", 0xBD8C33C3),
    (pa.int64(), None, 0x2CC4B6AD),
    (pa.string(), None, 0x2CC4B6AD),
]


def column(values: list[Any], kind: pa.DataType) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(values, kind)])


def hash_of(*values: tuple[pa.DataType, Any]) -> int:
    return int(hash_rows([column([value], kind) for kind, value in values], 1)[0])


@pytest.mark.parametrize(("kind", "value", "expected"), VECTORS, ids=str)
def test_these_hashes_never_change(kind: pa.DataType, value: Any, expected: int) -> None:
    assert hash_of((kind, value)) == expected
    assert f"`{expected:08x}`" in PAGE.split("<!-- hashes -->")[1]


def test_columns_follow_each_other() -> None:
    assert hash_of((pa.string(), "sku-1"), (pa.int64(), 7)) == 0x502F7D2D
    assert hash_of((pa.int64(), 7), (pa.string(), "sku-1")) == 0xFA018C6F
    inner = pa.struct([("a", pa.string()), ("b", pa.int64())])
    assert hash_of((inner, {"a": "sku-1", "b": 7})) == 0x502F7D2D
    assert hash_of((inner, None)) == hash_of((inner, {"a": None, "b": None}))


def plain_bytes(value: Any, kind: pa.DataType) -> bytes:
    """What the page says, value by value."""
    if value is None:
        return b"\0"
    if isinstance(value, str | bytes):
        return value.encode() if isinstance(value, str) else value
    if isinstance(value, float):
        return struct.pack("<d", value + 0.0)
    if isinstance(value, Decimal):
        return int(value.scaleb(kind.scale)).to_bytes(16, "little", signed=True)
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
        micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
        return struct.pack("<q", micros)
    if isinstance(value, date):
        return struct.pack("<q", (value - date(1970, 1, 1)).days)
    return struct.pack("<q", value)


def plain_hash(data: bytes) -> int:
    mixed = crc32c(data)
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return mixed ^ mixed >> 16


small_types = plain_types.filter(lambda kind: not pa.types.is_decimal(kind) or kind.precision < 20)


@given(st.data(), st.lists(small_types, min_size=1, max_size=3), st.integers(0, 20))
def test_a_plain_program_computes_the_same(
    data: st.DataObject, kinds: list[pa.DataType], rows: int
) -> None:
    columns = [
        data.draw(st.lists(st.none() | values_of(kind), min_size=rows, max_size=rows))
        for kind in kinds
    ]
    found = hash_rows([column(c, k) for c, k in zip(columns, kinds, strict=True)], rows)
    for row in range(rows):
        encoded = b"".join(plain_bytes(c[row], k) for c, k in zip(columns, kinds, strict=True))
        assert found[row] == plain_hash(encoded)


def test_many_rows_and_repeated_text_are_hashed_alike() -> None:
    numbers = np.random.default_rng(3).integers(-(2**62), 2**62, 100_000)
    whole = pa.chunked_array([pa.array(numbers)])
    found = hash_rows([whole], len(numbers))
    assert [int(h) for h in found[:50]] == [
        plain_hash(n.to_bytes(8, "little", signed=True)) for n in numbers[:50].tolist()
    ]
    pieces = pa.chunked_array([pa.array(numbers[:70_000]), pa.array(numbers[70_000:])])
    assert (hash_rows([pieces], len(numbers)) == found).all()
    narrow = (numbers % 1000).astype(np.int32)
    assert (
        hash_rows([pa.chunked_array([narrow])], len(narrow))
        == hash_rows([pa.chunked_array([narrow.astype(np.int64)])], len(narrow))
    ).all()
    texts = [None if n % 7 == 0 else f"sku-{n}" for n in narrow.tolist()]
    found = hash_rows([pa.chunked_array([texts])], len(texts))
    for row in range(50):
        text = texts[row]
        assert found[row] == plain_hash(b"\0" if text is None else text.encode())


@given(st.lists(st.text(min_size=1), max_size=20), st.integers(1, 9))
def test_text_is_where_the_key_of_a_stream_is(keys: list[str], shards: int) -> None:
    schema = pa.schema([("k", pa.string())])
    definition = make_definition("t", TableId("0" * 16), schema, ["k"], shards=shards)
    found = shards_of(definition, pa.table({"k": pa.array(keys, pa.string())}))
    assert found.tolist() == [shard_of(key.encode(), shards) for key in keys]


def test_lists_have_no_place() -> None:
    assert is_hashable(pa.struct([("a", pa.int64())]))
    assert not is_hashable(pa.list_(pa.int64()))
    assert not is_hashable(pa.struct([("a", pa.list_(pa.int64()))]))
