"""Part files: what goes in comes out, the same bytes every time, and other readers agree."""

from __future__ import annotations

import hashlib
import io
import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.columnar import part_file
from motet.columnar.filters import (
    Equal,
    Filter,
    GreaterOrEqual,
    IsNull,
    Less,
    StartsWith,
    row_groups_to_read,
)
from motet.columnar.ordering import sorted_block
from motet.columnar.part_file import PartFile, read_part, split_blocks, write_part
from motet.columnar.part_layout import row_group_rows
from motet.errors import BadBytes, BadInput, BadSchema, ObjectMissing, TooLarge

CLOCK = pa.struct([("logical", pa.int64()), ("counter", pa.int32())])
TYPES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.string(): st.text(max_size=9),
    pa.binary(): st.binary(max_size=9),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.timestamp("us", tz="UTC"): st.datetimes(timezones=st.just(UTC)),
    pa.decimal128(20, 3): st.decimals(-(10**16), 10**16, places=3),
    CLOCK: st.fixed_dictionaries(
        {"logical": st.none() | st.integers(0, 9), "counter": st.none() | st.integers(0, 9)}
    ),
    pa.list_(pa.int32()): st.lists(st.none() | st.integers(0, 9), max_size=3),
    pa.list_(pa.struct([("s", pa.string()), ("l", pa.list_(pa.float64()))])): st.lists(
        st.none()
        | st.fixed_dictionaries(
            {
                "s": st.none() | st.text(max_size=2),
                "l": st.none() | st.lists(st.floats(), max_size=2),
            }
        ),
        max_size=2,
    ),
}


