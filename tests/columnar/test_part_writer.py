"""Files of parts: the same bytes for the same rows, and manifests that tell the truth about them."""

from __future__ import annotations

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
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.columnar.typed_rows import rows_of, schemas

from motet.columnar import part_layout, part_writer
from motet.columnar.definitions import make_definition
from motet.columnar.ordering import is_sortable, sorted_block
from motet.columnar.part_facts import from_json
from motet.columnar.part_layout import bytes_of, row_group_rows
from motet.columnar.part_reader import read_table
from motet.columnar.part_sources import PartInMemory
from motet.columnar.part_writer import HAS_BLOOM_FILTERS, PartWriter, write_part
from motet.core.metadata.definitions import TableDefinition
from motet.format.checksum import crc32c
from motet.format.part_manifest import (
    PartManifest,
    PieceTable,
    decode_part_manifest,
    encode_part_manifest,
)
from motet.ids import PartId, TableId

PART = PartId("00000000000000aa")


def define(schema: pa.Schema, *order_by: str, **more: Any) -> TableDefinition:
    return make_definition("t", TableId("0" * 16), schema, order_by, **more)


def written(definition: TableDefinition, block: pa.Table) -> tuple[PartManifest, bytes]:
    file = io.BytesIO()
    return write_part(definition, 0, "p", block, file, PART), file.getvalue()


@st.composite
def tables(draw: st.DrawFn) -> tuple[TableDefinition, pa.Table]:
    schema = draw(schemas.filter(lambda s: any(is_sortable(field.type) for field in s)))
    keys = [field.name for field in schema if is_sortable(field.type)]
    order_by = draw(st.lists(st.sampled_from(keys), min_size=1, max_size=2, unique=True))
    rows = draw(st.lists(rows_of(schema), max_size=6))
    return define(schema, *order_by), pa.Table.from_pylist(rows, schema)


@settings(deadline=None)
@given(tables(), st.integers(0, 6))
def test_what_is_read_is_what_was_written_in_order(
    table: tuple[TableDefinition, pa.Table], cut: int
) -> None:
    definition, block = table
    manifest, data = written(definition, block)
    assert decode_part_manifest(encode_part_manifest(manifest)) == manifest
    ordered = sorted_block(block, definition.order_by)
    found = read_table(definition, [PartInMemory(manifest, data)])
    assert found.schema.equals(block.schema, check_metadata=True)
    assert found.to_pylist() == ordered.to_pylist()
    file = io.BytesIO()
    writer = PartWriter(definition, 0, "p", file, PART)
    for piece in (ordered.slice(0, cut), ordered.slice(cut)):
        writer.add(piece.replace_schema_metadata({"from": "elsewhere"}))
    assert writer.close() == manifest
    assert file.getvalue() == data, "whatever pieces the rows come in"
    check_pieces(manifest, data)
    check_facts(manifest, block)


def check_pieces(manifest: PartManifest, data: bytes) -> None:
    assert (manifest.size_bytes, manifest.hash) == (len(data), blake3(data).hexdigest())
    pieces = PieceTable(manifest)
    end = 0
    for number in range(len(pieces)):
        piece = pieces[number]
        assert piece.offset == end
        end += piece.length
        assert crc32c(data[piece.offset : end]) == piece.crc32c
    assert end == len(data)
    metadata = pq.read_metadata(io.BytesIO(data))
    assert pieces.footer.length == metadata.serialized_size + 8
    for group in range(metadata.num_row_groups):
        for leaf in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(leaf)
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            piece = pieces.chunk(group, leaf)
            assert (piece.offset, piece.length) == (start, chunk.total_compressed_size)


def check_facts(manifest: PartManifest, block: pa.Table) -> None:
    for facts, field in zip(manifest.columns, block.schema, strict=True):
        assert facts.name == field.name
        values = block.column(field.name)
        if pa.types.is_nested(field.type):
            assert facts.nulls is None
            continue
        assert facts.nulls == values.null_count
        if facts.low is not None:
            low, high = from_json(facts.low, field.type), from_json(facts.high, field.type)
            assert all(low <= value <= high for value in values.drop_null().to_pylist())


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
            "point": pa.array([{"x": n, "y": [n]} for n in range(rows)]),
        }
    )


