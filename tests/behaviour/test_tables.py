"""Tables: rows in, the same rows back; tokens, ordered writers, and publishing together.

What is at a version is in ``test_tables_at_version.py``, what is in shards and partitions in
``test_tables_divided.py``.
"""

from __future__ import annotations

import pickle
from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa
import pytest
from tests.behaviour.face import covers
from tests.behaviour.places import Place, fresh

import motet
import motet.aio
from motet.aio import Database
from motet.client.publication import TableInfo
from motet.client.table_files import open_parts
from motet.columnar.part_reader import read_table
from motet.core.clock.hlc import Clock
from motet.errors import (
    BadInput,
    BadSchema,
    MotetError,
    NoSuchTable,
    TableExists,
    WriterFenced,
)
from motet.errors.queries import QueryStopped

SALES = pa.schema([("sku", pa.string()), ("qty", pa.int64()), ("tags", pa.list_(pa.string()))])
ONE, TWO, THREE = Clock(1, 0), Clock(2, 0), Clock(3, 0)


def sale(sku: str, qty: int) -> dict[str, Any]:
    return {"sku": sku, "qty": qty, "tags": ["new"]}


async def rows_of(db: Database, name: str) -> list[tuple[str, int]]:
    """All rows of a table."""
    found = (await db.table(name).select(["sku", "qty"])).to_pylist()
    return sorted((row["sku"], row["qty"]) for row in found)


async def info_of(db: Database, name: str) -> TableInfo | None:
    return next((info for info in await db.tables() if info.name == name), None)


# Rows


@covers("Database.create_table", "Database.table", "Table.insert", "Table.select")
async def test_rows_come_back_and_are_there_when_it_is_opened_again(place: Place) -> None:
    name = fresh("sales")
    async with place.open() as db:
        table = await db.create_table(name, SALES, order_by=["sku"])
        assert repr(table).startswith(f"<Table {name} of ")
        done = await table.insert([sale("b", 1), sale("a", 2)])
        assert (done.rows, done.duplicate, len(done.parts)) == (2, False, 1)
        await table.insert(pa.table({"qty": [3], "sku": ["c"]}))
        assert (await table.select()).schema.names == ["sku", "qty", "tags"]
    async with place.open() as db:
        table = db.table(name)
        found = (await table.select()).sort_by("sku")
        assert found.to_pylist() == [sale("a", 2), sale("b", 1), {**sale("c", 3), "tags": None}]
        assert (await table.select(["qty"])).column_names == ["qty"]
        assert await rows_of(db, name) == [("a", 2), ("b", 1), ("c", 3)]
        assert (await table.select(consistency="eventual")).num_rows == 3


@covers("Table.insert")
async def test_whatever_speaks_arrow_can_be_inserted(db: Database) -> None:
    name = fresh("arrow")
    table = await db.create_table(name, SALES, order_by=["sku"])
    data = pa.table({"sku": ["a", "b"], "qty": [1, 2]})
    await table.insert(data)
    await table.insert(data.to_batches()[0])
    await table.insert(pa.RecordBatchReader.from_batches(data.schema, data.to_batches()))
    await table.insert((await table.select(["sku", "qty"])).slice(0, 1))
    assert await rows_of(db, name) == [("a", 1)] * 4 + [("b", 2)] * 3


@covers("Database.create_table", "Table.select", "Database.sql")
async def test_the_latest_row_of_a_key_stays_and_a_tombstone_removes_it(db: Database) -> None:
    name = fresh("stock")
    schema = pa.schema(
        [("sku", pa.string()), ("qty", pa.int64()), ("v", pa.int64()), ("gone", pa.bool_())]
    )
    table = await db.create_table(
        name, schema, order_by=["sku"], engine="replacing", version="v", tombstone="gone"
    )
    await table.insert([{"sku": "a", "qty": 5, "v": 2}, {"sku": "b", "qty": 1, "v": 1}])
    await table.insert(
        [{"sku": "a", "qty": 9, "v": 1}, {"sku": "b", "qty": 0, "v": 2, "gone": True}]
    )
    assert await rows_of(db, name) == [("a", 5)]
    assert (await db.sql(f"select sku, qty from {name}")).to_pylist() == [{"sku": "a", "qty": 5}]
    assert (await table.select(final=False)).num_rows == 4, "all that its parts have"


