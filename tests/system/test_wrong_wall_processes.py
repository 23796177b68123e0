"""C29 on real processes: the wall clock of one node is wrong, and nobody else notices.

Writers change two keys in every transaction, and a reader follows the feed. The wall of the node that leads
most jumps ahead, back and to and fro (``debug.wall``). Transactions and the feed go on, no clock is given out
that is too far ahead, the node loses its leaderships and is named in the status, and afterwards nothing is
left to wait out. The longest time without a transaction is printed (``pytest -rP``) for each.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import motet.aio
from motet.cli.database import fetch_status
from motet.client.cluster.database import AsyncClusterDatabase
from motet.client.keeper.errors import NoNode
from motet.client.keeper.sync import Keeper
from motet.client.keeper.sync import connect as connect_keeper
from motet.core.clock.hlc import Clock
from motet.core.metadata.paths import NODES
from motet.errors import MotetError
from motet.limits import clock_drift_ms_max
from motet.node.config import ROLES
from motet.node.registry import Entry
from motet.testing.local_cluster import LocalCluster

WALL = "wall"
ENVIRONMENT = {"MOTET_LOG__LEVEL": "warning", "MOTET_DEBUG__WALL": WALL}
STREAM = "orders"
SHARDS = 4
WRITERS = 3
patience_s = 30.0
"""Half of the shortest jump: whoever waits it out is found out."""
HOUR_MS = 3_600_000
wanted_s = 5.0


class Shop:
    """Writers, a reader, and what they have seen."""

    def __init__(self, db: AsyncClusterDatabase) -> None:
        self.db = db
        self.is_over = False
        #: the clocks of transactions that were acknowledged, and how far they were ahead of the time
        self.clocks: list[Clock] = []
        self.names: list[str] = []
        self.ahead_ms = -HOUR_MS
        #: the longest time without an acknowledged transaction, and when the last one was
        self.gap_s = 0.0
        self._acknowledged_s = time.monotonic()
        #: transaction -> how many of its changes were read
        self.read: dict[str, int] = {}
        self.last_read = Clock(0, 0)

    async def write(self, writer: int) -> None:
        number = 0
        while not self.is_over:
            number += 1
            try:
                async with self.db.transaction() as txn:
                    for key in (f"{writer}-a-{number}", f"{writer}-b-{number}"):
                        txn.change(STREAM, key, "insert", row={"n": number})
            except MotetError:
                await asyncio.sleep(0.02)  # a leadership has been handed on: the next one counts
                continue
            assert isinstance(txn.clock, Clock)
            self.measure()
            self._acknowledged_s = time.monotonic()
            self.clocks.append(txn.clock)
            self.names.append(txn.id)
            self.ahead_ms = max(self.ahead_ms, txn.clock.logical - time.time_ns() // 1_000_000)

    def measure(self) -> float:
        """The longest gap so far, with the one that lasts."""
        self.gap_s = max(self.gap_s, time.monotonic() - self._acknowledged_s)
        return self.gap_s

    async def gap_while(self, what: str, wall: Path, shift_ms: int, seconds: float) -> None:
        """Shift a wall for so long, then until transactions go on; say how long there were none."""
        self.gap_s = 0.0
        wall.write_text(str(shift_ms))  # noqa: ASYNC240 - a few bytes
        await asyncio.sleep(seconds)
        await self.go_on()
        print(f"longest gap, the wall {what}: {self.measure():.1f} s, wanted: under {wanted_s:g} s")

    async def follow(self) -> None:
        cursor = None
        while not self.is_over or self.last_read < max(self.clocks):
            try:
                page = await self.db.changes(STREAM, after=cursor, limit=500)
            except MotetError:
                await asyncio.sleep(0.02)
                continue
            cursor = page.cursor
            for change in page.changes:
                assert change.raw.clock >= self.last_read
                self.last_read = change.raw.clock
                self.read[change.transaction] = self.read.get(change.transaction, 0) + 1
            if not page.changes:
                await asyncio.sleep(0.02)

    async def go_on(self) -> None:
        """Wait until transactions that begin now are acknowledged, and read."""
        wanted = len(self.clocks) + WRITERS + 5
        await until(lambda: len(self.clocks) >= wanted, "transactions go on")
        high = max(self.clocks)
        await until(lambda: self.last_read >= high, "the feed goes on")


async def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + patience_s
    while not is_so():
        assert time.monotonic() < deadline, f"in {patience_s} s not true: {what}"
        await asyncio.sleep(0.02)


def machines(cluster: LocalCluster, node: int) -> dict[str, Any]:
    found: dict[str, Any] = fetch_status(cluster.endpoint(node))["machines"]
    return {name: machine["detail"] for name, machine in found.items()}


def incarnation(keeper: Keeper, node: int) -> int:
    """As the keeper's list of nodes has it; 0 if it is not there."""
    try:
        return msgspec.json.decode(keeper.get(f"{NODES}/n{node}")[0], type=Entry).incarnation
    except NoNode:
        return 0


