"""Typed rows: what comes back equals what went in, and what does not fit is refused by its column."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.columnar.typed_rows import rows_of, schemas

from motet.columnar.rows import RowCodec
from motet.errors import BadSchema

NAIVE = datetime(2024, 2, 29)  # noqa: DTZ001 - for columns without a time zone


def codec(kind: pa.DataType, nullable: bool = True) -> RowCodec:
    return RowCodec(pa.schema([pa.field("x", kind, nullable)]))


def through(kind: pa.DataType, value: object) -> Any:
    rows = codec(kind)
    return rows.decode(rows.encode({"x": value}))["x"]


@given(st.data())
@settings(deadline=None)
def test_decode_gives_back_what_encode_took(data: st.DataObject) -> None:
    schema = data.draw(schemas)
    row = data.draw(rows_of(schema))
    rows = RowCodec(schema)
    text = rows.encode(row)
    assert rows.decode(text) == row
    assert rows.encode(rows.decode(text)) == text
    assert list(json.loads(text)) == schema.names


@given(st.data())
@settings(deadline=None)
def test_arrow_holds_the_same_values(data: st.DataObject) -> None:
    schema = data.draw(schemas)
    row = data.draw(rows_of(schema))
    rows = RowCodec(schema)
    struct = pa.struct(list(schema))
    assert pa.array([rows.decode(rows.encode(row))], struct) == pa.array([row], struct)


def test_the_text_is_json_that_says_what_it_means() -> None:
    row = {
        "n": 7,
        "f": 1,
        "t": "é\n",
        "b": True,
        "utc": datetime(2024, 2, 29, 12, tzinfo=timezone(timedelta(hours=2))),
        "wall": NAIVE.replace(hour=12, minute=30, second=1, microsecond=5),
        "d": date(2024, 2, 29),
        "p": Decimal("1.5"),
        "raw": b"\xff\x00",
        "l": [{"q": 1}, None],
    }
    schema = pa.schema(
        [
            ("n", pa.int64()),
            ("f", pa.float64()),
            ("t", pa.string()),
            ("b", pa.bool_()),
            ("utc", pa.timestamp("us", tz="UTC")),
            ("wall", pa.timestamp("us")),
            ("d", pa.date32()),
            ("p", pa.decimal128(10, 3)),
            ("raw", pa.binary()),
            ("l", pa.list_(pa.struct([("q", pa.int8())]))),
        ]
    )
    assert json.loads(RowCodec(schema).encode(row)) == {
        "n": 7,
        "f": 1.0,
        "t": "é\n",
        "b": True,
        "utc": "2024-02-29T10:00:00.000000Z",
        "wall": "2024-02-29T12:30:01.000005",
        "d": "2024-02-29",
        "p": "1.500",
        "raw": "/wA=",
        "l": [{"q": 1}, None],
    }


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.bool_(), 1),
        (pa.int64(), True),
        (pa.int64(), 1.0),
        (pa.int64(), "1"),
        (pa.int8(), 128),
        (pa.int8(), -129),
        (pa.int64(), 1 << 63),
        (pa.int64(), 10**5000),
        (pa.float64(), True),
        (pa.float64(), "1"),
        (pa.float64(), float("nan")),
        (pa.float64(), float("-inf")),
        (pa.float64(), 2**53 + 1),
        (pa.float64(), 10**400),
        (pa.float32(), 1e39),
        (pa.float32(), 2**24 + 1),
        (pa.string(), b"text"),
        (pa.string(), "\ud800"),
        (pa.binary(), "text"),
        (pa.date32(), NAIVE),
        (pa.date32(), "2024-01-01"),
        (pa.timestamp("us"), datetime(2024, 1, 1, tzinfo=UTC)),
        (pa.timestamp("us", tz="UTC"), NAIVE),
        (pa.timestamp("us", tz="UTC"), date(2024, 1, 1)),
        (pa.timestamp("us", tz="UTC"), datetime.min.replace(tzinfo=timezone(timedelta(hours=1)))),
        (pa.timestamp("us"), pd.NaT),
        (pa.timestamp("us"), pd.Timestamp(2024, 1, 1, nanosecond=1)),
        (pa.decimal128(4, 2), Decimal(100)),
        (pa.decimal128(4, 2), Decimal("0.001")),
        (pa.decimal128(4, 2), Decimal("1e-999999")),
        (pa.decimal128(4, 2), Decimal("1e999999")),
        (pa.decimal128(4, 2), Decimal("NaN")),
        (pa.decimal128(4, 2), Decimal("Infinity")),
        (pa.decimal128(4, 2), 100),
        (pa.decimal128(4, 2), 1.5),
        (pa.decimal128(4, 2), True),
        (pa.list_(pa.int8()), 7),
        (pa.list_(pa.int8()), {"a": 1}),
        (pa.list_(pa.int8()), [1, "2"]),
        (pa.list_(pa.field("item", pa.int8(), nullable=False)), [1, None]),
        (pa.struct([("a", pa.int8())]), [1]),
        (pa.struct([("a", pa.int8())]), {"a": 300}),
    ],
    ids=lambda value: str(value)[:40] if not isinstance(value, int) else f"{value:#x}"[:40],
)
def test_a_value_of_another_kind_is_refused(kind: pa.DataType, value: object) -> None:
    with pytest.raises(BadSchema) as raised:
        codec(kind).encode({"x": value})
    assert "x" in raised.value.what or "surrogate" in raised.value.what
    assert len(str(raised.value)) < 400


class Colour(str, Enum):  # noqa: UP042
    """Prints as something else than it is."""

    RED = "red"


class Size(IntEnum):
    """An int."""

    LARGE = 3


@pytest.mark.parametrize(
    ("kind", "value", "back"),
    [
        (pa.string(), Colour.RED, "red"),
        (pa.int8(), Size.LARGE, 3),
        (pa.float64(), 2**53, 2.0**53),
        (pa.float32(), 0.1, 0.10000000149011612),
        (pa.binary(), bytearray(b"a"), b"a"),
        (pa.binary(), memoryview(b"a"), b"a"),
        (pa.decimal128(4, 2), 99, Decimal("99.00")),
        (pa.decimal128(4, 2), Decimal("1.500"), Decimal("1.50")),
        (pa.decimal128(4, 2), Decimal("-0.00000"), Decimal(0)),
        (pa.decimal128(4, 2), Decimal("1e1"), Decimal(10)),
        (pa.list_(pa.int8()), (1, None), [1, None]),
        (pa.timestamp("us"), pd.Timestamp(NAIVE), NAIVE),
    ],
    ids=lambda value: "memoryview" if isinstance(value, memoryview) else str(value),
)
def test_another_way_to_say_it_is_taken(kind: pa.DataType, value: object, back: object) -> None:
    found = through(kind, value)
    assert found == back
    assert type(found) is type(back)


def test_a_missing_column_is_null_if_it_may_be() -> None:
    assert codec(pa.int8()).decode(codec(pa.int8()).encode({})) == {"x": None}
    assert codec(pa.int8()).decode(b"{}") == {"x": None}
    strict = codec(pa.int8(), nullable=False)
    for row in ({}, {"x": None}):
        with pytest.raises(BadSchema, match="'x'"):
            strict.encode(row)
        with pytest.raises(BadSchema, match="'x'"):
            strict.decode(json.dumps(row).encode())


def test_an_unknown_or_wrong_column_is_named_by_its_path() -> None:
    item = pa.struct([pa.field("qty", pa.int8(), nullable=False)])
    rows = RowCodec(pa.schema([("items", pa.list_(item)), ("one", item)]))
    wrong: list[tuple[dict[Any, Any], str]] = [
        ({"item": []}, "'item'"),
        ({7: 1}, "7"),
        ({"items": [{"qty": 1}, {"qty": "2"}]}, "'items.qty'"),
        ({"items": [{"qty": 1, "sku": "s"}]}, "'items.sku'"),
        ({"one": {}}, "'one.qty'"),
        ({"one": {"qty": 1000}}, "'one.qty'"),
    ]
    for row, named in wrong:
        with pytest.raises(BadSchema, match=named):
            rows.encode(row)


@pytest.mark.parametrize("row", [None, [], "x", 7, [("x", 1)]], ids=str)
def test_a_row_is_a_dict(row: object) -> None:
    with pytest.raises(BadSchema, match="dict"):
        codec(pa.int8()).encode(row)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (pa.int8(), b""),
        (pa.int8(), b"\xff"),
        (pa.int8(), b"[" * 100_000),
        (pa.int8(), b"7"),
        (pa.int8(), b'{"x":128}'),
        (pa.int8(), b'{"x":1,"y":2}'),
        (pa.float64(), b'{"x":"1"}'),
        (pa.string(), b'{"x":1}'),
        (pa.binary(), b'{"x":"a"}'),
        (pa.binary(), b'{"x":1}'),
        (pa.date32(), b'{"x":"2024-13-01"}'),
        (pa.date32(), b'{"x":7}'),
        (pa.timestamp("us"), b'{"x":"2024-01-01T00:00:00Z"}'),
        (pa.timestamp("us", tz="UTC"), b'{"x":"2024-01-01T00:00:00"}'),
        (pa.timestamp("us"), b'{"x":"soon"}'),
        (pa.timestamp("us"), b'{"x":7}'),
        (pa.decimal128(4, 2), b'{"x":"1.005"}'),
        (pa.decimal128(4, 2), b'{"x":"one"}'),
        (pa.decimal128(4, 2), b'{"x":1.5}'),
    ],
    ids=str,
)
def test_text_that_is_no_row_is_refused(kind: pa.DataType, text: bytes) -> None:
    with pytest.raises(BadSchema):
        codec(kind).decode(text)


def test_a_type_that_no_stream_has_is_refused() -> None:
    with pytest.raises(BadSchema, match="'x'"):
        codec(pa.duration("s"))
