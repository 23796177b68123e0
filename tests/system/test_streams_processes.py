"""Streams of real processes under load: killed, stopped, moved about; nothing acknowledged is lost.

Each storm ends in the same questions, for every shard: is each acknowledged record there, at the place that
was named; is none there twice; have those who followed the shard seen the same, in the same order; and does
every replica of its ensemble have it. How long a shard could not be written to after the death of its leader
is printed (``pytest -rP``); no test fails for a machine that is busy.

That leaders and operators die while ensembles change is in the long tier: the demo of the log tells the same
tale (test_demo.py).
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import motet.aio
from motet.client.cluster.database import AsyncClusterDatabase
from motet.client.cluster.stream import ClusterStream
from motet.core.clock.hlc import Clock
from motet.core.streams.entries import decode_records
from motet.core.streams.messages import ReadRecords, RecordsRead, Source
from motet.demos.log import Moves
from motet.demos.log_load import Load
from motet.errors import MotetError
from motet.format.record_block import decode_block
from motet.ids import NodeId, Offset, RequestId
from motet.node.config import ROLES
from motet.sim.dice import Dice
from motet.testing.local_cluster import LocalCluster

QUIET = {"MOTET_LOG__LEVEL": "warning"}
NODES = 5
STREAM = "orders"
patience_s = 90.0
look_every_s = 0.05
after_death_s = 15.0
"""So long after a death an outage of the shards it led is looked for."""


class Storm:
    """A cluster under load, and what can befall it."""

    def __init__(self, cluster: LocalCluster, load: Load, moves: Moves) -> None:
        self.cluster, self.load, self.moves = cluster, load, moves
        #: when a leader died, and the shards it led
        self.deaths: list[tuple[int, list[int]]] = []

    async def kill(self, victim: int) -> None:
        """kill -9; it is started again when the others have gone on without it."""
        led = [n for n, meta in enumerate(await self.moves.shards()) if meta.leader == f"n{victim}"]
        await asyncio.to_thread(self.cluster.kill, victim)
        if led:
            self.deaths.append((time.monotonic_ns(), led))
        await self.load.until_acknowledged(10, patience_s)
        await asyncio.to_thread(self.cluster.restart, victim)

    async def kill_leader(self, shard: int) -> None:
        await self.kill(await self.leader(shard))

    async def kill_operator(self) -> None:
        await self.kill(await self.operator())

    async def stop_and_continue(self, victim: int) -> None:
        await asyncio.to_thread(self.cluster.stop, victim)
        try:
            await self.load.until_acknowledged(10, patience_s)
        finally:
            await asyncio.to_thread(self.cluster.cont, victim)
        await self.load.until_acknowledged(5, patience_s)

    async def leader(self, shard: int) -> int:
        async with asyncio.timeout(patience_s):
            while (leader := (await self.moves.shards())[shard].leader) is None:  # noqa: ASYNC110
                await asyncio.sleep(look_every_s)
            return int(leader.removeprefix("n"))

    async def operator(self) -> int:
        async with asyncio.timeout(patience_s):
            while not (active := await asyncio.to_thread(self.cluster.active_operators)):  # noqa: ASYNC110
                await asyncio.sleep(look_every_s)
            return active[0]

    def outages_ms(self) -> list[int]:
        """Of each shard whose leader died, how long nothing was acknowledged then."""
        return [
            self.load.tallies[shard].outage_ms(at, at + int(after_death_s * 1e9))
            for at, shards in self.deaths
            for shard in shards
        ]


@asynccontextmanager
async def connected(cluster: LocalCluster) -> AsyncIterator[AsyncClusterDatabase]:
    async with await motet.aio.connect(cluster.endpoints) as db:
        assert isinstance(db, AsyncClusterDatabase)
        yield db


def storm(folder: Path, shards: int, tale: Callable[[Storm], Awaitable[None]]) -> None:
    """Tell a tale to a cluster under load, and judge it."""
    with LocalCluster(NODES, folder, roles=ROLES, environment=QUIET) as cluster:
        asyncio.run(_storm(cluster, shards, tale))


async def _storm(
    cluster: LocalCluster, shards: int, tale: Callable[[Storm], Awaitable[None]]
) -> None:
    async with connected(cluster) as writers, connected(cluster) as readers:
        stream = await writers.create_stream(STREAM, shards=shards)
        load, moves = Load(writers, readers, STREAM, shards), Moves(writers, STREAM)
        told = Storm(cluster, load, moves)
        working = asyncio.create_task(load.run())
        try:
            await load.until_acknowledged(10, patience_s)
            await tale(told)
        finally:
            load.stop()
            async with asyncio.timeout(patience_s):
                await working
        findings = await load.findings(stream)
        print(findings)
        outages = told.outages_ms()
        print("moves", *moves.done, f"refusals {moves.refusals}", sep="\n  ")
        print(f"leaders killed {len(told.deaths)}, outages in ms {sorted(outages)}")
        if outages:
            print(f"median outage in ms: {statistics.median(outages):.0f}")
        assert findings.is_good, findings
        await replicas_agree(writers, moves, shards)


async def replicas_agree(db: AsyncClusterDatabase, moves: Moves, shards: int) -> None:
    """Every replica of each ensemble has what its leader has."""
    stream = db.stream(STREAM)
    assert isinstance(stream, ClusterStream)
    metas = await moves.shards()
    for number in range(shards):
        whole = [key async for key in _keys_of(stream, db, number, None)]
        for node in metas[number].ensemble:
            async with asyncio.timeout(patience_s):
                while [k async for k in _keys_of(stream, db, number, node)] != whole:  # noqa: ASYNC110
                    await asyncio.sleep(look_every_s)


async def _keys_of(
    stream: ClusterStream, db: AsyncClusterDatabase, shard: int, node: NodeId | None
) -> AsyncIterator[bytes]:
    """All keys of a shard, by its leader or as one node has them."""
    after = Offset(-1)
    place = (await db.router.stream(stream.name)).places[shard]
    while True:

        def make(n: RequestId, clock: Clock, after: Offset = after) -> ReadRecords:
            source: Source = "leader" if node is None else "replica"
            return ReadRecords(n, clock, place.shard, after, 10_000, 1 << 20, source)

        if node is None:
            found = await db.router.ask_leader(
                place.shard, make, RecordsRead, may_repeat=True, seconds=10
            )
        else:
            found = await db.router.ask_node(node, make, RecordsRead)
        for entry in found.entries:
            records = decode_records(entry.body)
            keys = [key for chunk in records.chunks for key in decode_block(chunk.block)[0]]
            for key in keys[after + 1 - records.first_offset :]:
                yield key
            after = Offset(records.first_offset + records.count - 1)
        if not found.entries:
            return


async def resize_and_swap(moves: Moves, shards: Sequence[int]) -> None:
    """Three replicas become five and three again, and one of them is replaced."""
    for shard in shards:
        for replicas in (4, 5, 4, 3):
            await moves.resize(shard, replicas)
        await moves.swap(shard)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_leaders_and_operators_die_while_ensembles_change(tmp_path: Path) -> None:
    async def tale(storm: Storm) -> None:
        async with asyncio.TaskGroup() as meanwhile:
            meanwhile.create_task(resize_and_swap(storm.moves, [0]))
            await storm.kill_leader(0)
            await storm.kill_operator()
            await storm.stop_and_continue(await storm.leader(1))
        assert len(storm.moves.done) == 5

    storm(tmp_path, 8, tale)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", [1, 2])
def test_two_minutes_of_deaths_at_random(tmp_path: Path, seed: int) -> None:
    async def tale(storm: Storm) -> None:
        dice = Dice(seed, "streams")
        until = time.monotonic() + 120
        async with asyncio.TaskGroup() as meanwhile:
            meanwhile.create_task(resize_and_swap(storm.moves, [0, 3, 5]))
            while time.monotonic() < until:
                kind = dice.between(0, 9)
                if kind < 5:
                    await storm.kill_leader(dice.between(0, 7))
                elif kind < 7:
                    await storm.kill_operator()
                elif kind < 8:
                    await storm.kill(dice.between(0, NODES - 1))
                else:
                    await storm.stop_and_continue(dice.between(0, NODES - 1))
        assert len(storm.moves.done) == 15

    storm(tmp_path, 8, tale)


@pytest.mark.timeout(300)
def test_all_nodes_die_at_once(tmp_path: Path) -> None:
    async def tale(storm: Storm) -> None:
        for i in range(NODES):
            await asyncio.to_thread(storm.cluster.kill, i)
        for i in range(NODES):
            await asyncio.to_thread(storm.cluster.restart, i, wait=False)
        await storm.load.until_acknowledged(10, patience_s)

    storm(tmp_path, 2, tale)


@pytest.mark.timeout(300)
def test_data_nodes_go_on_without_a_keeper_and_an_operator(tmp_path: Path) -> None:
    """They never ask the keeper anything; only nobody is there to elect another leader."""
    data, keepers = range(3), range(3, 6)
    of_keepers = dict.fromkeys(keepers, ("keeper", "operator"))
    cluster = LocalCluster(6, tmp_path, roles=["data"], other_roles=of_keepers, environment=QUIET)
    with cluster:
        asyncio.run(_without_a_keeper(cluster, data, keepers))


async def _without_a_keeper(cluster: LocalCluster, data: range, keepers: range) -> None:
    async with connected(cluster) as writers, connected(cluster) as readers:
        stream = await writers.create_stream(STREAM, shards=2)
        load = Load(writers, readers, STREAM, 2)
        working = asyncio.create_task(load.run())
        try:
            await load.until_acknowledged(10, patience_s)
            for i in keepers:
                await asyncio.to_thread(cluster.kill, i)
            await load.until_acknowledged(50, patience_s)
            # A follower dies and comes back: leaders bring it up to date, nobody else is needed.
            leaders = {str(row["leader"]) for row in await stream.stats()}
            follower = next(i for i in data if f"n{i}" not in leaders)
            await asyncio.to_thread(cluster.kill, follower)
            await load.until_acknowledged(20, patience_s)
            await asyncio.to_thread(cluster.restart, follower)
            await load.until_acknowledged(20, patience_s)
        finally:
            load.stop()
            async with asyncio.timeout(patience_s):
                await working
        findings = await load.findings(stream)
        assert findings.is_good, findings
        # Somebody who comes now finds his way, too: data nodes have the map, unless they were started anew.
        other = next(i for i in data if i != follower)
        async with await motet.aio.connect(cluster.endpoint(other)) as newcomer:
            position = await newcomer.stream(STREAM).append("late", b"and heard")
            assert position.offset >= 0
        with pytest.raises(MotetError):
            async with asyncio.timeout(patience_s):
                await writers.describe_shards(STREAM)
