"""Transactions: all or nothing, judged by what they read, and what became of them."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.behaviour.face import covers
from tests.behaviour.feeds import feed, put
from tests.behaviour.places import fresh, keys_of_shards

import motet.aio
from motet.aio import Database, Transaction
from motet.client.change import Change
from motet.errors import BadInput, Conflict, NoSuchStream, TooLarge
from motet.limits import (
    key_bytes_max,
    row_bytes_max,
    transaction_changes_max,
    transaction_id_length_max,
)

# Committing


@covers("Database.transaction", "Transaction.change", "Transaction.id", "Transaction.clock")
async def test_leaving_the_block_commits_all_changes_at_one_clock(db: Database) -> None:
    orders, stock = fresh("orders"), fresh("stock")
    await db.create_stream(orders, shards=3)
    await db.create_stream(stock, shards=2)
    first, second, third = keys_of_shards(3)
    async with db.transaction() as txn:
        assert await txn.get(stock, "s-9") is None
        txn.change(orders, key=first, op="insert", row={"sku": "s-9", "qty": 2})
        txn.change(stock, key=b"s-9", op="update", row={"left": 7}, before={"left": 9})
        txn.change(orders, key=second, op="insert", row={})
        txn.change(orders, key=third, op="delete", before={"qty": 1})
        assert txn.clock is None
    changes = await feed(db, orders, stock)
    assert {(c.clock, c.transaction, c.count) for c in changes} == {(txn.clock, txn.id, 4)}
    assert [(c.index, c.stream, c.key, c.op, c.row, c.before) for c in changes] == [
        (0, orders, first.encode(), "insert", {"sku": "s-9", "qty": 2}, None),
        (1, stock, b"s-9", "update", {"left": 7}, {"left": 9}),
        (2, orders, second.encode(), "insert", {}, None),
        (3, orders, third.encode(), "delete", None, {"qty": 1}),
    ]
    assert {c.shard for c in changes if c.stream == orders} == {0, 1, 2}
    now = datetime.now(UTC)
    assert all(now - timedelta(minutes=1) < change.at <= now for change in changes)
    assert str(txn.id) in repr(txn)
    assert f"at {txn.clock}" in repr(txn)


@covers("Database.transaction")
async def test_an_exception_sends_nothing(db: Database) -> None:
    name = fresh("left")
    await db.create_stream(name, shards=2)
    with pytest.raises(ZeroDivisionError):  # noqa: PT012
        async with db.transaction() as txn:
            txn.change(name, key="o-1", op="insert", row={})
            raise ZeroDivisionError
    assert txn.clock is None
    assert await feed(db, name) == []
    assert (await db.transaction_status(txn.id)).standing == "unknown"


async def test_a_transaction_that_did_nothing_has_no_clock(db: Database) -> None:
    async with db.transaction() as txn:
        pass
    assert txn.clock is None
    assert (await db.transaction_status(txn.id)).standing == "unknown"


async def test_it_is_used_once_and_within_its_block(db: Database) -> None:
    name = fresh("once")
    await db.create_stream(name, shards=1)
    txn = db.transaction()
    with pytest.raises(BadInput, match="begun"):
        txn.change(name, key="a", op="delete")
    async with txn:
        pass
    with pytest.raises(BadInput, match="over"):
        await txn.get(name, "a")
    with pytest.raises(BadInput, match="once"):
        await txn.__aenter__()


# Reading


@covers("Transaction.get", "Transaction.change")
async def test_get_answers_with_the_latest_committed_change(db: Database) -> None:
    name = fresh("latest")
    stream = await db.create_stream(name, shards=2)
    clock = await put(db, name, "s-9", 3)
    raw = await stream.append("raw", b"\xff")
    async with db.transaction() as txn:
        found, entry = await txn.get(name, "s-9"), await txn.get(name, b"raw")
        assert isinstance(found, Change)
        assert isinstance(entry, Change)
        assert (found.op, found.row, found.clock) == ("update", {"left": 3}, clock)
        assert (entry.op, entry.row, entry.clock) == ("append", b"\xff", raw.clock)
        assert await txn.get(name, "never") is None
        txn.change(name, key="s-9", op="delete")
    async with db.transaction() as txn:
        latest = await txn.get(name, "s-9")
    assert latest is not None
    assert (latest.op, latest.row) == ("delete", None)


@covers("Transaction.get")
async def test_get_sees_what_the_transaction_has_changed_itself(db: Database) -> None:
    name = fresh("own")
    await db.create_stream(name, shards=1)
    async with db.transaction() as txn:
        txn.change(name, key="s-9", op="insert", row={"left": 3})
        txn.change(name, key="s-9", op="update", row={"left": 2}, before={"left": 3})
        own = await txn.get(name, "s-9")
        assert own is not None
        assert (own.stream, own.key, own.op) == (name, b"s-9", "update")
        assert (own.row, own.before, own.clock) == ({"left": 2}, {"left": 3}, None)
        assert "OwnChange" in repr(own)
    assert [change.row for change in await feed(db, name)] == [{"left": 3}, {"left": 2}]


@covers("Transaction.get")
async def test_get_stays_the_same_within_a_transaction(db: Database) -> None:
    name = fresh("stays")
    await db.create_stream(name, shards=1)
    await put(db, name, "s-9", 3)
    with pytest.raises(Conflict):  # noqa: PT012
        async with db.transaction() as txn:
            first = await txn.get(name, "s-9")
            await put(db, name, "s-9", 2)
            again = await txn.get(name, b"s-9")
            assert first is not None
            assert again == first
            assert first.row == {"left": 3}


@pytest.mark.parametrize("change", ["transaction", "append", "by another client"])
async def test_what_was_read_and_has_changed_is_a_conflict_and_nothing_is_applied(
    change: str, db: Database
) -> None:
    name = fresh("overtaken")
    await db.create_stream(name, shards=2)
    left, right = keys_of_shards(2)
    await put(db, name, left, 1)
    with pytest.raises(Conflict, match=left) as told:  # noqa: PT012
        async with db.transaction() as txn:
            await txn.get(name, left)
            if change == "transaction":
                await put(db, name, left, 2)
            elif change == "append":
                await db.stream(name).append(left, b"raw")
            else:
                async with motet.aio.connect(await db.endpoint()) as other:
                    await put(other, name, left, 2)
            txn.change(name, key=right, op="insert", row={})
    assert told.value.code == "CONFLICT"
    assert txn.clock is None
    assert [c.key for c in await feed(db, name)] == [left.encode()] * 2
    assert (await db.transaction_status(txn.id)).standing in ("aborted", "unknown")


async def test_a_transaction_that_only_read_is_judged_too(db: Database) -> None:
    name = fresh("read")
    await db.create_stream(name, shards=2)
    keys = keys_of_shards(2)
    clocks = [await put(db, name, key, 1) for key in keys]
    async with db.transaction() as txn:
        for key in keys:
            await txn.get(name, key)
    assert txn.clock is not None
    assert txn.clock > max(clocks)
    with pytest.raises(Conflict):  # noqa: PT012
        async with db.transaction() as txn:
            for key in keys:
                await txn.get(name, key)
            await put(db, name, keys[0], 2)


async def test_changes_without_reads_never_conflict(db: Database) -> None:
    name = fresh("blind")
    await db.create_stream(name, shards=1)
    async with db.transaction() as txn:
        txn.change(name, key="a", op="insert", row={"left": 2})
        await put(db, name, "a", 1)
    assert [change.row["left"] for change in await feed(db, name)] == [1, 2]


# Again


@covers("Database.transact")
async def test_transact_gives_back_what_the_function_gave(db: Database) -> None:
    async def name_of(txn: Transaction) -> str:
        return txn.id

    assert await db.transact(name_of)


@covers("Database.transact")
async def test_transact_tries_again_and_gives_up_in_the_end(db: Database) -> None:
    name = fresh("late")
    await db.create_stream(name, shards=1)
    tries = []

    async def always_late(txn: Transaction) -> None:
        tries.append(txn.id)
        await txn.get(name, "a")
        await put(db, name, "a", len(tries))

    with pytest.raises(Conflict):
        await db.transact(always_late, attempts=3)
    assert len(set(tries)) == len(tries) == 3
    for attempts in (0, -1, 1.0):
        with pytest.raises(BadInput, match="attempts"):
            await db.transact(always_late, attempts=attempts)  # type: ignore[arg-type]
    assert len(tries) == 3


@covers("Database.transact")
async def test_transact_passes_other_errors_on_at_once(db: Database) -> None:
    tries = []

    async def fails(txn: Transaction) -> None:
        tries.append(txn)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await db.transact(fails)
    assert len(tries) == 1


@covers("Database.transact")
async def test_accounts_keep_their_total_under_rivals(db: Database) -> None:
    """Many move money between accounts of several shards; at each clock of the feed none is missing."""
    name = fresh("bank")
    await db.create_stream(name, shards=3)
    accounts = [f"account-{n}" for n in range(6)]
    async with db.transaction() as txn:
        for account in accounts:
            txn.change(name, account, "insert", row={"balance": 100})

    async def move(number: int) -> None:
        source, target = accounts[number % 6], accounts[(number + 1 + number % 5) % 6]

        async def body(txn: Transaction) -> None:
            giver, taker = await txn.get(name, source), await txn.get(name, target)
            assert giver is not None
            assert taker is not None
            txn.change(name, source, "update", row={"balance": giver.row["balance"] - 1})
            txn.change(name, target, "update", row={"balance": taker.row["balance"] + 1})

        await db.transact(body, attempts=1000)

    await asyncio.gather(*(move(number) for number in range(25)))
    balances: dict[bytes, int] = {}
    clocks = []
    for change in await feed(db, name):
        balances[change.key] = change.row["balance"]
        if change.index == change.count - 1:
            clocks.append(change.raw.clock)
            assert sum(balances.values()) == 600
    assert len(clocks) == 26
    assert clocks == sorted(clocks)


# What became of it


@covers("Database.transaction_status", "Database.transaction_changes")
async def test_what_became_of_a_transaction_can_be_asked_later(db: Database) -> None:
    name = fresh("asked")
    await db.create_stream(name, shards=2)
    keys = keys_of_shards(2)
    async with db.transaction() as txn:
        for key in keys:
            txn.change(name, key, "insert", row={"k": key})
        assert (await db.transaction_status(txn.id)).standing == "unknown"
        assert await db.transaction_changes(txn.id) == []
    async with motet.aio.connect(await db.endpoint()) as other:
        found = await other.transaction_status(txn.id)
        assert (found.id, found.standing, found.clock) == (txn.id, "committed", txn.clock)
        changes = await other.transaction_changes(txn.id)
    assert [(c.key.decode(), c.row, c.clock) for c in changes] == [
        (key, {"k": key}, txn.clock) for key in keys
    ]
    never = await db.transaction_status("never")
    assert (never.standing, never.clock) == ("unknown", None)
    for bad in ("", "x" * (transaction_id_length_max + 1), 7):
        with pytest.raises(BadInput, match="transaction id"):
            await db.transaction_status(bad)  # type: ignore[arg-type]


# Compaction


@covers("Transaction.carry")
async def test_changes_of_another_database_are_repeated_as_they_are(
    db: Database, tmp_path: Any
) -> None:
    name = fresh("carried")
    await db.create_stream(name, shards=2)
    async with motet.aio.open(tmp_path / "source") as source:
        await source.create_stream(name, shards=1)
        await source.stream(name).append("raw", b"\xff")
        async with source.transaction() as txn:
            txn.change(name, "a", "update", row={"n": 1}, before={"n": 0})
            txn.change(name, "b", "delete")
        changes = (await source.changes(name)).changes
    async with db.transaction() as txn:
        for change in changes:
            txn.carry(change)
    found = [(c.key, c.op, c.row, c.before, c.count) for c in await feed(db, name)]
    assert found == [(c.key, c.op, c.row, c.before, 3) for c in changes]


# Bounds


@covers("Transaction.change")
async def test_bad_changes_are_refused_before_anything_is_sent(db: Database) -> None:
    name = fresh("bad")
    await db.create_stream(name, shards=1)
    bad: list[dict[str, Any]] = [
        {"op": "upsert"},
        {"op": "append"},
        {"op": "insert", "row": None},
        {"op": "delete", "row": {}},
        {"row": {"x": object()}},
        {"row": {1: "a number as a name"}},
        {"row": {"x": float("nan")}},
        {"row": [1]},
        {"before": {"x": object()}},
        {"key": ""},
        {"stream": "no stream"},
    ]
    good: dict[str, Any] = {"stream": name, "key": "k", "op": "insert", "row": {}}
    for wrong in bad:
        with pytest.raises(BadInput):
            async with db.transaction() as txn:
                txn.change(**(good | wrong))
    for large in ({"key": "k" * (key_bytes_max + 1)}, {"row": {"x": "a" * row_bytes_max}}):
        with pytest.raises(TooLarge):
            async with db.transaction() as txn:
                txn.change(**(good | large))
    with pytest.raises(NoSuchStream, match="nowhere"):  # noqa: PT012
        async with db.transaction() as txn:
            txn.change(name, key="a", op="insert", row={})
            txn.change("nowhere", key="a", op="insert", row={})
    assert await feed(db, name) == []


async def test_a_transaction_is_bounded_in_bytes(db: Database) -> None:
    name = fresh("heavy")
    await db.create_stream(name, shards=2)
    large = {"x": "a" * (row_bytes_max - 10)}
    async with db.transaction() as txn:
        for n in range(3):
            txn.change(name, key=f"{n}", op="insert", row=large)
        with pytest.raises(TooLarge):
            txn.change(name, key="4", op="update", row=large, before=large)
    assert len(await feed(db, name)) == 3


async def test_a_transaction_is_bounded_in_changes(db: Database) -> None:
    name = fresh("wide")
    await db.create_stream(name, shards=2)
    async with db.transaction() as txn:
        for n in range(transaction_changes_max):
            txn.change(name, key=f"{n}", op="insert", row={})
        with pytest.raises(TooLarge):
            txn.change(name, key="more", op="insert", row={})
        with pytest.raises(TooLarge):
            await txn.get(name, "more")
    await db.visible_clock(name, wait=True)
    page = await db.changes(name, limit=1)
    assert len(page) == transaction_changes_max, "a page holds whole transactions"
