"""Keys of a cluster that are pruned, on real processes: their files go, and their latest changes stay.

The stream is filled until its log has more than one file, then all of it is pruned. When no node has the
first file any more, and again when the leader has been killed, every key is asked for.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

import motet.aio
from motet.client.change import Change
from motet.client.cluster.database import AsyncClusterDatabase
from motet.client.transaction import AsyncTransaction
from motet.errors import Conflict
from motet.limits import MIB, shard_segment_bytes
from motet.node.config import ROLES
from motet.testing.local_cluster import LocalCluster

STREAM = "orders"
NODES = 3
KEYS = ("once", "gone", "raw", "k-0", "k-7")
row_bytes, rows_at_once = 50_000, 10
patience_s = 120.0


def first_files(folder: Path) -> list[Path]:
    """The first file of the log, of each replica that has it."""
    return [*folder.rglob("*-log-1")]


async def fill(db: AsyncClusterDatabase) -> None:
    """More than a file, over and over the same few keys."""
    row = {"text": "x" * row_bytes}
    for _ in range(shard_segment_bytes * 3 // 2 // (row_bytes * rows_at_once)):
        async with db.transaction() as txn:
            for number in range(rows_at_once):
                txn.change(STREAM, f"k-{number}", "update", row=row)


async def latest(db: AsyncClusterDatabase) -> dict[str, object]:
    """The latest changes of all keys, as a transaction sees them, with all that they say."""
    async with db.transaction() as txn:
        found = {key: await txn.get(STREAM, key) for key in KEYS}
        never = await txn.get(STREAM, "never")
    assert never is None
    assert all(isinstance(change, Change) for change in found.values())
    return {key: change.raw for key, change in found.items() if isinstance(change, Change)}


async def leader_of(db: AsyncClusterDatabase) -> int:
    await db.router.refresh()
    leader = (await db.router.stream(db.stream(STREAM).name)).places[0].leader
    assert leader is not None
    return int(leader.removeprefix("n"))


async def prune(db: AsyncClusterDatabase, folder: Path) -> None:
    """Prune all there is, and wait until no replica has the file that it began with."""
    assert len(first_files(folder)) == NODES
    await db.prune(STREAM, older_than=timedelta(0))
    async with asyncio.timeout(patience_s):
        while first_files(folder):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def _story(cluster: LocalCluster, folder: Path) -> None:
    async with await motet.aio.connect(cluster.endpoints) as db:
        assert isinstance(db, AsyncClusterDatabase)
        await db.create_stream(STREAM, shards=1, replicas=NODES)
        async with db.transaction() as txn:
            txn.change(STREAM, "once", "insert", row={"n": 1})
            txn.change(STREAM, "gone", "delete", before={"n": 0})
        await db.stream(STREAM).append(key="raw", value=b"value")
        await fill(db)
        before = await latest(db)

        await prune(db, folder)
        assert await latest(db) == before
        await db.visible_clock(STREAM, wait=True)
        page = await db.changes(STREAM)
        shown = {change.key for change in page.changes}
        assert not shown & {b"once", b"gone", b"raw"}, "it is history"

        victim = await leader_of(db)
        await asyncio.to_thread(cluster.kill, victim)
        assert await latest(db) == before
        await asyncio.to_thread(cluster.restart, victim)
        assert await latest(db) == before

        await change_what_was_read(db)


async def change_what_was_read(db: AsyncClusterDatabase) -> None:
    """Of two that have read a carried change and write it, one is right."""
    slow = db.transaction()
    slow.begin()
    await raised(slow)
    async with db.transaction() as fast:
        await raised(fast)
    with pytest.raises(Conflict):
        await slow.commit()
    async with db.transaction() as txn:
        found = await txn.get(STREAM, "once")
    assert found is not None
    assert found.row["n"] == 2


async def raised(txn: AsyncTransaction) -> None:
    read = await txn.get(STREAM, "once")
    assert read is not None
    txn.change(STREAM, "once", "update", row={"n": read.row["n"] + 1})


@pytest.mark.timeout(300)
def test_a_key_outlives_its_file_and_its_leader(tmp_path: Path) -> None:
    assert shard_segment_bytes <= 16 * MIB, "it is to be filled in a moment"
    with LocalCluster(NODES, tmp_path, roles=ROLES) as cluster:
        asyncio.run(_story(cluster, tmp_path))
