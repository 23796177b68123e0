"""Tables: what comes twice is there once, also without a token of the caller's."""

from __future__ import annotations

from tests.behaviour.face import covers
from tests.behaviour.places import fresh
from tests.behaviour.test_tables import SALES, rows_of, sale

from motet.aio import Database


@covers("Table.insert", "Database.create_table")
async def test_rows_that_a_table_has_already_are_told_by_their_content(db: Database) -> None:
    name = fresh("content")
    table = await db.create_table(name, SALES, order_by=["sku"], dedup="content")
    first = await table.insert([sale("a", 1)])
    again = await table.insert([sale("a", 1)])
    assert [(each.duplicate, each.rows) for each in (first, again)] == [(False, 1), (True, 0)]
    assert await rows_of(db, name) == [("a", 1)]


@covers("Database.publish", "Database.stage")
async def test_parts_that_are_published_twice_have_their_rows_once(db: Database) -> None:
    name = fresh("twice")
    await db.create_table(name, SALES, order_by=["sku"])
    staged = await db.stage(name, [sale("a", 1)])
    for _ in range(2):
        await db.publish(staged)
        assert await rows_of(db, name) == [("a", 1)]
    await db.publish(staged, replace=["p"])
    assert await rows_of(db, name) == [("a", 1)]
