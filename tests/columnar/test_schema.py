"""Schemas: what is kept is what was meant, and what cannot be kept is refused by the column's name."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.columnar.typed_rows import schemas

from motet.columnar.schema import decode_schema, encode_schema, nesting_max
from motet.errors import BadSchema, TooLarge
from motet.limits import schema_bytes_max, table_columns_max


def kept(kind: pa.DataType) -> pa.DataType:
    data = encode_schema(pa.schema([("x", kind)]), what="stream a")
    return decode_schema(data).field("x").type


@given(schemas)
@settings(deadline=None)
def test_an_allowed_schema_comes_back_as_it_was(schema: pa.Schema) -> None:
    data = encode_schema(schema, what="stream a")
    assert decode_schema(data) == schema
    assert encode_schema(decode_schema(data), what="stream a") == data


@pytest.mark.parametrize(
    ("given", "becomes"),
    [
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.binary_view(), pa.binary()),
        (pa.float16(), pa.float32()),
        (pa.date64(), pa.date32()),
        (pa.timestamp("s"), pa.timestamp("us")),
        (pa.timestamp("ms", tz="Etc/UTC"), pa.timestamp("us", tz="UTC")),
        (pa.timestamp("us", tz="+00:00"), pa.timestamp("us", tz="UTC")),
        (pa.decimal64(10, 2), pa.decimal128(10, 2)),
        (pa.large_list(pa.large_string()), pa.list_(pa.string())),
        (pa.list_view(pa.int8()), pa.list_(pa.int8())),
        (pa.list_(pa.field("element", pa.int8())), pa.list_(pa.field("item", pa.int8()))),
        (pa.struct([("a", pa.large_string())]), pa.struct([("a", pa.string())])),
    ],
    ids=str,
)
def test_another_word_for_the_same_type_becomes_ours(
    given: pa.DataType, becomes: pa.DataType
) -> None:
    assert kept(given) == becomes
    assert kept(given).equals(becomes, check_metadata=True)


@pytest.mark.parametrize(
    "kind",
    [
        pa.null(),
        pa.uint8(),
        pa.uint64(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.timestamp("ns"),
        pa.timestamp("us", tz="Europe/Berlin"),
        pa.map_(pa.string(), pa.int64()),
        pa.decimal256(50, 2),
        pa.decimal128(5, -2),
        pa.decimal128(5, 6),
        pa.time64("us"),
        pa.duration("us"),
        pa.binary(4),
        pa.list_(pa.int8(), 2),
        pa.struct([]),
        pa.run_end_encoded(pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_other_types_are_refused_by_the_name_of_the_column(kind: pa.DataType) -> None:
    for schema, name in [
        (pa.schema([("a", pa.int8()), ("bad", kind)]), "bad"),
        (pa.schema([("outer", pa.list_(pa.struct([("bad", kind)])))]), "outer.bad"),
    ]:
        with pytest.raises(BadSchema, match=f"{name}") as raised:
            encode_schema(schema, what="stream orders")
        assert "stream orders" in str(raised.value)


def test_names_are_there_and_differ_by_more_than_their_case() -> None:
    for names in [("",), ("a", "a"), ("qty", "QTY")]:
        fields = [(name, pa.int8()) for name in names]
        with pytest.raises(BadSchema):
            encode_schema(pa.schema(fields), what="stream a")
        with pytest.raises(BadSchema, match="outer"):
            encode_schema(pa.schema([("outer", pa.struct(fields))]), what="stream a")
    with pytest.raises(BadSchema, match="no columns"):
        encode_schema(pa.schema([]), what="stream a")


def test_nullability_is_kept_and_metadata_is_dropped() -> None:
    inner = pa.field("b", pa.int8(), nullable=False, metadata={"k": "v"})
    field = pa.field("a", pa.struct([inner]), nullable=False, metadata={"k": "v"})
    noted, plain = pa.schema([field], metadata={"k": "v"}), pa.schema([field.remove_metadata()])
    data = encode_schema(noted, what="stream a")
    assert data == encode_schema(plain, what="stream a")
    found = decode_schema(data)
    assert found.metadata is None
    assert found.field("a").metadata is None
    assert found.field("a").type.field("b").metadata is None
    assert not found.field("a").nullable
    assert not found.field("a").type.field("b").nullable
    nullable = pa.schema([("a", pa.struct([("b", pa.int8())]))])
    assert encode_schema(nullable, what="stream a") != data


@pytest.mark.parametrize("schema", ["a text", 7, {"a": "int"}, pa.int8()], ids=str)
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(BadSchema, match="stream a"):
        encode_schema(schema, what="stream a")


def test_whatever_exports_a_schema_is_one() -> None:
    class Exports:
        def __arrow_c_schema__(self) -> object:
            return pa.schema([("a", pa.int8())]).__arrow_c_schema__()

    assert decode_schema(encode_schema(Exports(), what="x")).names == ["a"]


def test_a_schema_is_bounded() -> None:
    many = pa.schema([(f"c{i}", pa.int8()) for i in range(table_columns_max + 1)])
    with pytest.raises(TooLarge):
        encode_schema(many, what="stream a")
    within = pa.schema([("a", pa.struct([(f"c{i}", pa.int8()) for i in range(table_columns_max)]))])
    with pytest.raises(TooLarge):
        encode_schema(within, what="stream a")
    with pytest.raises(TooLarge):
        encode_schema(pa.schema([("x" * schema_bytes_max, pa.int8())]), what="stream a")
    deep = pa.int8()
    for _ in range(nesting_max):
        deep = pa.list_(deep)
    assert kept(deep) == deep
    with pytest.raises(BadSchema, match="nested"):
        kept(pa.list_(deep))


@pytest.mark.parametrize("data", [b"", b"schema", bytes(100)])
def test_bytes_that_are_no_schema_are_refused(data: bytes) -> None:
    with pytest.raises(BadSchema):
        decode_schema(data)