# Tokens


@covers("Table.insert")
async def test_a_token_is_inserted_once(db: Database) -> None:
    name, other = fresh("tokens"), fresh("tokens")
    table = await db.create_table(name, SALES, order_by=["sku"])
    first = await table.insert([sale("a", 1)], token="batch-17")
    again = await table.insert([sale("a", 1)], token="batch-17")
    assert (first.duplicate, again.duplicate, again.rows) == (False, True, 0)
    assert (again.parts, first.version <= again.version) == (first.parts, True)
    await table.insert([sale("b", 2)], token=("loader", 1))
    async with motet.aio.connect(await db.endpoint()) as elsewhere:
        assert (await elsewhere.table(name).insert([sale("b", 2)], token=("loader", 1))).duplicate
    await db.create_table(other, SALES, order_by=["sku"])
    theirs = await db.table(other).insert([sale("c", 3)], token="batch-17")
    assert not theirs.duplicate, "a token is of one table"
    assert await rows_of(db, name) == [("a", 1), ("b", 2)]
    for bad in ("", "x" * 200, 7, ("a", "b", "c"), ("~1", 0)):
        with pytest.raises(BadInput, match="token"):
            await table.insert([sale("a", 1)], token=bad)  # type: ignore[arg-type]


# Publishing


@covers("Database.stage", "Database.publish", "Database.snapshot", "TableSnapshot.rows")
async def test_parts_of_several_tables_become_visible_together(db: Database) -> None:
    names = [fresh("sales"), fresh("returns")]
    for name in names:
        await db.create_table(name, SALES, order_by=["sku"])
    staged = [await db.stage(name, [sale("a", 1)]) for name in names]
    hidden = await db.snapshot(*names)
    assert [hidden[name].rows for name in names] == [0, 0]
    tables = {str(info.name): info.definition.id for info in await db.tables()}
    for name, (part,) in zip(names, staged, strict=True):
        assert (part.table, part.table_id) == (name, tables[name])
        assert (part.rows, part.shard, part.size_bytes > 0, len(part.id)) == (1, 0, True, 16)
        assert pickle.loads(pickle.dumps(part)) == part
    done = await db.publish(staged)
    assert (done.rows, done.duplicate, len(done.parts)) == (2, False, 2)
    shown = await db.snapshot(*names)
    assert [shown[name].rows for name in names] == [1, 1]
    assert [hidden[name].rows for name in names] == [0, 0], "a snapshot stays as it is"
    for name in names:
        assert await rows_of(db, name) == [("a", 1)]


@covers("Database.publish", "Database.stage")
async def test_parts_are_published_all_or_none(db: Database) -> None:
    good, writer = fresh("good"), fresh("writer")
    await db.create_table(good, SALES, order_by=["sku"])
    part = await db.stage(good, [sale("a", 1)])
    step = motet.WriterStep(writer, 0, None, ONE)
    await db.publish(part, step=step)
    more = await db.stage(good, [sale("b", 2)])
    with pytest.raises(BadInput):
        await db.publish([more, "no part"])  # type: ignore[list-item]
    with pytest.raises(WriterFenced):
        await db.publish(more, step=motet.WriterStep(writer, 7, ONE, TWO))
    assert await rows_of(db, good) == [("a", 1)]
    await db.publish(more, token="t-1")
    assert (await db.publish(more, token="t-1")).duplicate
    with pytest.raises(BadInput, match="not both"):
        await db.publish(more, token="t-2", step=step)
    with pytest.raises(BadInput, match="no parts"):
        await db.publish([])
    assert await rows_of(db, good) == [("a", 1), ("b", 2)]


