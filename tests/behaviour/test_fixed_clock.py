"""The clock of a transaction, fixed before its block is left."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.behaviour.face import covers
from tests.behaviour.feeds import feed, put
from tests.behaviour.places import fresh, keys_of_shards

from motet.aio import Database, Transaction
from motet.client.change import Position
from motet.core.clock.hlc import Clock
from motet.errors import BadInput, Conflict


@covers("Transaction.commit_clock")
@pytest.mark.parametrize("shards", [1, 3])
async def test_the_clock_that_is_fixed_is_the_clock_of_the_commit(
    shards: int, db: Database
) -> None:
    name = fresh("fixed")
    await db.create_stream(name, shards=shards)
    keys = keys_of_shards(shards)

    async def fixed(txn: Transaction) -> tuple[Transaction, Any, str, Clock]:
        assert await txn.get(name, "read") is None
        for key in keys:
            txn.change(name, key, "insert", row={"n": 1})
        told = await txn.commit_clock()
        assert await txn.commit_clock() == told
        standing = (await db.transaction_status(txn.id)).standing
        visible = await db.visible_clock(name)
        with pytest.raises(BadInput, match="fixed"):
            txn.change(name, keys[0], "update", row={"n": 2})
        with pytest.raises(BadInput, match="fixed"):
            await txn.get(name, "another")
        assert await txn.get(name, "read") is None
        assert await txn.get(name, keys[0]) is not None
        return txn, told, standing, visible

    txn, told, standing, visible = await db.transact(fixed)  # again if it has had its time
    assert (txn.clock, standing) == (told, "prepared")
    assert visible < told
    assert (await db.transaction_status(txn.id)).clock == told
    changes = await feed(db, name)
    assert [(c.clock, c.key.decode()) for c in changes] == [(told, key) for key in keys]


@covers("Transaction.commit_clock")
async def test_what_was_fixed_and_left_by_an_exception_is_not_committed(db: Database) -> None:
    name = fresh("dropped")
    await db.create_stream(name, shards=2)
    keys = keys_of_shards(2)
    told = None
    with pytest.raises(ZeroDivisionError):  # noqa: PT012
        async with db.transaction() as txn:
            for key in keys:
                txn.change(name, key, "insert", row={"left": 1})
            told = await txn.commit_clock()
            raise ZeroDivisionError
    assert told is not None
    async with asyncio.timeout(60):
        clock = await put(db, name, keys[0], 2)
    assert clock > told, "it is not used again"
    assert [c.clock for c in await feed(db, name)] == [clock]
    assert await db.transaction_changes(txn.id) == []


@covers("Transaction.commit_clock", "Database.transaction_status")
async def test_a_transaction_that_was_taken_back_is_known_as_aborted(db: Database) -> None:
    name = fresh("aborted")
    await db.create_stream(name, shards=1)
    with pytest.raises(ZeroDivisionError):  # noqa: PT012
        async with db.transaction() as txn:
            txn.change(name, "a", "insert", row={})
            await txn.commit_clock()
            raise ZeroDivisionError
    assert (await db.transaction_status(txn.id)).standing == "aborted"


@covers("Transaction.commit_clock")
async def test_others_who_change_the_same_come_after_a_fixed_clock(db: Database) -> None:
    name = fresh("after")
    await db.create_stream(name, shards=1)
    others: list[asyncio.Future[Position]] = []

    async def fixed(txn: Transaction) -> Clock | None:
        txn.change(name, "a", "insert", row={"left": 1})
        told = await txn.commit_clock()
        others.append(asyncio.ensure_future(db.stream(name).append("a", b"x")))
        await asyncio.sleep(0)
        return told

    async with asyncio.timeout(60):
        told = await db.transact(fixed)  # again if it has had its time
        positions = await asyncio.gather(*others)
    assert told is not None
    assert positions[-1].clock > told
    assert [c.clock for c in await feed(db, name)][-2:] == [told, positions[-1].clock]


@covers("Transaction.commit_clock")
async def test_what_has_been_overtaken_has_no_clock(db: Database) -> None:
    name = fresh("lost")
    await db.create_stream(name, shards=1)
    with pytest.raises(Conflict):  # noqa: PT012
        async with db.transaction() as txn:
            await txn.get(name, "a")
            await db.stream(name).append("a", b"x")
            await txn.commit_clock()
    assert txn.clock is None


@covers("Transaction.commit_clock")
async def test_a_transaction_that_only_read_has_a_clock_and_one_that_did_nothing_has_none(
    db: Database,
) -> None:
    name = fresh("only_read")
    await db.create_stream(name, shards=1)
    async with db.transaction() as txn:
        with pytest.raises(BadInput, match="nothing"):
            await txn.commit_clock()
        await txn.get(name, "a")
        told = await txn.commit_clock()
    assert told is not None
    assert txn.clock == told


@covers("Transaction.commit_clock")
async def test_who_stays_too_long_is_given_up(db: Database) -> None:
    name = fresh("slow")
    await db.create_stream(name, shards=1)
    async with asyncio.timeout(60):
        with pytest.raises(Conflict):  # noqa: PT012
            async with db.transaction() as txn:
                txn.change(name, "a", "insert", row={"left": 1})
                await txn.commit_clock()
                await db.stream(name).append("a", b"x")  # goes on when it has had its time
    assert txn.clock is None
    assert [c.op for c in await feed(db, name)] == ["append"]