def leads(cluster: LocalCluster, node: int) -> int:
    return int(machines(cluster, node)["data"]["leads"])


def drifting(cluster: LocalCluster) -> dict[str, int]:
    """The nodes that the active operator says are wrong."""
    found: dict[str, int] = {}
    for node in range(3):
        found |= machines(cluster, node)["operator"]["drifting"]
    return found


async def _wrong_wall(cluster: LocalCluster, folder: Path) -> None:
    async with await motet.aio.connect(cluster.endpoints) as db:
        assert isinstance(db, AsyncClusterDatabase)
        await db.create_stream(STREAM, shards=SHARDS, replicas=3)
        shop = Shop(db)
        work = [asyncio.create_task(shop.write(number)) for number in range(WRITERS)]
        work.append(asyncio.create_task(shop.follow()))
        await shop.go_on()
        victim = max(range(3), key=lambda node: leads(cluster, node))
        assert leads(cluster, victim) > 0
        wall = folder / f"node-{victim}" / WALL

        await shop.gap_while("60 s ahead for 2 s", wall, 60_000, 2)
        await shop.gap_while("an hour ahead", wall, HOUR_MS, 0)
        await until(lambda: f"n{victim}" in drifting(cluster), "the node is named")
        await until(lambda: leads(cluster, victim) == 0, "it leads nothing")
        await shop.go_on()
        others = [node for node in range(3) if node != victim]
        assert all(abs(machines(cluster, n)["data"]["wall_drift_ms"]) < 500 for n in others)
        assert list(drifting(cluster)) == [f"n{victim}"]

        with connect_keeper(",".join(map(cluster.zookeeper, others))) as keeper:
            life = incarnation(keeper, victim)
            await asyncio.to_thread(cluster.kill, victim)
            wall.write_text(str(-HOUR_MS))
            await asyncio.to_thread(cluster.restart, victim)
            await until(lambda: incarnation(keeper, victim) > life > 0, "the later process is so")
        await shop.gap_while("an hour behind", wall, -HOUR_MS, 0)
        for shift_ms in (2_000, -2_000, 2_000):
            wall.write_text(str(shift_ms))
            await shop.go_on()

        wall.write_text("0")
        await shop.go_on()
        shop.is_over = True
        async with asyncio.timeout(2 * patience_s):
            await asyncio.gather(*work)
        assert shop.ahead_ms <= clock_drift_ms_max
        assert all(shop.read[name] == 2 for name in shop.names), "each change, once"
        assert await db.clock() > max(shop.clocks)
        # an hour forward and back has left nothing behind: who is asked to close now does it now
        await asyncio.wait_for(db.visible_clock(STREAM, wait=True), patience_s)


@pytest.mark.timeout(300)
def test_one_wrong_wall_stops_nobody(tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path, roles=ROLES, environment=ENVIRONMENT) as cluster:
        asyncio.run(_wrong_wall(cluster, tmp_path))


async def _measured(cluster: LocalCluster, folder: Path) -> None:
    async with await motet.aio.connect(cluster.endpoints) as db:
        assert isinstance(db, AsyncClusterDatabase)
        await db.create_stream(STREAM, shards=SHARDS, replicas=3)
        shop = Shop(db)
        work = [asyncio.create_task(shop.write(number)) for number in range(WRITERS)]
        work.append(asyncio.create_task(shop.follow()))
        await shop.go_on()
        victim = max(range(3), key=lambda node: leads(cluster, node))
        wall = folder / f"node-{victim}" / WALL
        await shop.gap_while("right", wall, 0, 5)
        await shop.gap_while("60 s ahead for 2 s", wall, 60_000, 2)
        await shop.gap_while("right again", wall, 0, 15)
        await shop.gap_while("an hour ahead for 20 s", wall, HOUR_MS, 20)
        await shop.gap_while("right again", wall, 0, 15)
        await shop.gap_while("an hour behind for 20 s", wall, -HOUR_MS, 20)
        await shop.gap_while("right again", wall, 0, 15)
        shop.is_over = True
        async with asyncio.timeout(2 * patience_s):
            await asyncio.gather(*work)
        assert shop.ahead_ms <= clock_drift_ms_max


@pytest.mark.long
@pytest.mark.timeout(600)
def test_how_long_a_wrong_wall_stops_transactions(tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path, roles=ROLES, environment=ENVIRONMENT) as cluster:
        asyncio.run(_measured(cluster, tmp_path))
