"""What callers hand in, made to fit a schema."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from motet.columnar.block import block_of
from motet.errors import BadSchema

SCHEMA = pa.schema(
    [
        pa.field("sku", pa.string(), nullable=False),
        pa.field("qty", pa.int64()),
        pa.field("at", pa.timestamp("us", tz="UTC")),
    ]
)
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
ROWS = [{"sku": "a", "qty": 1, "at": NOON}, {"sku": "b", "qty": None, "at": None}]
TABLE = pa.Table.from_pylist(ROWS, SCHEMA)


class Capsule:
    """Somebody's own columns, known by the Arrow protocol alone."""

    def __init__(self, name: str, table: pa.Table) -> None:
        whole = table if name == "__arrow_c_stream__" else table.to_batches()[0]
        setattr(type(self), name, lambda _, *given, **named: getattr(whole, name)(*given, **named))


class StreamCapsule(Capsule): ...


class ArrayCapsule(Capsule): ...


@pytest.mark.parametrize(
    "data",
    [
        TABLE,
        TABLE.select(["at", "sku", "qty"]),
        TABLE.to_batches()[0],
        TABLE.to_reader(),
        StreamCapsule("__arrow_c_stream__", TABLE),
        ArrayCapsule("__arrow_c_array__", TABLE),
        ROWS,
        tuple(ROWS),
        TABLE.to_pydict(),
        {name: TABLE.column(name) for name in TABLE.column_names},
        [{"at": NOON, "qty": 1, "sku": "a"}, {"sku": "b"}],
        pa.table({"sku": ["a", "b"], "qty": pa.array([1, None], pa.int8()), "at": [NOON, None]}),
        pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1)]),
        TABLE.set_column(0, "sku", TABLE.column("sku").dictionary_encode()),
        TABLE.set_column(0, "sku", TABLE.column("sku").cast(pa.large_string())),
        TABLE.set_column(0, "sku", TABLE.column("sku").cast(pa.string_view())),
        TABLE.set_column(2, "at", TABLE.column("at").cast(pa.timestamp("ns", tz="Asia/Tokyo"))),
        TABLE.to_pandas(),
    ],
    ids=lambda data: type(data).__name__,
)
def test_the_same_rows_in_many_shapes_make_the_same_block(data: object) -> None:
    block = block_of(data, SCHEMA)
    assert block.schema.equals(SCHEMA, check_metadata=True)
    assert block.to_pylist() == ROWS
    block.validate(full=True)


def test_a_data_frame_that_was_filtered_does_not_bring_its_row_labels() -> None:
    frame = pd.DataFrame({"sku": ["x", "a", "b"], "qty": [7, 1, 2], "at": [NOON] * 3})
    block = block_of(frame[frame["qty"] < 7], SCHEMA)
    assert block.column("sku").to_pylist() == ["a", "b"]
    named = frame.set_index("sku")
    assert block_of(named, SCHEMA).column("sku").to_pylist() == ["x", "a", "b"]


@pytest.mark.parametrize("data", [[], {}, TABLE.slice(0, 0), {"sku": []}])
def test_no_rows_are_a_block_too(data: object) -> None:
    assert block_of(data, SCHEMA).equals(SCHEMA.empty_table())


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int8(), [1, -128]),
        (pa.float32(), [0.5, None]),
        (pa.float64(), [1, 2]),
        (pa.bool_(), [True, None]),
        (pa.binary(), [b"\0", b""]),
        (pa.date32(), [date(2026, 1, 5)]),
        (pa.timestamp("us"), [datetime.fromisoformat("2026-01-05T01:02:03.000004")]),
        (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-3.00")]),
        (pa.decimal128(4, 2), [7, 12]),
        (pa.list_(pa.int32()), [[1, None], [], None]),
        (pa.list_(pa.struct([("n", pa.int16())])), [[{"n": 1}], None, [None, {"n": None}]]),
        (pa.struct([("a", pa.int32()), ("b", pa.string())]), [{"a": 1, "b": "x"}, None]),
    ],
)
def test_values_of_python_arrive_unchanged(kind: pa.DataType, values: list[Any]) -> None:
    block = block_of([{"c": value} for value in values], pa.schema([("c", kind)]))
    assert block.column("c").type == kind
    assert block.column("c").to_pylist() == values


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (pa.int8(), pa.array([200])),
        (pa.int64(), pa.array(["1"])),
        (pa.int64(), pa.array([1.5])),
        (pa.int64(), pa.array([True])),
        (pa.bool_(), pa.array([1])),
        (pa.float32(), pa.array([0.1], pa.float64())),
        (pa.float64(), pa.array([2**60 + 1])),
        (pa.string(), pa.array([1])),
        (pa.string(), pa.array([b"x"])),
        (pa.binary(), pa.array(["x"])),
        (pa.date32(), pa.array([NOON])),
        (pa.timestamp("us"), pa.array([NOON])),
        (pa.timestamp("us", tz="UTC"), pa.array([datetime.fromisoformat("2026-01-05")])),
        (pa.timestamp("us"), pa.array([1], pa.timestamp("ns"))),
        (pa.timestamp("us"), pa.array(["2026-01-05"])),
        (pa.decimal128(4, 2), pa.array([Decimal("1.234")])),
        (pa.decimal128(4, 2), pa.array([1000])),
        (pa.decimal128(4, 2), pa.array([1.5])),
        (pa.list_(pa.int8()), pa.array([[1000]])),
        (pa.list_(pa.int64()), pa.array([1])),
        (pa.struct([("a", pa.int64())]), pa.array([[1]])),
    ],
)
def test_what_would_change_is_refused_by_name(kind: pa.DataType, given: pa.Array) -> None:
    with pytest.raises(BadSchema, match="'c'"):
        block_of(pa.table({"c": given}), pa.schema([("c", kind)]))


