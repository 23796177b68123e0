"""A stream whose data most nodes have found damaged: it says so, others go on, and it can be deleted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import motet.aio
from motet.client.database import AsyncDatabase
from motet.errors import MotetError
from motet.errors.shards import ShardLost
from motet.node.config import ROLES
from motet.testing.local_cluster import LocalCluster

patience_s = 90.0


def damage(folder: Path) -> None:
    """Flip a byte early in every log of a node that has data, so that what follows it proves it damaged."""
    for file in folder.rglob("*-log-1"):
        data = bytearray(file.read_bytes())
        data[100] ^= 0xFF
        file.write_bytes(bytes(data))


async def refusal(db: AsyncDatabase) -> MotetError:
    """Why nothing can be appended: at first that there is no leader, which is waited for."""
    with pytest.raises(MotetError) as refused:
        await db.stream("orders").append(key="o", value=b"x")
    return refused.value


async def _story(cluster: LocalCluster, folder: Path) -> None:
    async with await motet.aio.connect(cluster.endpoints) as db:
        await db.create_stream("orders", shards=1, replicas=3)
        for number in range(20):
            await db.stream("orders").append(key=f"o-{number}", value=b"x")
        for node in (0, 1):
            await asyncio.to_thread(cluster.kill, node)
        for node in (0, 1):
            damage(folder / f"node-{node}")
        for node in (0, 1):
            await asyncio.to_thread(cluster.restart, node, wait=False)
        async with asyncio.timeout(patience_s):
            while not isinstance(error := await refusal(db), ShardLost):
                pass
        assert "n0 and n1 lost or damaged their data of orders/0" in error.what
        await db.create_stream("payments", shards=1, replicas=3)
        await db.stream("payments").append(key="p", value=b"x")
        await db.delete_stream("orders")
        await db.create_stream("orders", shards=1, replicas=3)
        position = await db.stream("orders").append(key="o", value=b"x")
        assert position.offset == 0


def test_a_stream_whose_majority_is_damaged_says_so_and_can_be_deleted(tmp_path: Path) -> None:
    with LocalCluster(3, tmp_path, roles=ROLES) as cluster:
        asyncio.run(_story(cluster, tmp_path))
