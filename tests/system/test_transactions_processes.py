"""A bank on real processes: absolute balances in several shards, leaders killed; the total is never wrong.

Every transfer reads two balances and writes both. Whoever reads the feed sees the same total behind every
transaction, and rebuilds exactly the balances that are there in the end.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import motet.aio
from motet.client.cluster.database import AsyncClusterDatabase
from motet.client.transaction import AsyncTransaction
from motet.core.clock.hlc import Clock
from motet.errors import MotetError
from motet.node.config import ROLES
from motet.sim.dice import Dice
from motet.testing.local_cluster import LocalCluster

ACCOUNTS = [f"account-{number}" for number in range(12)]
OPENING = 100
WRITERS = 6
SHARDS = 4
patience_seconds = 60.0


class Bank:
    """Many writers on the same accounts, and what they were told."""

    def __init__(self, db: AsyncClusterDatabase) -> None:
        self.db = db
        #: transfers that were acknowledged
        self.done = 0
        self.is_over = False

    async def found(self) -> None:
        await self.db.create_stream("bank", shards=SHARDS, replicas=3)
        async with self.db.transaction() as txn:
            for name in ACCOUNTS:
                txn.change("bank", name, "insert", row={"balance": OPENING})

    async def until_done(self, more: int) -> None:
        """Wait until so many more transfers are acknowledged."""
        wanted = self.done + more
        async with asyncio.timeout(patience_seconds):
            while self.done < wanted:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def write(self, seed: int) -> None:
        dice = Dice(seed)
        while not self.is_over:
            source, target, *_ = dice.shuffled(ACCOUNTS)
            amount = dice.between(1, 9)

            async def move(
                txn: AsyncTransaction, source: str = source, target: str = target, n: int = amount
            ) -> None:
                await self._move(txn, source, target, n)

            try:
                await self.db.transact(move)
                self.done += 1
            except MotetError:
                continue  # a conflict too many, or a leader is gone: the total must hold all the same

    async def _move(self, txn: AsyncTransaction, source: str, target: str, amount: int) -> None:
        giver, taker = await txn.get("bank", source), await txn.get("bank", target)
        assert giver is not None
        assert taker is not None
        txn.change("bank", source, "update", row={"balance": giver.row["balance"] - amount})
        txn.change("bank", target, "update", row={"balance": taker.row["balance"] + amount})

    async def check(self) -> None:
        """Replay the feed, with pages of two sizes."""
        await self.db.visible_clock("bank", wait=True)
        replayed = [await self._replay(limit) for limit in (7, 1000)]
        assert replayed[0] == replayed[1]
        balances, transactions = replayed[0]
        for name in ACCOUNTS:
            async with self.db.transaction() as txn:
                found = await txn.get("bank", name)
            assert found is not None
            assert found.row["balance"] == balances[name.encode()]
        assert transactions > self.done, "and the one that opened the accounts"

    async def _replay(self, limit: int) -> tuple[dict[bytes, int], int]:
        balances: dict[bytes, int] = {}
        transactions, cursor, last = 0, None, Clock(0, 0)
        more = True
        while more:
            page = await self.db.changes("bank", after=cursor, limit=limit)
            cursor, more = page.cursor, page.more
            for change in page.changes:
                assert change.raw.clock >= last
                last = change.raw.clock
                balances[change.key] = change.row["balance"]
                if change.index == change.count - 1:
                    transactions += 1
                    assert sum(balances.values()) == OPENING * len(ACCOUNTS), change
        return balances, transactions


async def _leader(db: AsyncClusterDatabase, shard: int) -> int:
    async with asyncio.timeout(patience_seconds):
        while True:
            await db.router.refresh()
            leader = (await db.router.stream(db.stream("bank").name)).places[shard].leader
            if leader is not None:
                return int(leader.removeprefix("n"))
            await asyncio.sleep(0.02)


async def _storm(cluster: LocalCluster, kills: int) -> None:
    async with await motet.aio.connect(cluster.endpoints) as db:
        assert isinstance(db, AsyncClusterDatabase)
        bank = Bank(db)
        await bank.found()
        writers = [asyncio.create_task(bank.write(seed)) for seed in range(WRITERS)]
        for number in range(kills):
            await bank.until_done(20)
            victim = await _leader(db, number % SHARDS)
            await asyncio.to_thread(cluster.kill, victim)
            await bank.until_done(20)
            await asyncio.to_thread(cluster.restart, victim)
        bank.is_over = True
        await asyncio.gather(*writers)
        await bank.check()


@pytest.mark.timeout(300)
def test_a_bank_whose_leaders_are_killed_never_shows_a_wrong_total(tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path, roles=ROLES) as cluster:
        asyncio.run(_storm(cluster, kills=2))


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_a_bank_on_five_nodes_loses_leaders_twenty_times(tmp_path: Path) -> None:
    with LocalCluster(5, tmp_path, roles=ROLES) as cluster:
        asyncio.run(_storm(cluster, kills=20))
