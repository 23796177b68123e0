"""Replicated tables on a cluster of real processes: what becomes of parts, whatever happens to nodes."""

from __future__ import annotations

import asyncio
import resource
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.node.made_parts import SHARD, TABLE, made_part, random_bytes, spoil
from tests.system.table_cluster import TableCluster, eventually

from motet.errors import BadRecord, DiskFull, ObjectError
from motet.node.config import ROLES
from motet.real.part_files import PartState
from motet.testing.local_cluster import LocalCluster

pytestmark = pytest.mark.long

NODES = 3
SMALL = [made_part(n, random_bytes(2_000, n)) for n in range(1, 6)]
LARGE = made_part(0x100, random_bytes(20_000_000))


def with_table(folder: Path, check: Callable[[TableCluster], Awaitable[None]]) -> None:
    async def main() -> None:
        table = TableCluster(cluster, TABLE, SHARD, NODES)
        await table.create()
        await check(table)
        table.parts.close()

    with LocalCluster(NODES, folder, roles=ROLES) as cluster:
        asyncio.run(main())


def test_every_replica_has_what_was_inserted(tmp_path: Path) -> None:
    async def check(table: TableCluster) -> None:
        await table.insert(0, SMALL[0], quorum=1)
        await table.insert(1, SMALL[1], quorum=2)
        await table.insert(2, LARGE, quorum=3)
        for i in range(NODES):
            await table.until_here(i, SMALL[0], SMALL[1], LARGE)
            assert await table.read(i, LARGE) == LARGE.data
            assert table.folder(i, LARGE.key).is_dir()
            assert not list(table.folder(i, LARGE.key, PartState.ARRIVED).parent.glob("*"))

    with_table(tmp_path, check)


def test_a_node_that_was_killed_gets_what_it_missed(tmp_path: Path) -> None:
    async def check(table: TableCluster) -> None:
        await table.insert(0, SMALL[0], quorum=3)
        table.cluster.kill(2)
        await table.insert(0, SMALL[1], quorum=1)
        await table.insert(1, LARGE, quorum=2)
        table.cluster.restart(2)
        await table.until_here(2, SMALL[0], SMALL[1], LARGE)
        assert await table.read(2, LARGE) == LARGE.data
        await table.insert(2, SMALL[2], quorum=3)

    with_table(tmp_path, check)


def test_a_part_that_is_deleted_by_hand_is_fetched_again(tmp_path: Path) -> None:
    async def check(table: TableCluster) -> None:
        await table.insert(0, LARGE, quorum=3)
        table.cluster.terminate(1)
        shutil.rmtree(table.folder(1, LARGE.key))
        table.cluster.restart(1)
        await table.until_here(1, LARGE)
        assert await table.read(1, LARGE) == LARGE.data

    with_table(tmp_path, check)


def test_a_part_that_is_damaged_by_hand_is_put_aside_and_fetched_again(tmp_path: Path) -> None:
    async def check(table: TableCluster) -> None:
        await table.insert(0, LARGE, quorum=3)
        await table.until_here(1, LARGE)
        spoil(table.folder(1, LARGE.key) / "part.parquet")
        with pytest.raises(BadRecord, match="is damaged"):
            await table.read(1, LARGE)

        async def is_whole() -> bool:
            return await table.read(1, LARGE) == LARGE.data

        await eventually(is_whole)
        await table.until_here(1, LARGE)
        aside = table.folder(1, LARGE.key, PartState.DETACHED)
        assert (aside / "part.parquet").read_bytes() != LARGE.data

    with_table(tmp_path, check)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="needs prlimit")
def test_a_full_disk_is_told_and_others_go_on(tmp_path: Path) -> None:
    async def check(table: TableCluster) -> None:
        await table.insert(0, SMALL[0], quorum=3)
        pid = int((tmp_path / "node-1" / "pid").read_text())
        # The limit on the size of files stands for a full disk.
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (19_000_000, resource.RLIM_INFINITY))
        with pytest.raises(DiskFull):
            await table.insert(1, LARGE, quorum=2)
        await table.insert(0, LARGE, quorum=2)

        async def says_why() -> bool:
            queued = await asyncio.to_thread(table.status, 1)
            return bool(queued["queue"] == 1 and queued["oldest_queued"] >= 0)

        await eventually(says_why)
        with pytest.raises(ObjectError):
            await table.read(1, LARGE)
        assert await table.read(2, LARGE) == LARGE.data
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
        await table.until_here(1, SMALL[0], LARGE)

    with_table(tmp_path, check)