@st.composite
def blocks(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.integers(0, 12))
    fields, columns = (
        [pa.field("key", pa.int64())],
        [pa.array(draw(_some(st.integers(0, 3), rows)))],
    )
    for place, kind in enumerate(draw(st.lists(st.sampled_from(list(TYPES)), max_size=4))):
        nullable = draw(st.booleans())
        values = st.none() | TYPES[kind] if nullable else TYPES[kind]
        fields.append(pa.field(f"c.{place}", kind, nullable))
        columns.append(pa.array(draw(_some(values, rows)), kind))
    columns[0] = columns[0].cast(pa.int64())
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _some(values: st.SearchStrategy[Any], rows: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(values, min_size=rows, max_size=rows)


def read_all(part: PartFile, schema: pa.Schema, *args: Any) -> pa.Table:
    batches = list(read_part(io.BytesIO(part.data), schema, *args))
    return pa.Table.from_batches(batches, schema=batches[0].schema if batches else schema)


@settings(deadline=None)
@given(blocks())
def test_what_is_read_is_what_was_written_in_order(block: pa.Table) -> None:
    part = write_part(block, ["key"])
    assert part.rows == block.num_rows
    assert part.hash == hashlib.blake2b(part.data, digest_size=16).hexdigest()
    for batch in read_part(io.BytesIO(part.data), block.schema):
        assert batch.schema.equals(block.schema, check_metadata=True)
    order = sorted(range(block.num_rows), key=block.column("key").to_pylist().__getitem__)
    found = read_all(part, block.schema)
    found.validate(full=True)
    assert repr(found.to_pylist()) == repr(block.take(pa.array(order, pa.int64())).to_pylist())


@settings(deadline=None)
@given(blocks(), st.integers(0, 12))
def test_the_same_rows_make_the_same_bytes_in_whatever_pieces(block: pa.Table, cut: int) -> None:
    pieces = pa.concat_tables([block.slice(0, cut), block.slice(cut)])
    described = pieces.replace_schema_metadata({"from": "elsewhere"})
    longer = pa.concat_tables([block, block]).combine_chunks().slice(block.num_rows)
    data = write_part(block, ["key"]).data
    assert write_part(described, ["key"]).data == data
    assert write_part(longer, ["key"]).data == data


def test_what_lies_below_a_null_does_not_show() -> None:
    mask = pa.array([False, True])
    parts = [
        write_part(
            pa.table(
                {
                    "s": pa.StructArray.from_arrays([pa.array([1, n])], names=["a"], mask=mask),
                    "n": pa.Array.from_buffers(
                        pa.int64(), 2, [pa.py_buffer(b"\1"), pa.array([1, n]).buffers()[1]]
                    ),
                }
            ),
            ["s"],
        )
        for n in (2, 1000)
    ]
    assert parts[0].data == parts[1].data


@pytest.fixture(scope="module")
def many() -> pa.Table:
    rows = 400_000
    dice = np.random.default_rng(5)
    return pa.table(
        {
            "sku": pa.array([f"sku-{n:04}" for n in dice.integers(0, 2000, rows)]),
            "at": pa.array(dice.integers(0, 2**50, rows), pa.timestamp("us", tz="UTC")),
            "qty": pa.array(dice.integers(0, 9, rows), pa.int32(), mask=dice.random(rows) < 0.01),
            "price": dice.random(rows),
            "clock": pa.StructArray.from_arrays(
                [
                    pa.array(dice.integers(0, 99, rows)),
                    pa.array(dice.integers(0, 9, rows), pa.int32()),
                ],
                fields=list(CLOCK),
            ),
        }
    )


@pytest.fixture(scope="module")
def many_path(many: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parts") / "0-many"
    path.write_bytes(write_part(many, ["sku", "at"]).data)
    return path


def test_row_groups_and_encodings(many: pa.Table, many_path: Path) -> None:
    metadata = pq.ParquetFile(many_path).metadata
    groups = [metadata.row_group(n) for n in range(metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [row_group_rows] * 3 + [
        400_000 - 3 * row_group_rows
    ]
    columns = {groups[0].column(n).path_in_schema: groups[0].column(n) for n in range(6)}
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    assert all(column.statistics.has_min_max for column in columns.values())
    assert "RLE_DICTIONARY" in columns["sku"].encodings
    assert "RLE_DICTIONARY" in columns["clock.logical"].encodings
    assert "DELTA_BINARY_PACKED" in columns["at"].encodings
    assert "PLAIN" in columns["price"].encodings
    assert "RLE_DICTIONARY" not in columns["price"].encodings


def test_other_readers_agree(many: pa.Table, many_path: Path) -> None:
    ours = pa.Table.from_batches(read_part(str(many_path), many.schema))
    assert ours.schema == many.schema
    assert ours.equals(ds.dataset(many_path, format="parquet").to_table())
    with duckdb.connect() as connection:
        connection.execute("set TimeZone = 'UTC'")
        theirs = connection.sql(f"select * from read_parquet('{many_path}')").to_arrow_table()
    assert ours.equals(theirs.cast(many.schema))
    assert ours.equals(sorted_block(many, ["sku", "at"]))


def test_only_the_columns_that_are_asked_for_are_read(many: pa.Table, many_path: Path) -> None:
    for columns in (["price"], ["clock", "sku"], []):
        found = list(read_part(str(many_path), many.schema, columns))
        assert all(batch.schema.names == columns for batch in found)
        assert sum(batch.num_rows for batch in found) == many.num_rows
    source = CountingFile(many_path.read_bytes())
    assert sum(b.num_rows for b in read_part(source, many.schema, ["qty"])) == many.num_rows
    assert source.bytes_read < len(source.getvalue()) / 10


class CountingFile(io.BytesIO):
    """A file that knows how much of it was read."""

    bytes_read = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.bytes_read += len(data)
        return data


@pytest.mark.parametrize(
    ("filters", "groups"),
    [
        ([], 4),
        ([Equal("sku", "sku-0000")], 1),
        ([Equal("sku", "sku-9999")], 0),
        ([StartsWith("sku", "sku-00")], 1),
        ([Less("sku", "sku-0700")], 2),
        ([GreaterOrEqual("sku", "sku-0300"), Less("sku", "sku-0400")], 1),
        ([IsNull("sku")], 0),
        ([Equal("qty", 99)], 0),
        ([Equal("qty", 3)], 4),
        ([IsNull("clock")], 4),
    ],
    ids=str,
)
def test_filters_leave_out_row_groups_and_rows(
    many: pa.Table, many_path: Path, filters: list[Filter], groups: int
) -> None:
    metadata = pq.ParquetFile(many_path).metadata
    assert len(row_groups_to_read(metadata, many.schema, filters)) == groups
    found = pa.Table.from_batches(
        read_part(str(many_path), many.schema, ["price", "at"], filters),
        schema=many.select(["price", "at"]).schema,
    )
    wanted = sorted_block(many, ["sku", "at"])
    for each in filters:
        wanted = wanted.filter(plain_mask(each, wanted.column(each.column)))
    assert found.equals(wanted.select(["price", "at"]))


def plain_mask(each: Filter, values: pa.ChunkedArray) -> pa.ChunkedArray:
    match each:
        case Equal():
            return pc.equal(values, each.value)
        case Less():
            return pc.less(values, each.value)
        case GreaterOrEqual():
            return pc.greater_equal(values, each.value)
        case StartsWith():
            return pc.starts_with(values, each.value)
    return pc.is_null(values)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.bool_(), [False, True]),
        (pa.int8(), [-5, 0, 7]),
        (pa.int64(), [-(2**63), 0, 2**63 - 1]),
        (pa.float32(), [-1.5, -0.0, 2.25]),
        (pa.float64(), [-math.inf, 0.0, 1e300]),
        (pa.string(), ["", "a", "é", "\U0001f600"]),
        (pa.binary(), [b"", b"\x7f", b"\xff"]),
        (pa.date32(), [date(1969, 12, 31), date(2026, 1, 5)]),
        (pa.timestamp("us"), [datetime.fromisoformat(f"{n}-01-01") for n in (1960, 2026)]),
        (pa.timestamp("us", tz="UTC"), [datetime(n, 1, 1, tzinfo=UTC) for n in (1960, 2026)]),
        (pa.decimal128(5, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("2.25")]),
        (pa.decimal128(38, 2), [Decimal("-1.50"), Decimal("0.00"), Decimal("2.25")]),
    ],
    ids=str,
)
def test_bounds_of_every_type_are_understood(kind: pa.DataType, values: list[Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(part_file, "row_group_rows", 1)
        block = pa.table({"v": pa.array(values, kind)})
        part = write_part(block, ["v"])
    metadata = pq.ParquetFile(io.BytesIO(part.data)).metadata
    for place, value in enumerate(values):
        for filters in ([Equal("v", value)], [GreaterOrEqual("v", value), Less("v", value)]):
            wanted = [value] if len(filters) == 1 else []
            found = read_all(part, block.schema, None, filters)
            assert found.column("v").to_pylist() == wanted
        assert row_groups_to_read(metadata, block.schema, [Equal("v", value)]) == [place]


def test_bounds_do_not_hide_what_is_no_number() -> None:
    block = pa.table({"key": [1, 2, 3], "v": [1.0, math.nan, None]})
    part = write_part(block, ["key"])
    found = read_all(part, block.schema, ["key"], [GreaterOrEqual("v", 100.0)])
    assert found.column("key").to_pylist() == [2]


def test_names_with_dots_are_just_names() -> None:
    inner = pa.struct([("b", pa.string())])
    block = pa.table({"a.b": [3, 1, 2], "a": pa.array([{"b": t} for t in "xyz"], inner)})
    part = write_part(block, ["a.b"])
    assert read_all(part, block.schema).to_pydict() == {
        "a.b": [1, 2, 3],
        "a": [{"b": t} for t in "yzx"],
    }
    assert read_all(part, block.schema, ["a"], [Equal("a.b", 2)]).to_pydict() == {"a": [{"b": "z"}]}


def test_the_first_and_the_last_key_are_said() -> None:
    schema = pa.schema(
        [
            ("a", pa.string()),
            ("n", pa.float64()),
            ("d", pa.decimal128(5, 2)),
            ("t", pa.timestamp("us", tz="UTC")),
            ("day", pa.date32()),
            ("s", CLOCK),
        ]
    )
    first = {"a": None, "n": math.nan, "d": None, "t": None, "day": None, "s": None}
    last = {
        "a": "é",
        "n": -math.inf,
        "d": Decimal("1.50"),
        "t": datetime(2026, 1, 5, tzinfo=UTC),
        "day": date(2026, 1, 5),
        "s": {"logical": 1, "counter": None},
    }
    part = write_part(pa.Table.from_pylist([last, first], schema), schema.names)
    assert json.loads(part.low_key) == [None, "nan", None, None, None, None]
    assert json.loads(part.high_key) == [
        "é",
        "-inf",
        "1.50",
        "2026-01-05T00:00:00Z",
        "2026-01-05",
        {"logical": 1, "counter": None},
    ]
    far = pa.table({"t": pa.array([2**62], pa.timestamp("us"))})
    assert json.loads(write_part(far, ["t"]).low_key) == [2**62]
    assert len(write_part(pa.table({"k": ["x" * 5000]}), ["k"]).low_key) == 1024


def test_a_block_without_rows_makes_no_parts_but_could() -> None:
    empty = pa.table({"k": pa.array([], pa.int64())})
    assert list(split_blocks(empty)) == []
    part = write_part(empty, ["k"])
    assert (part.rows, part.low_key, part.high_key) == (0, "[]", "[]")
    assert list(read_part(io.BytesIO(part.data), empty.schema)) == []


@settings(deadline=None)
@given(st.lists(st.integers(0, 400), max_size=40))
def test_blocks_are_split_by_rows_and_by_bytes(lengths: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(part_file, "block_rows_max", 10)
        patch.setattr(part_file, "block_bytes_max", 500)
        block = pa.table({"k": pa.array([b"x" * length for length in lengths], pa.binary())})
        pieces = list(split_blocks(block))
    assert all(0 < piece.num_rows <= 10 for piece in pieces)
    assert all(piece.nbytes <= 500 or piece.num_rows == 1 for piece in pieces)
    assert [row for piece in pieces for row in piece.to_pylist()] == block.to_pylist()


def test_a_part_beyond_its_bound_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = np.random.default_rng(1).integers(0, 2**62, 1000)
    monkeypatch.setattr(part_file, "part_bytes_max", 5000)
    with pytest.raises(TooLarge, match="exceeds the limit of 5000"):
        write_part(pa.table({"k": noise}), ["k"])
    with pytest.raises(TooLarge, match="one part"):
        write_part(pa.table({"k": np.tile(noise, 10)}), ["k"])


def test_bad_requests_and_bad_files_are_told_apart(tmp_path: Path) -> None:
    block = pa.table({"k": np.arange(1000)})
    part = write_part(block, ["k"])
    with pytest.raises(BadSchema, match="'m'"):
        write_part(block, ["m"])
    with pytest.raises(BadSchema, match="'m'"):
        list(read_part(io.BytesIO(part.data), block.schema, ["m"]))
    with pytest.raises(BadInput, match="'k'"):
        list(read_part(io.BytesIO(part.data), block.schema, None, [Equal("k", "x")]))
    with pytest.raises(ObjectMissing):
        list(read_part(str(tmp_path / "nowhere"), block.schema))
    damaged = tmp_path / "damaged"
    for data in (b"", b"PAR1", part.data[:-20], part.data[:4] + b"\xff" * 50 + part.data[54:]):
        damaged.write_bytes(data)
        with pytest.raises(BadBytes):
            list(read_part(str(damaged), block.schema))
