"""Tables that tell rows apart by their content: the same block twice is there once (R02 to R04)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.behaviour.face import covers
from tests.behaviour.places import fresh

from motet.aio import Database
from motet.errors import BadInput, NoSuchTable

SALES = pa.schema([("sku", pa.string()), ("month", pa.string()), ("qty", pa.int64())])


def block(number: int, month: str = "may") -> list[dict[str, Any]]:
    return [{"sku": f"s-{number}", "month": month, "qty": number}]


async def quantities(db: Database, name: str) -> list[int]:
    found = await db.table(name).select(["qty"])
    return sorted(found.column("qty").to_pylist())


@covers("Database.create_table", "Table.insert")
async def test_the_same_block_is_inserted_once_whoever_sends_it(db: Database) -> None:
    """R02."""
    name = fresh("same")
    table = await db.create_table(name, SALES, order_by=["sku"], dedup="content")
    first = await table.insert(block(1))
    again = await table.insert(block(1))
    named = await table.insert(pa.Table.from_pylist(block(1), SALES), token="another")
    assert (first.duplicate, first.rows) == (False, 1)
    assert (again.duplicate, again.rows, again.parts) == (True, 0, first.parts)
    assert named.duplicate
    assert not (await table.insert(block(2))).duplicate
    assert not (await table.insert([*block(2), *block(1)])).duplicate, "these are other rows"
    assert await quantities(db, name) == [1, 1, 2, 2]


@covers("Table.insert")
async def test_an_insert_into_several_shards_leaves_out_those_that_have_their_rows(
    db: Database,
) -> None:
    name = fresh("divided")
    table = await db.create_table(
        name, SALES, order_by=["sku"], shards=2, partition_by="month", dedup="content"
    )
    rows = [row for n in range(12) for row in block(n)]
    first = await table.insert(rows)
    again = await table.insert(rows)
    assert (first.rows, first.duplicate) == (12, False)
    assert (again.rows, again.duplicate, again.parts) == (0, True, ())
    assert again.version >= first.version
    some = await table.insert([*rows, *block(12, "june")])
    assert (some.rows, some.duplicate, len(some.parts)) == (1, False, 1)
    assert await quantities(db, name) == list(range(13))
    kept = await db.publish([await db.stage(name, [*block(50, "june")])], replace={name: ["june"]})
    assert kept.rows == 1
    back = await table.insert([*rows, *block(12, "june")])
    assert (back.rows, len(back.parts)) == (1, 1), "an overwrite has dropped what it was"
    assert await quantities(db, name) == [*range(13), 50]


@covers("Database.stage", "Database.publish")
async def test_what_is_staged_twice_is_published_once(db: Database) -> None:
    name = fresh("staged")
    await db.create_table(name, SALES, order_by=["sku"], shards=2, dedup="content")
    rows = [row for n in range(8) for row in block(n)]
    one, two, more = (
        await db.stage(name, rows),
        await db.stage(name, rows),
        await db.stage(name, block(9)),
    )
    done = await db.publish([one, two, more])
    assert (done.rows, done.duplicate, len(done.parts)) == (9, False, len(one) + 1)
    late = await db.publish([two])
    assert (late.rows, late.duplicate) == (0, True)
    assert await quantities(db, name) == [*range(8), 9]


@covers("Database.publish")
async def test_an_overwrite_with_the_rows_that_are_there_keeps_them(db: Database) -> None:
    name = fresh("overwritten")
    table = await db.create_table(name, SALES, order_by=["sku"], dedup="content")
    await table.insert(block(1))
    done = await db.publish([await db.stage(name, block(1))], replace=["p"])
    assert (done.rows, done.duplicate) == (1, False)
    assert (await table.insert(block(1))).duplicate
    assert await quantities(db, name) == [1]


@pytest.mark.parametrize("window", [2, 3])
@covers("Database.set_table")
async def test_a_window_remembers_so_many_blocks(db: Database, window: int) -> None:
    """R03: blocks A, B, C, then A again."""
    name = fresh("window")
    table = await db.create_table(name, SALES, order_by=["sku"], dedup="content")
    await db.set_table(name, dedup_window=window)
    (info,) = [each for each in await db.tables() if each.name == name]
    assert info.settings.dedup_window == window
    for number in (1, 2, 3):
        assert not (await table.insert(block(number))).duplicate
    assert (await table.insert(block(1))).duplicate == (window == 3)
    assert await quantities(db, name) == ([1, 2, 3] if window == 3 else [1, 1, 2, 3])


@covers("Database.set_table")
async def test_what_cannot_be_set_is_refused(db: Database) -> None:
    name, plain = fresh("settings"), fresh("settings")
    await db.create_table(name, SALES, order_by=["sku"], dedup="content")
    await db.create_table(plain, SALES, order_by=["sku"])
    with pytest.raises(BadInput, match="there are dedup_window"):
        await db.set_table(name, dedup_windows=3)
    for wrong in (0, -1, 1 << 40, True, "3"):
        with pytest.raises(BadInput, match="is not between 1 and"):
            await db.set_table(name, dedup_window=wrong)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="no setting is named"):
        await db.set_table(name)
    with pytest.raises(BadInput, match="does not tell rows apart"):
        await db.set_table(plain, dedup_window=3)
    with pytest.raises(NoSuchTable):
        await db.set_table(fresh("nowhere"), dedup_window=3)
    await db.set_table(name, dedup_window=5)
    await db.set_table(name, dedup_window=None)
    found = await db.sql(f"select dedup_window from system.tables where name = '{name}'")
    assert found.to_pylist() == [{"dedup_window": None}]
