"""Tables on real processes that are killed under load: what was acknowledged is there once, in every replica.

The longest time without an acknowledged insert is printed (``pytest -rP``) beside what we want it to be; no
test fails for a machine that is busy.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.system.table_cluster import eventually
from tests.system.table_faults import ALL_FAULTS, ENVIRONMENT, KILLS, NODES, STALLS, Faults
from tests.system.table_ledger import sums_of
from tests.system.table_load import SHARDS, TABLES, WRITTEN, Load, check_pairs, check_steps, sums_in

import motet.aio
from motet.aio import Database
from motet.client.keeper.client import KeeperClient
from motet.client.part_client import PartClient
from motet.client.publication import TableSnapshot
from motet.core.mergetree.paths import ShardPaths
from motet.errors import MotetError
from motet.ids import NodeId, TableId
from motet.node.config import ROLES
from motet.real.part_files import PartKey, PartState, state_folder
from motet.testing.local_cluster import LocalCluster
from motet.verify.history.sets import check_set

gap_wanted_seconds = 6.0
"""A session lasts 4 s, and a new primary of the keeper is there well before."""


def under(folder: Path, seconds: float, kinds: tuple[str, ...], seed: int) -> None:
    """Load and faults for so long; then everything is compared with what was told."""

    async def main() -> None:
        async with (
            await motet.aio.connect(cluster.endpoints) as db,
            await motet.aio.connect(cluster.endpoints) as other,
        ):
            on_purpose = frozenset({"DISK_FULL"} if "fill_disk" in kinds else ())
            load = Load(db, other, seed, on_purpose)
            await load.create()
            faults = Faults(cluster, load, seed)
            await load.run(lambda: faults.run(seconds, kinds))
            report(load, faults)
            await check_told(db, load)
            await until_repaired(cluster, faults)
            await check_replicas(db, cluster)

    with LocalCluster(NODES, folder, roles=ROLES, environment=ENVIRONMENT) as cluster:
        asyncio.run(main())


def report(load: Load, faults: Faults) -> None:
    done = sum(change.outcome == "done" for change in load.ledger.changes)
    unknown = sum(change.outcome == "unknown" for change in load.ledger.changes)
    refused = sum(change.outcome == "refused" for change in load.ledger.changes)
    print(f"{faults.kills} kills; faults: {dict(faults.counts)}")
    print(
        f"{done} changes acknowledged, {unknown} unknown, {refused} refused: {dict(load.ledger.refusals)}"
    )
    print(f"{len(load.ledger.reads)} reads of tables")
    for gap, at in sorted(load.gaps(), reverse=True)[:5]:
        print(f"gap of {gap:.1f} s, {faults.cause_of(at)}; wanted: under {gap_wanted_seconds:g} s")
    for took, at, block in sorted(load.inserts, reverse=True)[:5]:
        print(f"insert {block} took {took:.1f} s, {faults.cause_of(at)}")


async def check_told(db: Database, load: Load) -> None:
    """The last version has what was acknowledged, and every version that was read had it."""
    ledger = load.ledger
    version = (await db.snapshot(*TABLES)).version
    assert version.zxid >= ledger.newest
    found = {}
    for table in WRITTEN:
        found[table] = sums_in(await db.table(table).select(["block", "value"], version))
        ledger.read(table, version, found[table])
        asked = f'select block, count(*) as n, sum(value) as total from "{table}" group by block'
        told = (await db.sql(asked, at=version)).to_pylist()
        assert {row["block"]: (row["n"], int(row["total"])) for row in told} == found[table]
    check_steps(found["left"], await db.table("right").select(["row", "value"], version))
    check_pairs(found["wide"], found["blocks"])
    assert all(found["wide"][block] == sums_of(block) for block in found["wide"])
    ledger.check()
    verdict = check_set(load.recorder.history())
    assert verdict, str(verdict)


async def until_repaired(cluster: LocalCluster, faults: Faults) -> None:
    """A damaged file is found when its bytes are asked for; then it is another one, or gone."""
    parts = PartClient()

    def look(node: int, file: Path) -> bool:
        if not file.exists():
            return True
        table, shard, _, part = file.parent.relative_to(file.parents[4]).parts
        key, size = PartKey.parse(table, shard, part), file.stat().st_size
        with suppress(MotetError):
            parts.read(cluster.endpoint(node), key, 0, size, size_bytes=size)
            return True
        return False

    async def is_repaired(node: int, file: Path) -> bool:
        return await asyncio.to_thread(look, node, file)

    for node, file in faults.spoiled:
        await eventually(partial(is_repaired, node, file))
    parts.close()


async def check_replicas(db: Database, cluster: LocalCluster) -> None:
    """Nothing is queued, and all replicas have the same parts, byte by byte."""

    async def is_quiet() -> bool:
        replicas = (await db.sql("select phase, queue from system.replicas")).to_pylist()
        queued = (await db.sql("select count(*) as n from system.replication_queue")).to_pylist()
        is_active = [row["phase"] == "active" and not row["queue"] for row in replicas]
        return (
            len(is_active) == NODES * SHARDS * len(TABLES)
            and all(is_active)
            and queued == [{"n": 0}]
        )

    await eventually(is_quiet)
    for table in TABLES:
        await db.table(table).sync()
    snapshot = await db.snapshot(*TABLES)
    async with KeeperClient(cluster.zookeeper(0)) as keeper:
        for shown in snapshot.tables.values():
            for shard in range(SHARDS):
                await check_shard(keeper, cluster, shown, shard)


async def check_shard(
    keeper: KeeperClient, cluster: LocalCluster, shown: TableSnapshot, shard: int
) -> None:
    paths = ShardPaths(shown.definition.id, shard)
    assert await keeper.children(paths.statuses) == [], "no quorum is open"
    seen = {part.id for part in shown.parts if part.shard == shard}
    known: dict[str, Any] = {}
    for node in range(NODES):
        where = f"{shown.name}/{shard} on n{node}"
        replica = paths.replica(NodeId(f"n{node}"))
        await eventually(partial(has_no_children, keeper, replica.queue))
        parts = parts_of(cluster, node, shown.definition.id, shard)
        # Of what was dropped some replicas have files that others have not.
        registered = set(await keeper.children(replica.parts))
        assert seen <= registered <= set(parts), where
        for part, files in parts.items():
            assert known.setdefault(part, files) == files, f"{part} of {where}"


async def has_no_children(keeper: KeeperClient, path: str) -> bool:
    return not await keeper.children(path)


def parts_of(cluster: LocalCluster, node: int, table: TableId, shard: int) -> dict[str, Any]:
    """The two files of each part that a replica has stored."""
    folder = state_folder(cluster.folder / f"node-{node}" / "parts", table, shard, PartState.STORED)
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return {
        part.name: {file.name: file.read_bytes() for file in sorted(part.iterdir())}
        for part in found
    }


@pytest.mark.timeout(300)
def test_tables_while_nodes_are_killed_and_stalled(tmp_path: Path) -> None:
    under(tmp_path, 14, (*KILLS, "stall"), seed=1)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [2])
def test_tables_while_any_node_is_killed_for_two_minutes(tmp_path: Path, seed: int) -> None:
    under(tmp_path, 120, (*KILLS, "kill", "kill_all"), seed)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_tables_while_everything_happens_to_nodes(tmp_path: Path) -> None:
    seed = int(os.environ.get("MOTET_TEST_SEED", "3"))
    under(tmp_path, 120, (*ALL_FAULTS, *STALLS), seed)
