"""Tables at a version: since when a publication is visible, and what was there then."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from tests.behaviour.face import covers
from tests.behaviour.places import fresh

import motet
from motet.aio import Database
from motet.core.clock.hlc import Clock
from motet.core.mergetree.version import Version
from motet.errors import BadInput
from motet.errors.tables import SnapshotExpired
from motet.ids import Zxid

SALES = pa.schema([("sku", pa.string())])
ONE, TWO, THREE = Clock(1, 0), Clock(2, 0), Clock(3, 0)


@covers(
    "Table.insert", "Table.select", "Table.snapshot", "TableSnapshot.version", "Snapshot.version"
)
async def test_a_version_of_the_past_shows_what_was_there_then(db: Database) -> None:
    name, other = fresh("past"), fresh("past")
    table = await db.create_table(name, SALES, order_by=["sku"])
    await db.create_table(other, SALES, order_by=["sku"])
    then = (await table.insert([{"sku": "a"}], token="t")).version
    assert (await table.insert([{"sku": "a"}], token="t")).version >= then
    later = (await table.insert([{"sku": "b"}])).version
    assert later > then
    assert (later.incarnation, later.zxid > then.zxid) == (then.incarnation, True)
    assert (await table.select(at=then)).num_rows == 1
    query = f"select count(*) as n from {name}"
    assert (await db.sql(query, at=then)).to_pylist() == [{"n": 1}]
    assert (await db.sql(query, at=later)).to_pylist() == [{"n": 2}]
    found = await table.snapshot(at=then)
    assert (found.version, found.rows) == (then, 1)
    both = await db.snapshot(other, name, at=then)
    assert (both.version, both[name].rows, both[other].rows) == (then, 1, 0)
    assert (await db.snapshot(name)).version >= later


@covers("Database.snapshot", "Table.select", "Database.sql")
async def test_a_version_is_given_as_it_is_as_text_as_a_snapshot_or_as_a_moment(
    db: Database,
) -> None:
    name = fresh("moment")
    table = await db.create_table(name, SALES, order_by=["sku"], shards=2)
    before = datetime.now(UTC) - timedelta(minutes=1)
    then = (await table.insert([{"sku": "a"}])).version
    snapshot = await db.snapshot(name)
    await asyncio.sleep(0.1)
    between = datetime.now(UTC)
    await asyncio.sleep(0.1)
    await table.insert([{"sku": "b"}])
    assert str(then) == f"{then.zxid}@{then.incarnation}"
    for at in (then, str(then), snapshot, snapshot[name], between):
        assert (await table.select(at=at)).to_pylist() == [{"sku": "a"}]
        query = f"select * from {name}"
        assert (await db.sql(query, at=at)).to_pylist() == [{"sku": "a"}]
    assert (await table.select(at=before)).num_rows == 0
    for wrong in (7, "yesterday", datetime.now(), ONE):  # noqa: DTZ005 - without a time zone
        with pytest.raises(BadInput):
            await table.select(at=wrong)  # type: ignore[arg-type]


@covers("Table.select", "Database.snapshot")
async def test_a_version_that_is_not_visible_yet_or_not_any_more_is_refused(db: Database) -> None:
    table = await db.create_table(fresh("future"), SALES, order_by=["sku"])
    version = (await table.insert([{"sku": "a"}])).version
    ahead = Version(version.incarnation, Zxid(version.zxid + 10**6))
    with pytest.raises(BadInput, match="not visible yet"):
        await table.select(at=ahead)
    with pytest.raises(SnapshotExpired, match="incarnation") as told:
        await db.snapshot(table.name, at=Version("0123abcd", version.zxid))
    assert version.incarnation in told.value.advice


@covers("Database.snapshot")
async def test_tables_of_a_pipeline_are_shown_through_a_clock_of_the_feed(db: Database) -> None:
    name, plain, writer = fresh("derived"), fresh("plain"), fresh("writer")
    await db.create_table(name, SALES, order_by=["sku"])
    await db.create_table(plain, SALES, order_by=["sku"])
    for epoch, (after, through) in enumerate([(None, ONE), (ONE, THREE)]):
        parts = await db.stage(name, [{"sku": f"s-{epoch}"}])
        await db.publish(parts, step=motet.WriterStep(writer, epoch, after, through))
    for through, rows in ((ONE, 1), (TWO, 2), (THREE, 2)):
        found = await db.snapshot(name, through=through)
        assert found[name].rows == rows, through
    with pytest.raises(BadInput, match="not visible yet"):
        await db.snapshot(name, through=Clock(4, 0))
    with pytest.raises(BadInput, match="no pipeline"):
        await db.snapshot(plain, through=ONE)
    with pytest.raises(BadInput, match="not both"):
        await db.snapshot(name, through=ONE, at="1@a1b2")


async def test_one_writer_reads_its_own_publication_in_every_consistency(db: Database) -> None:
    name = fresh("own")
    table = await db.create_table(name, SALES, order_by=["sku"])
    for number in range(5):
        done = await table.insert([{"sku": f"s-{number}"}])
        found = await table.snapshot()
        assert found.version >= done.version
        assert found.rows == number + 1