@covers("Database.publish", "Database.writer", "Database.writers", "Database.writer_steps")
async def test_a_step_of_a_writer_is_done_once_and_in_order(db: Database) -> None:
    name, writer = fresh("ordered"), fresh("writer")
    await db.create_table(name, SALES, order_by=["sku"])
    assert await db.writer(writer) is None

    async def publish(epoch: int, after: Clock | None, through: Clock) -> bool:
        part = await db.stage(name, [sale(f"e-{epoch}", epoch)])
        step = motet.WriterStep(writer, epoch, after, through)
        return (await db.publish(part, step=step)).duplicate

    assert not await publish(0, None, ONE)
    assert await publish(0, None, ONE), "it was done already"
    for epoch, after in ((2, ONE), (1, None), (1, TWO)):
        with pytest.raises(WriterFenced):
            await publish(epoch, after, THREE)
    assert not await publish(1, ONE, TWO)
    with pytest.raises(WriterFenced):
        await publish(0, None, THREE)
    assert await rows_of(db, name) == [("e-0", 0), ("e-1", 1)]
    found = await db.writer(writer)
    assert found is not None
    assert found.step == motet.WriterStep(writer, 1, ONE, TWO)
    assert (found.writer, found.rows, found.steps, found.tables) == (writer, 2, 2, (name,))
    steps = await db.writer_steps(writer)
    assert [(each.epoch, each.after, each.through) for each in steps] == [
        (0, None, ONE),
        (1, ONE, TWO),
    ]
    assert steps[1].version == found.version
    assert (found.error, found.published_ms > 0) == ("", True)
    assert found in await db.writers()


@covers("Database.note_writer", "Database.writer")
async def test_the_last_error_of_a_writer_is_remembered(db: Database) -> None:
    writer = fresh("writer")
    await db.note_writer(writer, "it broke")
    found = await db.writer(writer)
    assert found is not None
    assert (found.error, found.step, found.noted_ms > 0) == ("it broke", None, True)
    shown = await db.sql("select error from system.writers where name = ?", [writer])
    assert shown.to_pylist() == [{"error": "it broke"}]
    await db.note_writer(writer, "")
    found = await db.writer(writer)
    assert found is not None
    assert found.error == ""
    with pytest.raises(BadInput, match="ordered writer"):
        await db.writer("no name")


# What there is


@covers("Database.tables", "Database.create_table")
async def test_the_same_table_again_is_fine_and_another_of_that_name_is_not(
    place: Place, db: Database
) -> None:
    name = fresh("same")
    await db.create_table(name, SALES, order_by=["sku"])
    await db.create_table(name, SALES, order_by="sku")
    others: list[dict[str, Any]] = [
        {"order_by": ["qty"]},
        {"order_by": ["sku"], "shards": 2},
        {"order_by": ["sku"], "engine": "replacing"},
    ]
    for other in others:
        with pytest.raises(TableExists, match=name):
            await db.create_table(name, SALES, **other)
    with pytest.raises(TableExists, match=name):
        await db.create_table(name, SALES.remove(2), order_by=["sku"])
    await db.table(name).insert([sale("a", 1), sale("b", 2)])
    info = await info_of(db, name)
    assert info is not None
    assert (info.parts, info.rows, (info.size_bytes or 0) > 0) == (1, 2, True)
    definition = info.definition
    assert (definition.order_by, definition.shards, definition.engine) == (("sku",), 1, "merge")
    assert (info.replicas, info.created_ms > 0) == (place.nodes, True)
    listed = [each.name for each in await db.tables()]
    assert listed == sorted(listed)


@covers(
    "Table.snapshot",
    "Database.snapshot",
    "TableSnapshot.files",
    "TableSnapshot.name",
    "TableSnapshot.schema",
    "TableSnapshot.definition",
    "TableSnapshot.parts",
    "Snapshot.tables",
)
async def test_a_snapshot_names_the_files_of_its_parts(db: Database) -> None:
    name = fresh("files")
    table = await db.create_table(name, SALES, order_by=["sku"])
    await table.insert([sale("a", 1)])
    await table.insert([sale("b", 2)])
    found = await table.snapshot()
    assert (found.name, found.schema, len(found.parts)) == (name, SALES, 2)
    assert found.definition.order_by == ("sku",)
    assert list((await db.snapshot(name)).tables) == [name]
    first, second = found.parts
    assert first.name == "p_0.0_0.0_0"
    assert second.name > first.name
    assert (first.shard, first.partition, first.rows, first.size_bytes > 0) == (0, "p", 1, True)
    assert first.id != second.id
    with open_parts(found.files()) as sources:
        assert read_table(found.definition, sources).sort_by("sku").to_pylist() == [
            sale("a", 1),
            sale("b", 2),
        ]