@pytest.fixture(scope="module")
def many_path(many: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parts") / "part.parquet"
    definition = define(many.schema, "sku", "at")
    with path.open("x+b") as file:
        manifest = write_part(definition, 0, "p", many, file, PART)
    check_pieces(manifest, path.read_bytes())
    assert manifest.rows == many.num_rows
    assert manifest.row_groups == 4
    return path


def test_the_file_is_laid_out_for_reading(many_path: Path) -> None:
    metadata = pq.read_metadata(many_path)
    groups = [metadata.row_group(n) for n in range(metadata.num_row_groups)]
    rows = [row_group_rows] * 3 + [400_000 - 3 * row_group_rows]
    assert [group.num_rows for group in groups] == rows
    columns = {groups[0].column(n).path_in_schema: groups[0].column(n) for n in range(6)}
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    assert all(column.has_column_index and column.has_offset_index for column in columns.values())
    assert all(column.statistics.has_min_max for column in columns.values())
    assert "RLE_DICTIONARY" in columns["sku"].encodings
    assert "DELTA_BINARY_PACKED" in columns["at"].encodings
    assert (columns["sku"].bloom_filter_offset is not None) == HAS_BLOOM_FILTERS
    assert columns["price"].bloom_filter_offset is None
    assert [column.column_index for column in groups[0].sorting_columns] == [0, 1]


def test_other_readers_find_all_rows_and_the_ids(many: pa.Table, many_path: Path) -> None:
    rows, qty = many.num_rows, pc.sum(many.column("qty")).as_py()
    theirs = ds.dataset(many_path, format="parquet").to_table()
    assert (theirs.num_rows, pc.sum(theirs.column("qty")).as_py()) == (rows, qty)
    with duckdb.connect() as connection:
        count = f"select count(*), sum(qty) from read_parquet('{many_path}')"
        assert connection.sql(count).fetchall() == [(rows, qty)]
        one = f"{count} where sku = 'sku-0007'"
        known = pc.sum(pc.equal(many.column("sku"), "sku-0007")).as_py()
        assert connection.sql(one).fetchall()[0][0] == known
        said = (
            f"select name, field_id from parquet_schema('{many_path}') where field_id is not null"
        )
        ids = dict(connection.sql(said).fetchall())
    expected = {"sku": 1, "at": 2, "qty": 3, "price": 4, "point": 5, "x": 65541, "y": 131077}
    assert expected.items() <= ids.items()


def test_polars_finds_all_rows(many: pa.Table, many_path: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.read_parquet(many_path)
    assert frame.height == many.num_rows
    assert frame["qty"].sum() == pc.sum(many.column("qty")).as_py()


def test_a_bloom_filter_says_what_is_not_there(many_path: Path) -> None:
    if not HAS_BLOOM_FILTERS:
        pytest.skip("this pyarrow writes no bloom filters")
    with duckdb.connect() as connection:
        for sku, is_there in (("sku-0007", False), ("sku-0007x", True)):
            probe = f"select * from parquet_bloom_probe('{many_path}', 'sku', '{sku}')"
            excluded = [row[-1] for row in connection.sql(probe).fetchall()]
            assert all(excluded) == is_there


def test_rows_that_are_long_come_in_smaller_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    block = pa.table({"k": range(100), "text": ["x" * 1000] * 100})
    assert bytes_of(block) == 100 * (8 + 4 + 1000)
    definition = define(block.schema, "k")
    for module in (part_layout, part_writer):
        monkeypatch.setattr(module, "row_group_bytes_max", 10_000)
    whole = written(definition, block)
    metadata = pq.read_metadata(io.BytesIO(whole[1]))
    assert metadata.row_group(0).num_rows == 8
    file = io.BytesIO()
    writer = PartWriter(definition, 0, "p", file, PART)
    for start in range(0, 100, 3):
        writer.add(block.slice(start, 3))
    assert (writer.close(), file.getvalue()) == whole


def test_the_keys_and_bounds_are_said() -> None:
    schema = pa.schema(
        [
            ("a", pa.string()),
            ("f", pa.float64()),
            ("d", pa.decimal128(5, 2)),
            ("t", pa.timestamp("us", tz="UTC")),
            ("day", pa.date32()),
            ("b", pa.binary()),
        ]
    )
    one = ("é", -math.inf, Decimal("1.50"), datetime(2026, 1, 5, tzinfo=UTC), date(2026, 1, 5))
    block = pa.Table.from_pylist([dict(zip(schema.names, (*one, b"\xff"), strict=True))], schema)
    manifest, _ = written(define(schema, *schema.names), block)
    values = ["é", "-inf", "1.50", "2026-01-05T00:00:00Z", "2026-01-05", "/w=="]
    assert json.loads(manifest.low_key) == values == json.loads(manifest.high_key)
    assert [facts.low for facts in manifest.columns] == values
    assert [facts.high for facts in manifest.columns] == values
    far = pa.table({"t": pa.array([2**62], pa.timestamp("us"))})
    manifest, _ = written(define(far.schema, "t"), far)
    assert (manifest.columns[0].low, manifest.columns[0].nulls) == (None, 0)


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (["a" * 100, "b" * 100], "a" * 64, "b" * 63 + "c"),
        ([chr(0x10FFFF) * 65], None, None),
        (["a" + chr(0x10FFFF) * 65], "a" + chr(0x10FFFF) * 63, "b"),
        (["a" * 63 + "\ud7ffx"], "a" * 63 + "\ud7ff", "a" * 63 + "\ue000"),
    ],
)
def test_a_long_bound_is_cut_and_stays_a_bound(
    values: list[str], low: str | None, high: str | None
) -> None:
    block = pa.table({"k": values})
    manifest, _ = written(define(block.schema, "k"), block)
    assert (manifest.columns[0].low, manifest.columns[0].high) == (low, high)


def test_a_part_without_rows_can_be_written() -> None:
    empty = pa.table({"k": pa.array([], pa.int64())})
    definition = define(empty.schema, "k")
    manifest, data = written(definition, empty)
    assert (manifest.rows, manifest.row_groups, manifest.low_key) == (0, 0, "[]")
    check_pieces(manifest, data)
    assert read_table(definition, [PartInMemory(manifest, data)]).num_rows == 0


def test_a_null_struct_whose_fields_have_no_nulls_is_read_back() -> None:
    inner = pa.struct([pa.field("l", pa.list_(pa.field("item", pa.int8(), False)), False)])
    schema = pa.schema([pa.field("k", pa.int64()), pa.field("s", inner)])
    block = pa.Table.from_pylist([{"k": 1, "s": None}, {"k": 2, "s": {"l": [1, 2]}}], schema)
    definition = define(schema, "k")
    found = read_table(definition, [PartInMemory(*written(definition, block))])
    found.validate(full=True)
    assert found.equals(block)
    assert found.schema.equals(schema, check_metadata=True)
