"""Transactions of a cluster: what a client that breaks the rules can do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import motet
import motet.aio
from motet.client.cluster.database import AsyncClusterDatabase
from motet.client.cluster.router import D, MakeData
from motet.client.sync import Transaction
from motet.client.transaction import AsyncTransaction
from motet.core.clock.hlc import Clock
from motet.core.metadata.definitions import shard_of
from motet.core.streams.change import Branch, RowChange
from motet.core.streams.messages import (
    CommitTransaction,
    PrepareTransaction,
    TransactionEnded,
    TransactionPrepared,
)
from motet.core.streams.votes import Vote
from motet.errors import BadInput, Conflict
from motet.ids import ShardName, StreamName, TransactionId
from motet.testing.local_cluster import LocalCluster

Tale = Callable[[AsyncClusterDatabase], Awaitable[None]]


def run(cluster: LocalCluster, tale: Tale) -> None:
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


def test_a_client_that_lies_about_a_vote_stops_no_shard(cluster: LocalCluster) -> None:
    keys = keys_of_shards(2)
    name = TransactionId("a-lie")

    async def tale(db: AsyncClusterDatabase) -> None:
        await db.create_stream("lies", shards=2)
        home, other = [each.shard for each in (await db.router.stream(StreamName("lies"))).places]
        seen = await db.clock()

        def branch(index: int) -> Branch:
            change = RowChange(index, keys[index].encode(), "insert", b"{}", None)
            return Branch(name, seen, seen, 2, (change,))

        async def ask(shard: ShardName, make: MakeData, kind: type[D]) -> D:
            return await db.router.ask_leader(shard, make, kind, may_repeat=True, seconds=10)

        vote = await ask(
            other,
            lambda n, clock: PrepareTransaction(n, clock, other, branch(1), (), home, (other,)),
            TransactionPrepared,
        )
        below = Vote(Clock(vote.clock.logical - 400, 0), vote.seal)
        with pytest.raises(BadInput, match="has not voted to commit a-lie"):
            await ask(
                home,
                lambda n, clock: CommitTransaction(
                    n, clock, home, branch(0), (), (other,), (below,)
                ),
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


def test_every_attempt_of_a_transaction_is_as_old_as_the_first(db: motet.Database) -> None:
    stream = db.create_stream("aged", shards=1)
    ages: list[Clock] = []

    def run(txn: Transaction) -> None:
        ages.append(txn._inner._begin)
        stream.append("k", b"what lets the clock of this client rise")
        if len(ages) < 3:
            raise Conflict("a rival was first")

    db.transact(run)
    assert len(ages) == 3
    assert len(set(ages)) == 1
    with db.transaction() as younger:
        assert younger._inner._begin > ages[0]
