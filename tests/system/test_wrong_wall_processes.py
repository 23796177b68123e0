"""C29 on real processes: the wall clock of one node is wrong, and nobody else notices.

Writers change two keys in every transaction, and a reader follows the feed. The wall of the node that leads
most jumps ahead, back and to and fro (``debug.wall``). Transactions and the feed go on, no clock is given out
that is too far ahead, the node loses its leaderships and is named in the status, and afterwards nothing is
left to wait out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import motet.aio
from motet.cli.node_status import fetch_status
from motet.client.cluster.database import AsyncClusterDatabase
from motet.core.clock.hlc import Clock
from motet.errors import MotetError
from motet.limits import clock_drift_ms_max
from motet.node.roles import ROLES
from motet.testing.dev_cluster import DevCluster

WALL = "wall"
ENVIRONMENT = {"MOTET_LOG__LEVEL": "warning", "MOTET_DEBUG__WALL": WALL}
STREAM = "orders"
SHARDS = 4
WRITERS = 3
patience_s = 30.0
"""Half of the shortest jump: whoever waits it out is found out."""
HOUR_MS = 3_600_000


class Shop:
    """Writers, a reader, and what they have seen."""

    def __init__(self, db: AsyncClusterDatabase) -> None:
        self.db = db
        self.is_over = False
        #: the clocks of transactions that were acknowledged, and how far they were ahead of the time
        self.clocks: list[Clock] = []
        self.names: list[str] = []
        self.ahead_ms = -HOUR_MS
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
            self.clocks.append(txn.clock)
            self.names.append(txn.id)
            self.ahead_ms = max(self.ahead_ms, txn.clock.logical - time.time_ns() // 1_000_000)

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


def machines(cluster: DevCluster, node: int) -> dict[str, Any]:
    found: dict[str, Any] = fetch_status(cluster.endpoint(node))["machines"]
    return {name: machine["detail"] for name, machine in found.items()}


def leads(cluster: DevCluster, node: int) -> int:
    return int(machines(cluster, node)["data"]["leads"])


def drifting(cluster: DevCluster) -> dict[str, int]:
    """The nodes that the active operator says are wrong."""
    found: dict[str, int] = {}
    for node in range(3):
        found |= machines(cluster, node)["operator"]["drifting"]
    return found


async def _wrong_wall(cluster: DevCluster, folder: Path) -> None:
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

        wall.write_text("60000")
        await asyncio.sleep(2)
        await shop.go_on()

        wall.write_text(str(HOUR_MS))
        await until(lambda: f"n{victim}" in drifting(cluster), "the node is named")
        await until(lambda: leads(cluster, victim) == 0, "it leads nothing")
        await shop.go_on()
        others = [node for node in range(3) if node != victim]
        assert all(abs(machines(cluster, n)["data"]["wall_drift_ms"]) < 500 for n in others)
        assert list(drifting(cluster)) == [f"n{victim}"]

        await asyncio.to_thread(cluster.kill, victim)
        await asyncio.to_thread(cluster.restart, victim)
        wall.write_text(str(-HOUR_MS))
        await shop.go_on()
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
    with DevCluster(3, tmp_path, None, roles=ROLES, environment=ENVIRONMENT) as cluster:
        asyncio.run(_wrong_wall(cluster, tmp_path))
