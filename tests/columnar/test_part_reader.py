"""Reading parts: by ids of columns, no more than is needed, and of each key the latest row."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from motet.columnar.definitions import make_definition
from motet.columnar.filters import (
    Equal,
    Filter,
    Greater,
    GreaterOrEqual,
    In,
    IsNotNull,
    IsNull,
    Less,
    Not,
    StartsWith,
    rows_kept,
)
from motet.columnar.latest import latest_rows
from motet.columnar.part_facts import may_match
from motet.columnar.part_reader import overlapping, read_part, read_table
from motet.columnar.part_sources import PartInMemory, PartSource
from motet.columnar.part_writer import write_part
from motet.columnar.schema import encode_schema
from motet.core.metadata.definitions import Column, TableDefinition
from motet.errors import BadInput, BadSchema
from motet.format.part_manifest import ColumnFacts
from motet.ids import PartId, TableId

SCHEMA = pa.schema(
    [
        ("key", pa.int64()),
        ("name", pa.string()),
        ("version", pa.int64()),
        ("gone", pa.bool_()),
        ("value", pa.int32()),
    ]
)


def define(schema: pa.Schema = SCHEMA, order_by: Any = "key", **more: Any) -> TableDefinition:
    return make_definition("t", TableId("0" * 16), schema, order_by, **more)


REPLACING = {"engine": "replacing", "version": "version", "tombstone": "gone"}


def part_of(
    definition: TableDefinition, block: pa.Table, shard: int = 0, partition: str = "p"
) -> PartInMemory:
    file = io.BytesIO()
    manifest = write_part(definition, shard, partition, block, file, PartId("a" * 16))
    return PartInMemory(manifest, file.getvalue())


rows = st.fixed_dictionaries(
    {
        "key": st.integers(0, 9),
        "name": st.none() | st.sampled_from(["a", "ab", "b", ""]),
        "version": st.none() | st.integers(0, 3),
        "gone": st.none() | st.booleans(),
        "value": st.none() | st.integers(0, 3),
    }
)
blocks = st.lists(rows, min_size=1, max_size=6).map(lambda r: pa.Table.from_pylist(r, SCHEMA))
filters: st.SearchStrategy[Filter] = st.one_of(
    st.builds(Equal, st.sampled_from(["key", "value", "version"]), st.integers(0, 9)),
    st.builds(Less, st.sampled_from(["key", "value"]), st.integers(0, 9)),
    st.builds(GreaterOrEqual, st.sampled_from(["key", "version"]), st.integers(0, 9)),
    st.builds(In, st.just("key"), st.lists(st.integers(0, 9), max_size=3).map(tuple)),
    st.builds(StartsWith, st.just("name"), st.sampled_from(["a", "b"])),
    st.sampled_from([IsNull("name"), IsNotNull("value"), Equal("gone", True)]),
    st.builds(Not, st.builds(Greater, st.just("key"), st.integers(0, 9))),
)
columns = st.none() | st.lists(st.sampled_from(SCHEMA.names), max_size=3, unique=True)


def plainly(block: pa.Table, wanted: list[str] | None, kept: list[Filter]) -> list[Any]:
    found = [rows_kept(batch, kept) for batch in block.to_batches()]
    table = pa.Table.from_batches(found, block.schema)
    return shown(table if wanted is None else table.select(wanted))


def shown(table: pa.Table) -> list[Any]:
    if not table.num_columns:
        return [None] * table.num_rows
    return sorted(map(repr, table.to_pylist()))


@settings(deadline=None)
@given(st.lists(blocks, max_size=3), columns, st.lists(filters, max_size=2))
def test_rows_that_pass_are_read(
    pieces: list[pa.Table], wanted: list[str] | None, kept: list[Filter]
) -> None:
    definition = define()
    found = read_table(definition, [part_of(definition, each) for each in pieces], wanted, kept)
    whole = pa.concat_tables([SCHEMA.empty_table(), *pieces])
    assert shown(found) == plainly(whole, wanted, kept)
    assert found.column_names == (SCHEMA.names if wanted is None else wanted)


@settings(deadline=None)
@given(st.lists(blocks, max_size=4), columns, st.lists(filters, max_size=2), st.booleans())
def test_of_each_key_the_latest_row_is_read(
    pieces: list[pa.Table], wanted: list[str] | None, kept: list[Filter], has_version: bool
) -> None:
    how = REPLACING if has_version else {"engine": "replacing"}
    definition = define(**how)
    parts = [part_of(definition, each) for each in pieces]
    found = read_table(definition, parts, wanted, kept)
    whole = pa.concat_tables([SCHEMA.empty_table(), *pieces])
    latest = latest_rows(whole, ["key"], definition.version, definition.tombstone)
    assert shown(found) == plainly(latest, wanted, kept)
    every = read_table(definition, parts, wanted, kept, final=False)
    assert shown(every) == plainly(whole, wanted, kept)


def test_parts_that_share_no_key_are_read_apart() -> None:
    definition = define(**REPLACING)

    def part(low: int, high: int, shard: int = 0, partition: str = "p") -> PartInMemory:
        return part_of(definition, pa.table({"key": [low, high]} | rest), shard, partition)

    rest: dict[str, Any] = {
        "name": ["a", "a"],
        "version": [1, 1],
        "gone": [False, False],
        "value": pa.array([1, 1], pa.int32()),
    }
    parts = [part(0, 3), part(8, 9), part(3, 5), part(6, 7), part(0, 9, 1), part(0, 9, 0, "q")]
    groups = [[parts.index(s) for s in group] for group in overlapping(definition, parts)]  # type: ignore[arg-type]
    assert groups == [[0, 2], [3], [1], [4], [5]]


def test_keys_of_every_type_tell_ranges_apart() -> None:
    schema = pa.schema(
        [("s", pa.struct([("a", pa.int64()), ("b", pa.string())])), ("f", pa.float64())]
    )
    definition = define(schema, ["s", "f"], engine="replacing")

    def part(a: int | None, f: float) -> PartInMemory:
        return part_of(
            definition, pa.Table.from_pylist([{"s": {"a": a, "b": "x"}, "f": f}], schema)
        )

    parts: list[PartSource] = [part(None, 0.0), part(10, 1.0), part(9, 1.0), part(9, float("nan"))]
    assert [[parts.index(s) for s in g] for g in overlapping(definition, parts)] == [
        *([0], [2], [3], [1])
    ]
    assert len(list(overlapping(definition, [part(1, 0.0), part(1, -0.0)]))) == 1


def test_long_keys_are_read_together() -> None:
    schema = pa.schema([("key", pa.string())])
    definition = define(schema, engine="replacing")
    keys = ["x" * 2000, "y" * 2000, "a"]
    parts: list[PartSource] = [part_of(definition, pa.table({"key": [key]})) for key in keys]
    assert len(list(overlapping(definition, parts))) == 1
    assert read_table(definition, [*parts, *parts]).column("key").to_pylist() == sorted(keys)


def evolved(definition: TableDefinition, *named: tuple[int, str, pa.DataType]) -> TableDefinition:
    """The table with these columns instead."""
    schema = pa.schema([(name, kind) for _, name, kind in named])
    return msgspec.structs.replace(
        definition,
        schema=encode_schema(schema, what="t"),
        columns=tuple(Column(number, name) for number, name, _ in named),
        schema_version=definition.schema_version + 1,
    )


def test_a_column_is_known_by_its_id() -> None:
    schema = pa.schema([("key", pa.int64()), ("old", pa.string()), ("gone", pa.int64())])
    before = define(schema)
    part = part_of(before, pa.table({"key": [1, 2], "old": ["a", "b"], "gone": [7, 8]}))
    after = evolved(
        before,
        *((4, "new", pa.int64()), (2, "name", pa.string()), (1, "key", pa.int64())),
        (5, "old", pa.float64()),
    )
    assert read_table(after, [part]).to_pylist() == [
        {"new": None, "name": "a", "key": 1, "old": None},
        {"new": None, "name": "b", "key": 2, "old": None},
    ]
    assert read_table(after, [part], ["new"]).to_pydict() == {"new": [None, None]}
    assert read_table(after, [part], ["key"], [Equal("name", "b")]).to_pydict() == {"key": [2]}
    assert read_table(after, [part], ["key"], [IsNull("new")]).num_rows == 2
    assert read_table(after, [part], ["key"], [Equal("new", 7)]).num_rows == 0
    assert not may_match(after, part.manifest, [Equal("new", 7)])
    assert may_match(after, part.manifest, [IsNull("new")])
    wider = evolved(before, (1, "key", pa.int64()), (3, "gone", pa.float64()))
    assert read_table(wider, [part]).to_pydict() == {"key": [1, 2], "gone": [7.0, 8.0]}


class Unopened(PartInMemory):
    """A part that must not be opened."""

    def open(self) -> Any:
        raise AssertionError("the manifest says that nothing in it passes")


@pytest.mark.parametrize(
    "wanted",
    [Equal("key", 6), Less("key", 1), Greater("key", 5), StartsWith("name", "z"), IsNull("name")],
    ids=str,
)
def test_a_part_without_such_rows_is_not_opened(wanted: Filter) -> None:
    definition = define()
    block = pa.table(
        {
            "key": [1, 5],
            "name": ["a", "b"],
            "version": [1, 1],
            "gone": [True, True],
            "value": pa.array([1, 1], pa.int32()),
        }
    )
    part = part_of(definition, block)
    assert list(read_part(definition, Unopened(part.manifest, b""), None, [wanted])) == []
    with pytest.raises(AssertionError):
        list(read_part(definition, Unopened(part.manifest, b""), None, [Equal("key", 3)]))


def test_bounds_of_another_type_rule_nothing_out() -> None:
    definition = define(pa.schema([("key", pa.int64())]))
    part = part_of(definition, pa.table({"key": [1]}))
    for low, high in (("a", "b"), ("1", None), (1.5, "x")):
        facts = (ColumnFacts(1, "key", 0, low, high),)
        manifest = msgspec.structs.replace(part.manifest, columns=facts)
        assert may_match(definition, manifest, [Equal("key", 7)])


def test_what_is_not_there_is_refused() -> None:
    definition = define()
    with pytest.raises(BadSchema, match="no column 'colour'"):
        read_table(definition, [], ["colour"])
    with pytest.raises(BadSchema, match="'colour'"):
        read_table(definition, [], None, [Equal("colour", 1)])
    with pytest.raises(BadInput, match="compares the column 'key'"):
        read_table(definition, [], None, [Equal("key", "text")])
