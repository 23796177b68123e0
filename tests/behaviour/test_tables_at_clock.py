"""Tables at a clock: since when a publication is visible, and what was there then.

Versions will stand where clocks stand here; this file goes then.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.behaviour.face import covers
from tests.behaviour.places import fresh

from motet.aio import Database
from motet.core.clock.hlc import Clock
from motet.errors import BadInput

SALES = pa.schema([("sku", pa.string())])


@covers("Table.insert", "Table.select", "Table.snapshot", "TableSnapshot.clock", "Snapshot.clock")
async def test_a_clock_of_the_past_shows_what_was_there_then(db: Database) -> None:
    name, other = fresh("past"), fresh("past")
    table = await db.create_table(name, SALES, order_by=["sku"])
    await db.create_table(other, SALES, order_by=["sku"])
    then = (await table.insert([{"sku": "a"}], token="t")).clock
    assert (await table.insert([{"sku": "a"}], token="t")).clock == then
    later = (await table.insert([{"sku": "b"}])).clock
    assert later > then
    assert (await table.select(at=then)).num_rows == 1
    query = f"select count(*) as n from {name}"
    assert (await db.sql(query, at=then)).to_pylist() == [{"n": 1}]
    assert (await db.sql(query, at=later)).to_pylist() == [{"n": 2}]
    found = await table.snapshot(at=then)
    assert (found.clock, found.rows) == (then, 1)
    both = await db.snapshot(other, name, at=then)
    assert (both.clock, both[name].rows, both[other].rows) == (then, 1, 0)
    assert (await db.snapshot(name)).clock >= later


@covers("Table.select")
async def test_a_clock_that_is_not_visible_yet_is_refused(db: Database) -> None:
    table = await db.create_table(fresh("future"), SALES, order_by=["sku"])
    clock = (await table.insert([{"sku": "a"}])).clock
    with pytest.raises(BadInput, match="not visible yet"):
        await table.select(at=Clock(clock.logical + 10**6, 0))


async def test_a_publication_is_in_order_with_what_is_in_the_streams(db: Database) -> None:
    stream = await db.create_stream(fresh("mixed"), shards=1)
    table = await db.create_table(fresh("mixed"), SALES, order_by=["sku"])
    before = (await stream.append("k", b"v")).clock
    published = (await table.insert([{"sku": "a"}])).clock
    after = (await stream.append("k", b"v")).clock
    assert before < published < after
