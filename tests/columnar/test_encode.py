"""Rows become parts: none lost, each where it belongs, and their content known however they come."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.columnar.typed_rows import rows_of, schemas

from motet.columnar import block as block_module
from motet.columnar import encode as encode_module
from motet.columnar.content_hash import ContentHash
from motet.columnar.definitions import make_definition
from motet.columnar.encode import EncodedRows, encode_parts
from motet.columnar.part_reader import read_table
from motet.columnar.part_sources import LocalPart, PartInMemory, PartSource
from motet.columnar.partitions import partitions_of
from motet.columnar.placing import shards_of
from motet.core.mergetree.entries import header_of
from motet.core.metadata.definitions import TableDefinition
from motet.errors import BadSchema, DiskFull, ObjectError, TooLarge
from motet.format.part_manifest import decode_part_manifest
from motet.ids import PartId, TableId
from motet.limits import insert_inline_bytes_max

SCHEMA = pa.schema(
    [
        ("sku", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("qty", pa.int64()),
        ("seq", pa.int64()),
    ]
)


def define(**more: Any) -> TableDefinition:
    return make_definition("t", TableId("0" * 16), SCHEMA, ["sku"], **more)


class Ids:
    """Ids of parts, one after the other."""

    def __init__(self) -> None:
        self._last = 0

    def __call__(self) -> PartId:
        self._last += 1
        return PartId(f"{self._last:016x}")


def sources(encoded: EncodedRows) -> list[PartSource]:
    made: list[PartSource] = []
    for part in encoded.parts:
        assert decode_part_manifest(part.manifest_bytes) == part.manifest
        assert header_of(part.manifest) == part.header
        if part.data is not None:
            assert part.path is None
            made.append(PartInMemory(part.manifest, part.data))
        else:
            assert part.path is not None
            made.append(LocalPart(part.manifest, part.path))
    return made


def sales(rows: int, seed: int = 1) -> pa.Table:
    dice = np.random.default_rng(seed)
    days = [datetime(2026, 11, 1 + day, 7, tzinfo=UTC) for day in range(3)]
    return pa.table(
        {
            "sku": [f"sku-{n}" for n in dice.integers(0, 40, rows)],
            "at": [days[n] for n in dice.integers(0, 3, rows)],
            "qty": dice.integers(0, 2**40, rows),
            "seq": np.arange(rows),
        },
        schema=SCHEMA,
    )


def test_each_row_is_in_the_part_of_its_shard_and_partition(tmp_path: Path) -> None:
    rows = sales(5000)
    definition = define(shards=4, partition_by="day(at)")
    encoded = encode_parts(definition, rows, Ids(), tmp_path)
    assert encoded.rows == 5000
    assert len(encoded.parts) == 12
    assert len({part.header.id for part in encoded.parts}) == 12
    for source, part in zip(sources(encoded), encoded.parts, strict=True):
        found = read_table(definition, [source])
        assert {*shards_of(definition, found).tolist()} == {part.manifest.shard}
        assert partitions_of("day(at)", found).names == (part.manifest.partition,)
        assert part.place == (part.manifest.shard, part.manifest.partition)
        keys = [(row["sku"], row["seq"]) for row in found.to_pylist()]
        assert keys == sorted(keys), "sorted by key, rows of one key in their order"
    together = read_table(definition, sources(encoded))
    assert together.sort_by("seq").equals(rows)
    assert list(tmp_path.iterdir()) == [], "they are small"


def test_a_large_part_is_a_file_that_its_owner_removes(tmp_path: Path) -> None:
    rows = 800_000
    noise = np.random.default_rng(2).integers(0, 2**62, rows)
    definition = define()
    for count in (
        rows,
        rows // 4,
    ):  # one that is written to disk at once, and one that grows too large
        columns = {"sku": ["a"] * count, "qty": noise[:count], "seq": noise[:count]}
        encoded = encode_parts(definition, columns, Ids(), tmp_path)
        (part,) = encoded.parts
        assert part.manifest.size_bytes > insert_inline_bytes_max
        assert part.path is not None
        assert part.path.stat().st_size == part.manifest.size_bytes
        assert read_table(definition, sources(encoded), ["qty"]).num_rows == count
        encoded.remove()
        assert list(tmp_path.iterdir()) == []


def batches_of(table: pa.Table, cuts: list[int]) -> pa.Table:
    places = [0, *sorted(min(cut, table.num_rows) for cut in cuts), table.num_rows]
    pieces = [table.slice(start, end - start) for start, end in pairwise(places)]
    return pa.concat_tables([pa.Table.from_batches(p.to_batches(), p.schema) for p in pieces])


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    schema = draw(schemas)
    return pa.Table.from_pylist(draw(st.lists(rows_of(schema), max_size=6)), schema)


def content(table: pa.Table) -> str:
    hash_ = ContentHash(tuple(range(1, table.num_columns + 1)), table.schema)
    hash_.add(table)
    return hash_.digest()


@settings(deadline=None)
@given(tables(), st.lists(st.integers(0, 6), max_size=3))
def test_the_content_is_that_of_the_rows_in_whatever_pieces(
    table: pa.Table, cuts: list[int]
) -> None:
    expected = content(table)
    assert content(batches_of(table, cuts)) == expected
    again = pa.Table.from_pylist(table.to_pylist(), table.schema)
    assert content(again) == expected
    longer = pa.concat_tables([table, table]).combine_chunks().slice(table.num_rows)
    assert content(longer) == expected
    if table.num_rows > 1 and table.slice(0, 1).to_pylist() != table.slice(1, 1).to_pylist():
        swapped = table.take([1, 0, *range(2, table.num_rows)])
        assert content(swapped) != expected, "the order counts"
    assert content(table.slice(1)) != expected or not table.num_rows


def test_values_do_not_run_into_each_other() -> None:
    same = [
        {"a": ["ab", "c"]},
        {"a": ["a", "bc"]},
        {"a": ["abc", None]},
        {"a": [None, "abc"]},
        {"a": ["abc", ""]},
        {"a": [["a"], ["b", "c"]]},
        {"a": [["a", "b"], ["c"]]},
        {"a": [1, 2]},
        {"a": [1.0, 2.0]},
        {"a": [{"x": 1, "y": None}, {"x": None, "y": 1}]},
        {"a": [{"x": None, "y": 1}, {"x": 1, "y": None}]},
    ]
    assert len({content(pa.table(columns)) for columns in same}) == len(same)


def test_a_column_of_nulls_changes_no_content() -> None:
    rows = pa.table({"a": [1, 2]})
    assert content(rows.append_column("b", pa.nulls(2, pa.string()))) == content(rows)
    some = rows.append_column("b", pa.array([None, ""]))
    assert content(some) != content(rows)


def test_the_content_does_not_depend_on_how_the_table_divides_rows(tmp_path: Path) -> None:
    rows = sales(1000)
    ways = [define(), define(shards=4), define(shards=3, partition_by="day(at)", dedup="content")]
    found = [encode_parts(way, rows, Ids(), tmp_path) for way in ways]
    assert len({each.content for each in found}) == 1
    assert found[0].contents == {}
    assert {*found[2].contents} == {part.place for part in found[2].parts}
    shuffled = rows.take(np.random.default_rng(1).permutation(1000))
    assert encode_parts(ways[0], shuffled, Ids(), tmp_path).content != found[0].content


def test_equal_rows_of_a_place_have_equal_content_there(tmp_path: Path) -> None:
    definition = define(partition_by="day(at)", dedup="content")
    rows = sales(1000)
    whole = encode_parts(definition, rows, Ids(), tmp_path)
    for day in range(3):
        own = rows.filter(pa.compute.equal(pa.compute.day(rows.column("at")), 1 + day))
        one = encode_parts(definition, own, Ids(), tmp_path)
        (place,) = one.contents
        assert whole.contents[place] == one.contents[place]


def test_many_rows_come_in_several_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sales(1000)
    definition = define(shards=2)
    expected = encode_parts(definition, rows, Ids(), tmp_path)
    monkeypatch.setattr(block_module, "block_rows_max", 300)
    for data in (rows, rows.to_reader(max_chunksize=70), rows.to_pylist()):
        encoded = encode_parts(definition, data, Ids(), tmp_path)
        assert len(encoded.parts) >= 8
        assert encoded.content == expected.content
        assert read_table(definition, sources(encoded)).sort_by("seq").equals(rows)
    monkeypatch.setattr(block_module, "block_bytes_max", 500)
    encoded = encode_parts(definition, rows, Ids(), tmp_path)
    assert len(encoded.parts) > 50
    assert read_table(definition, sources(encoded)).sort_by("seq").equals(rows)


def test_a_stream_is_read_as_it_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_module, "block_rows_max", 100)
    made: list[int] = []
    ids = Ids()

    def batches() -> Iterator[pa.RecordBatch]:
        for n in range(10):
            made.append(ids._last)
            yield sales(100, n).to_batches()[0]

    reader = pa.RecordBatchReader.from_batches(SCHEMA, batches())
    encoded = encode_parts(define(), reader, ids, tmp_path)
    assert encoded.rows == 1000
    assert made[-1] >= 7, "the first parts are written before the last rows are asked for"


def test_no_rows_make_no_parts(tmp_path: Path) -> None:
    none: list[Any] = [SCHEMA.empty_table(), [], SCHEMA.empty_table().to_reader()]
    found = [encode_parts(define(partition_by="day(at)"), data, Ids(), tmp_path) for data in none]
    assert {(each.parts, each.rows) for each in found} == {((), 0)}
    assert len({each.content for each in found}) == 1


def test_rows_are_conformed_or_refused(tmp_path: Path) -> None:
    narrow = pa.table({"sku": ["a"], "qty": pa.array([1], pa.int8())})
    wide = pa.table({"sku": ["a"], "qty": [1], "at": pa.nulls(1), "seq": pa.nulls(1)})
    found = [encode_parts(define(), data, Ids(), tmp_path).content for data in (narrow, wide)]
    assert found[0] == found[1]
    with pytest.raises(BadSchema, match="'sku' has a null, and it is in order_by"):
        encode_parts(define(), {"sku": ["a", None]}, Ids(), tmp_path)
    with pytest.raises(BadSchema, match="'sku' has a null"):
        encode_parts(define(), {"qty": [1]}, Ids(), tmp_path)
    with pytest.raises(BadSchema, match="no column 'colour'"):
        encode_parts(define(), {"sku": ["a"], "colour": ["red"]}, Ids(), tmp_path)
    with pytest.raises(BadSchema, match="'qty' is int64, not string"):
        encode_parts(define(), {"sku": ["a"], "qty": ["1"]}, Ids(), tmp_path)


def test_after_an_error_no_file_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_module, "block_rows_max", 100)
    monkeypatch.setattr(encode_module, "insert_inline_bytes_max", 0)
    good = sales(100).to_batches()[0]
    bad = pa.record_batch({"sku": [None], "at": [None], "qty": [1], "seq": [1]}, schema=SCHEMA)
    reader = pa.RecordBatchReader.from_batches(SCHEMA, [good, good, bad])
    with pytest.raises(BadSchema, match="null"):
        encode_parts(define(), reader, Ids(), tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ObjectError, match="No such file"):
        encode_parts(define(), sales(10), Ids(), tmp_path / "nowhere")


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class FullFile(io.BytesIO):
        def write(self, data: object) -> int:
            raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(encode_module, "_in_memory_bytes_max", 0)
    monkeypatch.setattr(Path, "open", lambda self, mode: FullFile())
    with pytest.raises(DiskFull, match="no space left"):
        encode_parts(define(), sales(10), Ids(), tmp_path)


def test_too_many_partitions_over_all_blocks_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_module, "block_rows_max", 2)
    monkeypatch.setattr(encode_module, "insert_partitions_max", 3)
    definition = msgspec.structs.replace(define(), partition_by="seq")
    rows = {"sku": ["a"] * 4, "seq": [1, 2, 3, 4]}
    with pytest.raises(TooLarge, match="4 partitions"):
        encode_parts(definition, rows, Ids(), tmp_path)
