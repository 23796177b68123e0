"""Tables in shards and partitions, on several replicas; dropped, renamed, and as the system tells of them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from tests.behaviour.face import covers
from tests.behaviour.places import THREE_NODES, Place, fresh

import motet
from motet.aio import Database
from motet.core.clock.hlc import Clock
from motet.errors import BadInput, BadSchema, NoSuchTable, TableExists
from motet.errors.operator import NoNodeToPlaceOn
from motet.errors.tables import StagingEnded, TokenReused

EVENTS = pa.schema([("key", pa.string()), ("at", pa.timestamp("us", tz="UTC")), ("n", pa.int64())])


def event(number: int, day: int = 1) -> dict[str, Any]:
    return {"key": f"k-{number}", "at": datetime(2026, 11, day, tzinfo=UTC), "n": number}


async def numbers_of(db: Database, name: str, **how: Any) -> list[int]:
    found = await db.table(name).select(["n"], **how)
    return sorted(found.column("n").to_pylist())


# Shards


@covers("Table.insert", "Database.create_table")
async def test_rows_of_many_inserts_at_once_are_all_there(db: Database) -> None:
    name = fresh("spread")
    table = await db.create_table(name, EVENTS, order_by=["key"], shards=4)
    await asyncio.gather(*(table.insert([event(n)]) for n in range(12)))
    assert await numbers_of(db, name) == list(range(12))


@covers("Database.create_table", "Table.insert", "Table.snapshot")
async def test_rows_go_to_shards_by_their_key_and_are_visible_together(db: Database) -> None:
    name = fresh("shards")
    table = await db.create_table(name, EVENTS, order_by=["key", "at"], shards=3)
    done = await table.insert([event(n) for n in range(30)])
    assert (done.rows, len(done.parts), done.duplicate) == (30, 3, False)
    snapshot = await table.snapshot()
    assert sorted(part.shard for part in snapshot.parts) == [0, 1, 2]
    assert await numbers_of(db, name) == list(range(30))
    # A key has one shard, in every insert.
    await table.insert([event(n, day=2) for n in range(30)])
    seen: dict[str, set[int]] = {}
    for part in (await table.snapshot()).parts:
        found = await db.sql(f"select n from {name}")
        assert found.num_rows == 60
        seen.setdefault(part.partition, set()).add(part.shard)
    assert seen == {"p": {0, 1, 2}}
    one = await table.insert([event(7, day=3)])
    assert len(one.parts) == 1


@covers("Table.insert")
async def test_a_token_is_of_the_whole_table_and_of_its_rows(db: Database) -> None:
    name = fresh("tokens")
    table = await db.create_table(name, EVENTS, order_by=["key"], shards=2)
    rows = [event(n) for n in range(10)]
    first = await table.insert(rows, token="t")
    again = await table.insert(pa.Table.from_pylist(rows, EVENTS), token="t")
    assert (first.duplicate, again.duplicate, again.rows) == (False, True, 0)
    for others in (rows[:5], [*rows, event(10)], rows[::-1], [event(3)]):
        with pytest.raises(TokenReused):
            await table.insert(others, token="t")
    await table.insert([event(100)], token="one")
    for shard_of_another in range(101, 108):
        with pytest.raises(TokenReused):
            await table.insert([event(shard_of_another)], token="one")
    assert not (await table.insert(rows, token=("loader", 5))).duplicate
    assert (await table.insert(rows, token=("loader", 5))).duplicate
    assert await numbers_of(db, name) == sorted([*range(10), *range(10), 100])


@covers("Table.insert")
async def test_rows_that_are_none_leave_nothing(db: Database) -> None:
    name = fresh("empty")
    table = await db.create_table(name, EVENTS, order_by=["key"], shards=2)
    done = await table.insert([], token="t")
    assert (done.rows, done.parts, done.duplicate) == (0, (), False)
    assert not (await table.insert([event(1)], token="t")).duplicate
    assert await db.stage(name, []) == []


@covers("Table.insert")
async def test_inserts_without_a_token_are_done_once_each_however_many_there_are(
    db: Database,
) -> None:
    name = fresh("many")
    table = await db.create_table(name, EVENTS, order_by=["key"], shards=2)
    await asyncio.gather(*(table.insert([event(n)]) for n in range(40)))
    assert await numbers_of(db, name) == list(range(40))


@covers("Table.insert")
async def test_a_large_insert_is_put_ahead_and_read_back(db: Database) -> None:
    name = fresh("large")
    table = await db.create_table(name, EVENTS, order_by=["key"])
    count = 400_000
    rows = pa.table(
        {
            "key": pa.array([f"key-{n * 7919 % count}-{n * 104729}" for n in range(count)]),
            "n": pa.array(range(count), pa.int64()),
        }
    )
    done = await table.insert(rows)
    assert done.rows == count
    snapshot = await table.snapshot()
    assert sum(part.size_bytes for part in snapshot.parts) > 1 << 20
    found = await db.sql(f"select count(*) as c, sum(n) as s from {name}")
    assert found.to_pylist() == [{"c": count, "s": count * (count - 1) // 2}]


# Partitions


@covers("Database.create_table")
async def test_rows_of_a_partition_are_in_parts_of_their_own(db: Database) -> None:
    by_day, by_bucket = fresh("days"), fresh("buckets")
    table = await db.create_table(by_day, EVENTS, order_by=["key"], partition_by="day(at)")
    await table.insert([event(n, day=1 + n % 3) for n in range(9)])
    parts = (await table.snapshot()).parts
    assert sorted((part.partition, part.rows) for part in parts) == [
        ("2026-11-01", 3),
        ("2026-11-02", 3),
        ("2026-11-03", 3),
    ]
    await db.create_table(
        by_bucket, EVENTS, order_by=["key"], partition_by="bucket(4, key)", shards=2
    )
    await db.table(by_bucket).insert([event(n) for n in range(100)])
    found = (await db.table(by_bucket).snapshot()).parts
    assert len({(part.shard, part.partition) for part in found}) == 8
    assert await numbers_of(db, by_bucket) == list(range(100))
    with pytest.raises(BadSchema):
        await db.create_table(fresh("never"), EVENTS, order_by=["key"], partition_by="day(n)")
    with pytest.raises(BadSchema, match="versions"):
        await db.create_table(
            fresh("never"), EVENTS, order_by=["key"], engine="replacing", partition_by="day(at)"
        )


@covers("Database.publish")
async def test_partitions_are_replaced_in_the_step_that_publishes(db: Database) -> None:
    name, other = fresh("replaced"), fresh("replaced")
    table = await db.create_table(name, EVENTS, order_by=["key"], partition_by="day(at)", shards=2)
    await db.create_table(other, EVENTS, order_by=["key"])
    await table.insert([event(n, day=1 + n % 2) for n in range(20)])
    before = await db.snapshot(name)
    staged = await db.stage(name, [event(n, day=1) for n in range(100, 110)])
    await db.publish(staged, replace=["2026-11-01"])
    assert await numbers_of(db, name) == [*range(1, 20, 2), *range(100, 110)]
    assert await numbers_of(db, name, at=before) == list(range(20)), "a version stays as it is"
    both = [*await db.stage(name, [event(1000, day=2)]), *await db.stage(other, [event(5)])]
    with pytest.raises(BadInput, match="several tables"):
        await db.publish(both, replace=["2026-11-02"])
    with pytest.raises(NoSuchTable, match="nowhere"):
        await db.publish(both, replace={"nowhere": ["p"]})
    await db.publish(both, replace={name: ["2026-11-02"]})
    assert await numbers_of(db, name) == [*range(100, 110), 1000]
    await db.publish([], replace={name: ["2026-11-01"]})
    assert await numbers_of(db, name) == [1000], "replaced by nothing"


@covers("Database.open_job", "Database.renew_job", "Database.stage", "Database.publish")
async def test_parts_of_a_staging_job_are_published_and_the_job_ends_with_it(db: Database) -> None:
    name, job = fresh("staged"), fresh("job")
    await db.create_table(name, EVENTS, order_by=["key"])
    await db.open_job(job, [name])
    await db.open_job(job, [name])
    parts = await db.stage(name, [event(1)], job=job)
    await db.renew_job(job, [name])
    more = await db.stage(name, [event(2)], job=job)
    assert (await db.publish([parts, more], job=job)).rows == 2
    with pytest.raises(StagingEnded):
        await db.renew_job(job, [name])
    with pytest.raises(StagingEnded):
        await db.publish(await db.stage(name, [event(3)]), job=job)
    assert await numbers_of(db, name) == [1, 2]


# Replicas and quorums


@covers("Table.insert", "Database.stage")
async def test_a_block_is_visible_when_as_many_replicas_have_it_as_are_asked_for(
    place: Place, db: Database
) -> None:
    name = fresh("quorum")
    table = await db.create_table(name, EVENTS, order_by=["key"])
    for number, quorum in enumerate(["majority", *range(1, place.nodes + 1)]):
        await table.insert([event(number)], quorum=quorum)
        await db.publish(await db.stage(name, [event(100 + number)], quorum=quorum))
    count = place.nodes + 1
    assert await numbers_of(db, name) == [*range(count), *range(100, 100 + count)]
    for wrong in (0, -1, True, "all", 1.5):
        with pytest.raises(BadInput, match="quorum"):
            await table.insert([event(0)], quorum=wrong)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match=rf"{place.nodes} replicas|and {place.nodes}"):
        await table.insert([event(0)], quorum=place.nodes + 1)


@covers("Database.create_table")
async def test_a_table_has_as_many_replicas_as_are_asked_for(place: Place, db: Database) -> None:
    for replicas in range(1, place.nodes + 1):
        name = fresh("replicas")
        table = await db.create_table(name, EVENTS, order_by=["key"], replicas=replicas)
        await table.insert([event(1)])
        assert [each.replicas for each in await db.tables() if each.name == name] == [replicas]
        assert await numbers_of(db, name) == [1]
    with pytest.raises(NoNodeToPlaceOn):
        await db.create_table(fresh("never"), EVENTS, order_by=["key"], replicas=place.nodes + 1)


@covers("Table.sync", "Table.insert")
async def test_all_replicas_have_what_is_visible_after_a_sync(db: Database) -> None:
    name = fresh("synced")
    table = await db.create_table(name, EVENTS, order_by=["key"], shards=2)
    done = await table.insert([event(n) for n in range(10)], quorum=1)
    assert await table.sync() >= done.version
    assert (await table.select(consistency="eventual")).num_rows == 10
    with pytest.raises(NoSuchTable, match="nowhere"):
        await db.table("nowhere").sync()


# Names


@covers("Database.drop_table", "Database.tables")
async def test_a_dropped_table_is_gone_and_its_name_is_free(db: Database) -> None:
    name = fresh("dropped")
    table = await db.create_table(name, EVENTS, order_by=["key"])
    await table.insert([event(1)])
    await db.drop_table(name)
    assert name not in [info.name for info in await db.tables()]
    for use in (table.select, lambda: table.insert([event(2)]), lambda: db.drop_table(name)):
        with pytest.raises(NoSuchTable, match=name):
            await use()
    await db.create_table(name, EVENTS, order_by=["key", "at"], shards=2)
    await table.insert([event(3)])
    assert await numbers_of(db, name) == [3]


@covers("Database.rename_table")
async def test_a_renamed_table_keeps_its_rows_and_its_name_is_free(db: Database) -> None:
    name, other, third = fresh("renamed"), fresh("renamed"), fresh("renamed")
    await db.create_table(name, EVENTS, order_by=["key"])
    await db.table(name).insert([event(1)])
    await db.rename_table(name, other)
    assert await numbers_of(db, other) == [1]
    with pytest.raises(NoSuchTable, match=name):
        await db.table(name).select()
    await db.create_table(name, EVENTS, order_by=["key"])
    with pytest.raises(TableExists, match=other):
        await db.rename_table(name, other)
    with pytest.raises(NoSuchTable, match="nowhere"):
        await db.rename_table("nowhere", third)
    with pytest.raises(BadInput):
        await db.rename_table(name, "no name")
    assert await numbers_of(db, name) == []


@covers("Database.rename_table", "Table.insert")
async def test_an_insert_by_a_remembered_name_lands_in_the_table_that_has_it(db: Database) -> None:
    name, other = fresh("swapped"), fresh("swapped")
    for each, shards in ((name, 1), (other, 2)):
        await db.create_table(each, EVENTS, order_by=["key"], shards=shards)
        await db.table(each).insert([event(0)])
    async with motet.aio.connect(await db.endpoint()) as elsewhere:
        await elsewhere.rename_table(name, f"{name}_old")
        await elsewhere.rename_table(other, name)
    await db.table(name).insert([event(1)])
    await db.table(name).insert([event(n) for n in range(2, 12)])
    assert await numbers_of(db, name) == list(range(12))
    assert await numbers_of(db, f"{name}_old") == [0]


# The system's own tables


@covers("Database.sql")
async def test_the_system_tells_of_tables_replicas_and_logs(place: Place, db: Database) -> None:
    name, writer = fresh("told"), fresh("writer")
    table = await db.create_table(name, EVENTS, order_by=["key"], shards=2, partition_by="day(at)")
    await table.insert([event(n) for n in range(10)])
    step = motet.WriterStep(writer, 0, None, Clock(1, 0))
    await db.publish(await db.stage(name, [event(10)]), step=step)

    async def told(query: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = (await db.sql(query, [name])).to_pylist()
        return rows

    (row,) = await told("select * from system.tables where name = ?")
    assert (row["shards"], row["rows"], row["parts"], row["replicas"]) == (2, 11, 3, place.nodes)
    assert (row["partition_by"], row["shard_by"], row["engine"]) == ("day(at)", ["key"], "merge")
    parts = await told('select * from system.parts where "table" = ? order by shard, name')
    assert [part["partition"] for part in parts] == ["2026-11-01"] * 3
    assert sum(part["rows"] for part in parts) == 11
    replicas = await told('select * from system.replicas where "table" = ?')
    assert sorted(each["shard"] for each in replicas) == sorted([0, 1] * place.nodes)
    assert {each["phase"] for each in replicas} == {"active"}
    assert await told('select * from system.replication_queue where "table" = ?') is not None
    log = await told('select * from system.log where "table" = ? order by shard, entry')
    assert {each["type"] for each in log} == {"publish"}
    assert sum(len(each["parts"]) for each in log) == 3
    assert await told('select * from system.quorum where "table" = ?') == []
    steps = await db.sql("select * from system.writers where name = ?", [writer])
    (found,) = steps.to_pylist()
    assert (found["epoch"], found["tables"], "@" in found["version"]) == (0, [name], True)


@covers("Table.select")
@pytest.mark.parametrize("place", [THREE_NODES], indirect=True)
async def test_reads_go_through_any_node(place: Place, db: Database) -> None:
    name = fresh("anywhere")
    await db.create_table(name, EVENTS, order_by=["key"], shards=3, replicas=1)
    await db.table(name).insert([event(n) for n in range(50)])
    for endpoint in (await db.endpoint()).split(","):
        async with motet.aio.connect(endpoint) as other:
            assert await numbers_of(other, name) == list(range(50))
            query = f"select count(*) as c from {name}"
            assert (await other.sql(query)).to_pylist() == [{"c": 50}]
