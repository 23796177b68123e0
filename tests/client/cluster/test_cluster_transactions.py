"""Transactions, clocks and the feed of a cluster, with the face that an embedded database has."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import motet
import motet.aio
from motet.client.change import Change
from motet.client.cluster.database import AsyncClusterDatabase
from motet.client.cluster.router import D, MakeData
from motet.client.transaction import AsyncTransaction
from motet.core.clock.hlc import Clock
from motet.core.placement.key_hash import shard_of
from motet.core.transaction.entries import Part, PartChange
from motet.core.transaction.messages import (
    CommitTransaction,
    PrepareTransaction,
    TransactionEnded,
    TransactionPrepared,
)
from motet.core.transaction.votes import Vote
from motet.errors import BadCursor, BadInput, Conflict, MotetError, NoSuchStream, TooLarge
from motet.ids import ShardName, StreamName, TransactionId
from motet.limits import row_bytes_max
from motet.testing.dev_cluster import DevCluster

Tale = Callable[[AsyncClusterDatabase], Awaitable[None]]


def run(cluster: DevCluster, tale: Tale) -> None:
    async def connected() -> None:
        async with await motet.aio.connect(cluster.endpoints) as db:
            assert isinstance(db, AsyncClusterDatabase)
            await tale(db)

    asyncio.run(connected())


def keys_of_shards(shards: int) -> list[str]:
    """One key for each shard, in order."""
    found: dict[int, str] = {}
    number = 0
    while len(found) < shards:
        found.setdefault(shard_of(f"k-{number}".encode(), shards), f"k-{number}")
        number += 1
    return [found[shard] for shard in range(shards)]


def all_changes(db: motet.Database, stream: str) -> list[Change]:
    """The feed as far as it is visible when the first page is read, or further."""
    page = db.changes(stream)
    found = page.changes
    while page.more:
        page = db.changes(stream, after=page.cursor)
        found = found + page.changes
    return found


def test_a_transaction_over_shards_and_streams_is_read_back_whole(db: motet.Database) -> None:
    db.create_stream("orders", shards=3)
    db.create_stream("stock", shards=2)
    first, second, third = keys_of_shards(3)
    with db.transaction() as txn:
        assert txn.get("stock", "s-1") is None
        txn.change("orders", first, "insert", row={"qty": 1})
        txn.change("stock", "s-1", "insert", row={"left": 9})
        txn.change("orders", second, "insert", row={"qty": 2})
        txn.change("orders", third, "insert", row={"qty": 3}, before={"qty": 0})
    assert txn.clock is not None
    db.visible_clock("orders", "stock", wait=True)
    page = db.changes("orders", "stock")
    keys = [c.key for c in page.changes]
    assert keys == [first.encode(), b"s-1", second.encode(), third.encode()]
    assert {(c.clock, c.transaction, c.count) for c in page.changes} == {(txn.clock, txn.id, 4)}
    assert [c.index for c in page.changes] == [0, 1, 2, 3]
    assert page.changes[3].before == {"qty": 0}
    assert page.changes[0].row == {"qty": 1}
    assert db.changes("orders", "stock", after=page.cursor).changes == []


def test_what_was_read_is_validated(db: motet.Database) -> None:
    db.create_stream("seen", shards=2)
    left, right = keys_of_shards(2)
    with db.transaction() as txn:
        txn.change("seen", left, "insert", row={"n": 1})
    clock = txn.clock
    quick = db.transaction()

    def overtaken() -> None:
        with db.transaction() as slow:
            found = slow.get("seen", left)
            assert isinstance(found, Change)
            assert (found.row, found.clock) == ({"n": 1}, clock)
            with quick:
                quick.change("seen", left, "update", row={"n": 2})
            slow.change("seen", right, "insert", row={"n": 3})

    with pytest.raises(Conflict):
        overtaken()
    with db.transaction() as txn:
        assert txn.get("seen", right) is None
        again = txn.get("seen", left)
        assert isinstance(again, Change)
        assert again.row == {"n": 2}
    assert txn.clock is not None
    assert quick.clock is not None
    assert txn.clock > quick.clock


def test_raw_entries_are_changes_too(db: motet.Database) -> None:
    stream = db.create_stream("mixed", shards=1)
    place = stream.append("k", b"raw")
    with db.transaction() as txn:
        found = txn.get("mixed", "k")
        assert isinstance(found, Change)
        assert (found.op, found.row, found.clock) == ("append", b"raw", place.clock)
        txn.change("mixed", "k", "update", row={"n": 1})

    def overtaken() -> None:
        with db.transaction() as stale:
            stale.get("mixed", "k")
            stream.append("k", b"later")
            stale.change("mixed", "k", "delete")

    with pytest.raises(Conflict):
        overtaken()
    entries = stream.read(0)
    assert [(e.offset, e.op) for e in entries] == [(0, "append"), (1, "update"), (2, "append")]
    assert entries[1].clock == txn.clock
    arrow = stream.read_arrow(0)
    assert arrow.column("key").to_pylist() == [b"k"] * 3
    db.visible_clock("mixed", wait=True)
    assert [c.op for c in db.changes("mixed").changes] == ["append", "update", "append"]


def test_accounts_keep_their_total_under_rivals(cluster: DevCluster) -> None:
    accounts = [f"account-{n}" for n in range(6)]

    async def tale(db: AsyncClusterDatabase) -> None:
        await db.create_stream("bank", shards=3)
        async with db.transaction() as txn:
            for name in accounts:
                txn.change("bank", name, "insert", row={"balance": 100})

        async def move(number: int) -> None:
            async def body(txn: AsyncTransaction) -> None:
                source, target = accounts[number % 6], accounts[(number * 5 + 1) % 6]
                if source == target:
                    target = accounts[(number + 1) % 6]
                giver, taker = await txn.get("bank", source), await txn.get("bank", target)
                assert giver is not None
                assert taker is not None
                txn.change("bank", source, "update", row={"balance": giver.row["balance"] - 1})
                txn.change("bank", target, "update", row={"balance": taker.row["balance"] + 1})

            await db.transact(body, attempts=200)

        await asyncio.gather(*(move(number) for number in range(40)))
        await db.visible_clock("bank", wait=True)
        for limit in (1, 7, 1000):
            await check_total(db, limit)

    async def check_total(db: AsyncClusterDatabase, limit: int) -> None:
        balances: dict[bytes, int] = {}
        cursor: str | None = None
        clocks: list[Clock] = []
        while True:
            page = await db.changes("bank", after=cursor, limit=limit)
            cursor = page.cursor
            for change in page.changes:
                balances[change.key] = change.row["balance"]
                if change.index == change.count - 1:
                    clocks.append(change.raw.clock)
                    assert sum(balances.values()) == 600
            if not page.more:
                break
        assert len(clocks) == 41
        assert clocks == sorted(clocks)

    run(cluster, tale)


def test_a_client_that_lies_about_a_vote_stops_no_shard(cluster: DevCluster) -> None:
    keys = keys_of_shards(2)
    name = TransactionId("a-lie")

    async def tale(db: AsyncClusterDatabase) -> None:
        await db.create_stream("lies", shards=2)
        home, other = [each.shard for each in (await db.router.stream(StreamName("lies"))).places]
        seen = await db.clock()

        def part(index: int) -> Part:
            change = PartChange(index, keys[index].encode(), "insert", b"{}", None)
            return Part(name, seen, seen, 2, (change,))

        async def ask(shard: ShardName, make: MakeData, kind: type[D]) -> D:
            return await db.router.ask_leader(shard, make, kind, may_repeat=True, seconds=10)

        vote = await ask(
            other,
            lambda n, clock: PrepareTransaction(n, clock, other, part(1), (), home, (other,)),
            TransactionPrepared,
        )
        below = Vote(Clock(vote.clock.logical - 400, 0), vote.seal)
        with pytest.raises(BadInput, match="has not voted to commit a-lie"):
            await ask(
                home,
                lambda n, clock: CommitTransaction(n, clock, home, part(0), (), (other,), (below,)),
                TransactionEnded,
            )

        async def change(txn: AsyncTransaction) -> None:
            for key in keys:
                txn.change("lies", key, "insert", row={"n": 1})

        await db.transact(change, attempts=1_000)  # the key is locked until the lie is given up
        await db.visible_clock("lies", wait=True)
        page = await db.changes("lies")
        assert [(c.key, c.row) for c in page.changes] == [(k.encode(), {"n": 1}) for k in keys]
        assert (await db.transaction_status(name)).standing == "aborted"

    run(cluster, tale)


def test_the_visible_clock_is_at_or_above_what_was_handed_out(db: motet.Database) -> None:
    db.create_stream("idle", shards=3)
    first = db.visible_clock("idle", wait=True)
    with db.transaction() as txn:
        txn.change("idle", "k", "insert", row={})
    second = db.visible_clock("idle", wait=True)
    assert txn.clock is not None
    assert first <= second
    assert second >= txn.clock
    assert db.visible_clock("idle") >= second
    assert [c.key for c in db.changes("idle", after=first).changes] == [b"k"]
    assert db.changes("idle", up_to=first).changes == []


def test_what_became_of_a_transaction_can_be_asked_later(db: motet.Database) -> None:
    db.create_stream("asked", shards=2)
    left, right = keys_of_shards(2)
    with db.transaction() as done:
        done.change("asked", left, "insert", row={})
        done.change("asked", right, "insert", row={})
    status = db.transaction_status(done.id)
    assert (status.standing, status.clock) == ("committed", done.clock)
    assert db.transaction_status("never").standing == "unknown"


@pytest.mark.parametrize("shards", [1, 3])
def test_a_clock_is_fixed_before_the_block_is_left(shards: int, db: motet.Database) -> None:
    stream = f"fixed-{shards}"
    db.create_stream(stream, shards=shards)
    keys = keys_of_shards(shards)
    with db.transaction() as txn:
        for key in keys:
            txn.change(stream, key, "insert", row={"n": 1})
        told = txn.commit_clock()
        assert told is not None
        assert db.transaction_status(txn.id).standing == "prepared"
        assert db.visible_clock(stream) < told
        with pytest.raises(BadInput, match="fixed"):
            txn.change(stream, keys[0], "update", row={"n": 2})
    assert txn.clock == told
    assert db.visible_clock(stream, wait=True) >= told
    assert [(c.clock, c.count) for c in db.changes(stream)] == [(told, shards)] * shards
    with pytest.raises(ZeroDivisionError), db.transaction() as lost:  # noqa: PT012
        for key in keys:
            lost.change(stream, key, "update", row={"n": 3})
        lost.commit_clock()
        raise ZeroDivisionError
    assert db.transaction_status(lost.id).standing == "aborted"
    with db.transaction() as txn:
        found = txn.get(stream, keys[0])
        assert isinstance(found, Change)
        assert (found.row, found.clock) == ({"n": 1}, told)


BAD: dict[str, tuple[type[MotetError], Callable[[motet.Database], object]]] = {
    "unknown stream": (NoSuchStream, lambda db: _change(db, "nope", {})),
    "oversized row": (TooLarge, lambda db: _change(db, "bad", {"x": "y" * row_bytes_max})),
    "feed of an unknown stream": (NoSuchStream, lambda db: db.changes("nope")),
    "garbled cursor": (BadCursor, lambda db: db.changes("bad", after="motet1.AAAA")),
    "cursor of other streams": (
        BadCursor,
        lambda db: db.changes("bad", after=db.changes("other").cursor),
    ),
    "no limit": (BadInput, lambda db: db.changes("bad", limit=0)),
}


def _change(db: motet.Database, stream: str, row: dict[str, object]) -> None:
    with db.transaction() as txn:
        txn.change(stream, "k", "insert", row=row)


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_told(what: str, db: motet.Database) -> None:
    db.create_stream("bad", shards=1)
    db.create_stream("other", shards=1)
    error, call = BAD[what]
    with pytest.raises(error):
        call(db)
    assert db.changes("bad").changes == []


def test_who_connects_behind_a_bookmark_sees_all_of_it_at_once(
    cluster: DevCluster, db: motet.Database
) -> None:
    stream = db.create_stream("marked", shards=3)
    for number in range(3):
        with db.transaction() as txn:
            for key in keys_of_shards(3):
                txn.change("marked", key, "update", row={"n": number})
        place = stream.append("raw", b"x")
        mark = db.bookmark()
        with motet.connect(cluster.endpoints, after=mark) as other:
            # Nothing is waited for but what the bookmark says.
            shown = [c.clock for c in all_changes(other, "marked")]
            assert shown[-1] == place.clock
            assert shown.count(txn.clock or place.clock) == 3
            counts = [len(other.stream("marked").read(s, source="replica")) for s in range(3)]
            assert sum(counts) == 5 * number + 4
            assert other.visible_clock("marked") >= place.clock
            assert other.stream("marked").append("raw", b"y").clock > place.clock
