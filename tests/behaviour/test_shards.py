"""Shards and nodes: who holds what, how far each shard is closed, and how an operator changes that."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.behaviour.face import covers
from tests.behaviour.feeds import put
from tests.behaviour.places import Place, fresh, keys_of_shards

from motet.aio import Database, Transaction
from motet.client.cluster.database import AsyncClusterDatabase
from motet.client.feed_status import IncompleteTransaction
from motet.core.clock.hlc import Clock
from motet.errors import MotetError
from motet.errors.operator import LastReplica, NoNodeToPlaceOn

patience_seconds = 60.0


@covers("Stream.stats")
async def test_stats_say_how_much_there_is_in_each_shard(db: Database) -> None:
    stream = await db.create_stream(fresh("counted"), shards=2)
    left, right = keys_of_shards(2)
    for key in (left, left, right):
        await stream.append(key, b"v")
    await put(db, stream.name, left, 1)
    found = await stream.stats()
    assert [(s["shard"], s["first_offset"], s["next_offset"]) for s in found] == [
        (0, 0, 3),
        (1, 0, 1),
    ]


@covers("Stream.stats")
async def test_stats_say_who_leads_and_who_holds_each_shard(place: Place, db: Database) -> None:
    stream = await db.create_stream(fresh("led"), shards=2)
    position = await stream.append("k", b"v")
    names = {each.node for each in await db.nodes()}
    for found in await stream.stats():
        assert found["leader"] in found["ensemble"]
        assert len(set(found["ensemble"])) == place.nodes
        assert set(found["ensemble"]) <= names
    assert (await stream.stats())[position.shard]["epoch"] == position.epoch


@covers("Database.feed_status")
async def test_the_status_says_how_far_each_shard_is_closed(place: Place, db: Database) -> None:
    a, b = fresh("closed_a"), fresh("closed_b")
    await db.create_stream(a, shards=2)
    await db.create_stream(b, shards=1)
    clock = await put(db, a, "k", 1)
    visible = await db.visible_clock(a, b, wait=True)
    status = await db.feed_status(a, b)
    assert [(each.stream, each.shard) for each in status.shards] == [(a, 0), (a, 1), (b, 0)]
    assert status.visible is not None
    assert status.visible >= visible >= clock
    assert status.clock >= clock
    assert status.clock_enabled
    for each in status.shards:
        assert each.closed is not None
        assert each.closed >= visible
        assert (each.transaction, each.home, each.error) == (None, None, "")
        assert len(each.ensemble) == (place.nodes if place.is_cluster else 0)
    assert status.last in status.shards
    assert status.behind_ms(status.visible) is not None
    assert status.behind_ms(None) is None
    whole = await db.feed_status()
    assert {a, b} <= {each.stream for each in whole.shards}


@covers("Database.nodes")
async def test_nodes_say_what_they_hold(place: Place, db: Database) -> None:
    await db.create_stream(fresh("held"), shards=3)
    nodes = await db.nodes()
    shards = sum(info.shards for info in await db.streams())
    async with asyncio.timeout(patience_seconds):
        while sum(each.leads for each in nodes) != shards:  # the map says it a moment later
            nodes = await db.nodes()
    assert len(nodes) == len({each.node for each in nodes}) == place.nodes
    assert all("data" in each.roles and each.shards >= 3 for each in nodes)
    endpoints = (await db.endpoint()).split(",")
    assert all(each.endpoint is None or each.endpoint in endpoints for each in nodes)


@covers("Database.incomplete_transactions")
async def test_a_transaction_is_incomplete_until_all_its_shards_have_logged_its_end(
    db: Database,
) -> None:
    name = fresh("whole")
    await db.create_stream(name, shards=2)
    async with db.transaction() as txn:
        for key in keys_of_shards(2):
            txn.change(name, key, "insert", row={})
    async with asyncio.timeout(patience_seconds):
        while txn.id in [each.transaction for each in await db.incomplete_transactions()]:
            continue
    assert (await db.transaction_status(txn.id)).standing == "committed"


@covers("Database.incomplete_transactions")
async def test_a_transaction_whose_clock_is_fixed_is_incomplete(db: Database) -> None:
    name = fresh("prepared")
    await db.create_stream(name, shards=2)

    async def fixed(txn: Transaction) -> tuple[Clock | None, list[IncompleteTransaction]]:
        for key in keys_of_shards(2):
            txn.change(name, key, "insert", row={})
        clock = await txn.commit_clock()
        found = await db.incomplete_transactions()
        return clock, [each for each in found if each.transaction == txn.id]

    clock, found = await db.transact(fixed)  # again if it has had its time
    assert clock is not None
    assert {each.stream for each in found} == {name}
    assert {each.shard for each in found} <= {0, 1}
    assert {each.home for each in found} <= {f"{name}/0", f"{name}/1"}
    assert max(each.prepared for each in found) <= clock


# SQL about the database itself


@covers("Database.sql")
@pytest.mark.filterwarnings(
    "ignore::motet.client.clock_visibility.ClockOff"
)  # other cases turn it off
async def test_sql_shows_the_feed_and_how_the_database_stands(place: Place, db: Database) -> None:
    name = fresh("asked")
    await db.create_stream(name, shards=2)
    keys = keys_of_shards(2)
    async with db.transaction() as txn:
        for key in keys:
            txn.change(name, key, "insert", row={"n": 1})
    clock = await put(db, name, keys[0], 2)
    await db.visible_clock(name, wait=True)
    assert txn.clock is not None

    async def asked(query: str, *parameters: object) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await db.sql(query, list(parameters))).to_pylist()
        return found

    changes = await asked(
        "select tt.key, tt.op, cc.commit_clock from system.changes tt, "
        "system.transaction_commit_clock cc where tt.stream = ? and "
        "tt.transaction = cc.transaction order by cc.commit_clock, tt.transaction, tt.index",
        name,
    )
    assert [(c["key"].decode(), c["op"], Clock(**c["commit_clock"])) for c in changes] == [
        (keys[0], "insert", txn.clock),
        (keys[1], "insert", txn.clock),
        (keys[0], "update", clock),
    ]
    (clocks,) = await asked(
        "select cluster_clock() as c, visible_clock() as v, transaction_id() as t"
    )
    assert Clock(**clocks["c"]) >= clock
    assert Clock(**clocks["v"]) <= Clock(**clocks["c"])
    assert clocks["t"] is None
    (stream,) = await asked(
        "select shards, entries, created from system.streams where name = ?", name
    )
    assert (stream["shards"], stream["entries"]) == (2, 3)
    assert Clock(**stream["created"]) < txn.clock
    shards = await asked("select * from system.shards where stream = ? order by shard", name)
    assert [(each["shard"], each["error"]) for each in shards] == [(0, None), (1, None)]
    assert all(Clock(**each["closed"]) >= clock for each in shards)
    nodes = await asked("select node, roles, shards from system.nodes")
    assert len(nodes) == place.nodes
    (standing,) = await asked("select clock, behind_ms, enabled from system.clock")
    assert Clock(**standing["clock"]) >= clock
    assert standing["enabled"]
    assert (
        await asked('select * from system.incomplete_transactions where "transaction" = ?', "")
        == []
    )


# Operators


def operated(db: Database) -> AsyncClusterDatabase:
    """What an operator can be asked is part of the face of a cluster alone today."""
    if not isinstance(db, AsyncClusterDatabase):
        raise AttributeError("an embedded database has no operator")
    return db


@covers("Database.describe_shards", "Database.elect")
async def test_a_leader_is_elected_anew_and_nothing_is_lost(place: Place, db: Database) -> None:
    cluster = operated(db)
    name = fresh("elected")
    stream = await cluster.create_stream(name, shards=1)
    first = await stream.append("k", b"before")
    (before,) = (await cluster.describe_shards(name)).shards
    preferred = next((n for n in before.ensemble if n != before.leader), before.leader)
    await cluster.elect(name, 0, preferred)
    (after,) = (await cluster.describe_shards(name)).shards
    assert after.epoch > before.epoch
    assert (after.leader, after.ensemble) == (preferred, before.ensemble)
    assert len(after.ensemble) == place.nodes
    second = await stream.append("k", b"after")
    assert (second.offset, second.clock > first.clock) == (first.offset + 1, True)
    assert [(e.value, e.epoch) for e in await stream.read()] == [
        (b"before", first.epoch),
        (b"after", second.epoch),
    ]


@covers("Database.expand", "Database.swap", "Database.contract")
async def test_an_ensemble_grows_is_changed_and_shrinks(place: Place, db: Database) -> None:
    cluster = operated(db)
    name = fresh("grown")
    stream = await cluster.create_stream(name, shards=1, replicas=1)
    await stream.append("k", b"v")

    async def shard() -> Any:
        (found,) = (await cluster.describe_shards(name)).shards
        return found

    if place.nodes == 1:
        with pytest.raises(NoNodeToPlaceOn):
            await cluster.expand(name, 0)
        with pytest.raises(LastReplica):
            await cluster.contract(name, 0)
        return
    leader = (await shard()).leader
    second, third = [each.node for each in await cluster.nodes() if each.node != leader]
    await cluster.expand(name, 0, second)
    assert set((await shard()).ensemble) == {leader, second}
    await cluster.swap(name, 0, second, third)
    assert set((await shard()).ensemble) == {leader, third}
    await cluster.contract(name, 0, third)
    assert (await shard()).ensemble == (leader,)
    await stream.append("k", b"w")
    assert [entry.value for entry in await stream.read()] == [b"v", b"w"]


@covers(
    "Database.describe_shards",
    "Database.elect",
    "Database.expand",
    "Database.contract",
    "Database.swap",
    "Database.drain",
)
async def test_what_an_operator_cannot_do_is_told_and_changes_nothing(
    place: Place, db: Database
) -> None:
    cluster = operated(db)
    name = fresh("fixed")
    await cluster.create_stream(name, shards=1, replicas=place.nodes)
    (shard,) = (await cluster.describe_shards(name)).shards
    taken_out = "NOT_IN_ENSEMBLE" if place.nodes > 1 else "LAST_REPLICA"
    refused: dict[str, Callable[[], Awaitable[object]]] = {
        "NO_NODE_TO_PLACE_ON": lambda: cluster.expand(name, 0),
        "NODE_LEADS": lambda: cluster.swap(name, 0, str(shard.leader), None),
        taken_out: lambda: cluster.contract(name, 0, "n9"),
        "NO_SUCH_SHARD": lambda: cluster.elect(name, 4),
        "NO_SUCH_STREAM": lambda: cluster.describe_shards("nowhere"),
        "NO_SUCH_NODE": lambda: cluster.drain("n9"),
    }
    for code, asked in refused.items():
        with pytest.raises(MotetError) as told:
            await asked()
        assert told.value.code == code
    (after,) = (await cluster.describe_shards(name)).shards
    assert after.ensemble == shard.ensemble
    assert await cluster.drain("n0", is_drained=False)