NESTED = pa.schema(
    [
        pa.field(
            "item",
            pa.struct(
                [
                    pa.field("sku", pa.string(), nullable=False),
                    pa.field("sizes", pa.list_(pa.field("item", pa.int32(), nullable=False))),
                ]
            ),
        )
    ]
)


def test_what_must_not_be_null_may_be_missing_below_a_null() -> None:
    rows = [
        {"item": None},
        {"item": {"sku": "a", "sizes": None}},
        {"item": {"sku": "b", "sizes": [1]}},
    ]
    assert block_of(rows, NESTED).to_pylist() == rows
    # Below a null struct, another library may have left anything.
    child = pa.array([None, "a"], pa.string())
    item = pa.StructArray.from_arrays([child], names=["sku"], mask=pa.array([True, False]))
    found = block_of(pa.table({"item": item}), NESTED)
    found.validate(full=True)
    assert found.to_pylist() == [{"item": None}, {"item": {"sku": "a", "sizes": None}}]


@pytest.mark.parametrize(
    ("rows", "column"),
    [
        ([{"item": {"sku": None}}], "item.sku"),
        ([{"item": {"sizes": [1]}}], "item.sku"),
        ([{"item": {"sku": "a", "sizes": [None]}}], "item.sizes"),
        ([{"item": {"sku": "a", "size": 1}}], "item.size"),
        ([{"item": {"sku": "a", "sizes": ["x"]}}], "item.sizes"),
    ],
)
def test_nested_columns_are_named_by_their_path(rows: list[Any], column: str) -> None:
    with pytest.raises(BadSchema, match=f"'{column}'"):
        block_of(rows, NESTED)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([{"sku": "a", "quantity": 1}], "no column 'quantity'"),
        (pa.table({"sku": ["a"], "quantity": [1]}), "no column 'quantity'"),
        ([{"qty": 1}], "'sku' is missing"),
        (pa.table({"qty": [1]}), "'sku' is missing"),
        ([{"sku": "a"}, {"qty": 1}], "'sku' has a null"),
        (pa.table({"sku": [None, "a"]}), "'sku' has a null"),
        ({"sku": ["a"], "qty": [1, 2]}, "'qty' has 2 values"),
        ({"sku": ["a", 1]}, "'sku' do not go together"),
        ({"sku": ["a"], 7: [1]}, "not 7"),
        (pa.Table.from_arrays([pa.array(["a"])] * 2, names=["sku", "sku"]), "'sku' twice"),
        (["a"], "a row is a dict, not str"),
        (17, "cannot be a int"),
        ("text", "cannot be a str"),
        (None, "cannot be a NoneType"),
    ],
)
def test_a_block_that_does_not_fit_says_where(data: object, said: str) -> None:
    with pytest.raises(BadSchema, match=said):
        block_of(data, SCHEMA)


def test_slices_are_taken_as_they_are() -> None:
    kind = pa.struct([pa.field("n", pa.list_(pa.int64()), nullable=False), ("s", pa.string())])
    values: list[Any] = [{"n": [1, 2], "s": "a"}, None, {"n": [], "s": None}, {"n": [3], "s": "d"}]
    given = pa.array(values, pa.struct([("s", pa.large_string()), ("n", pa.large_list(pa.int8()))]))
    for start in range(4):
        block = block_of(pa.table({"c": given.slice(start)}), pa.schema([("c", kind)]))
        block.validate(full=True)
        assert block.column("c").to_pylist() == values[start:]