@covers("Database.sql")
async def test_sql_asks_all_tables_at_once(db: Database) -> None:
    left, right = fresh("left"), fresh("right")
    for name in (left, right):
        await db.create_table(name, SALES, order_by=["sku"])
        await db.table(name).insert([sale("a", 1), sale("b", 2)])
    query = f"select sum(l.qty) as n from {left} l join {right} r using (sku) where r.qty > ?"
    for consistency in ("sequential", "eventual"):
        found = await db.sql(query, [1], consistency=consistency)
        assert found.to_pylist() == [{"n": 2}]
    shown = await db.sql("select rows, parts from system.tables where name = ?", [left])
    assert shown.to_pylist() == [{"rows": 2, "parts": 1}]
    assert (await db.sql('select * from system.parts where "table" = ?', [left])).num_rows == 1
    with pytest.raises(QueryStopped):
        await db.sql(f"select count(*) from {left}, range(1000000000000)", timeout=0.2)


# What is refused

NOWHERE: dict[str, Callable[[Database, str], Awaitable[object]]] = {
    "insert": lambda db, _: db.table("nowhere").insert([sale("a", 1)]),
    "select": lambda db, _: db.table("nowhere").select(),
    "snapshot of it": lambda db, _: db.table("nowhere").snapshot(),
    "stage": lambda db, _: db.stage("nowhere", [sale("a", 1)]),
    "snapshot": lambda db, name: db.snapshot(name, "nowhere"),
    "sql": lambda db, name: db.sql(f"select * from {name} join nowhere using (sku)"),
}


async def test_a_table_that_is_not_there_is_named(db: Database) -> None:
    name = fresh("there")
    await db.create_table(name, SALES, order_by=["sku"])
    for what, use in NOWHERE.items():
        with pytest.raises(NoSuchTable, match="nowhere") as told:
            await use(db, name)
        assert told.value.advice, what


WRONG: dict[str, dict[str, Any]] = {
    "blank in its name": {"name": "no name"},
    "name of the system": {"name": "system.x"},
    "name of another type": {"name": 7},
    "no schema": {"schema": None},
    "no order": {"order_by": None},
    "order by what cannot be sorted": {"order_by": ["tags"]},
    "order by nothing that there is": {"order_by": ["price"]},
    "engine there is not": {"engine": "sorting"},
    "version that cannot be sorted": {"engine": "replacing", "version": "tags"},
    "tombstone that is no truth": {"engine": "replacing", "tombstone": "qty"},
    "no shards": {"shards": 0},
    "no replicas": {"replicas": 0},
    "partition by nothing that there is": {"partition_by": "price"},
    "disk there is not": {"disk": "s3"},
    "shards by what is no key": {"engine": "replacing", "shard_by": "qty"},
}


@covers("Database.create_table")
async def test_what_cannot_be_a_table_is_refused_and_nothing_is_created(db: Database) -> None:
    before = [info.name for info in await db.tables()]
    good: dict[str, Any] = {"name": fresh("never"), "schema": SALES, "order_by": ["sku"]}
    for wrong in WRONG.values():
        with pytest.raises(BadInput):
            await db.create_table(**(good | wrong))
    assert [info.name for info in await db.tables()] == before


@covers("Table.insert", "Database.stage", "Table.select")
async def test_rows_that_do_not_fit_are_refused_by_their_column(db: Database) -> None:
    name = fresh("fitting")
    table = await db.create_table(name, SALES, order_by=["sku"])
    bad: list[tuple[type[MotetError], str, Any]] = [
        (BadSchema, "qty", [{"sku": "a", "qty": "many"}]),
        (BadSchema, "colour", [{**sale("a", 1), "colour": "red"}]),
        (BadSchema, "sku", [{"sku": None, "qty": 1}]),
        (BadInput, "int", 7),
    ]
    for error, column, data in bad:
        for write in (table.insert, lambda rows: db.stage(name, rows)):
            with pytest.raises(error, match=column):
                await write(data)
    with pytest.raises(BadSchema, match="nothing"):
        await table.select(["nothing"])
    for wrong in ({"quorum": 0}, {"quorum": "all"}):
        with pytest.raises(BadInput, match="quorum"):
            await table.insert([sale("a", 1)], **wrong)
    with pytest.raises(BadInput, match="consistency"):
        await table.select(consistency="strong")  # type: ignore[arg-type]
    assert await rows_of(db, name) == []
