"""A keeper of real processes under load: killed, stopped, cut off, started; nothing acknowledged is lost.

Each storm ends in the same questions: is every acknowledged entry there, through every node; was none done
twice; does one order explain all answers; has every client still the session it began with, and that its
ephemeral node. A write without an answer is a kind of its own: an order may have it or not.

Five nodes of which two are killed, one with a rotten log and a rotten block, and another is cut off: that is
the demo of consensus (test_demo.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from tests.system.keeper_load import KazooLoad
from tests.system.raw_client import RawClient

from motet.client.keeper.client import OPEN, KeeperClient
from motet.client.keeper.watches import Watch
from motet.core.vsr.context import WAL
from motet.demos.consensus_load import PATIENCE_SECONDS
from motet.format.zookeeper.messages import Create, CreateFlags, ErrorCode, EventType
from motet.node.replica_report import look_beside, report_wal
from motet.sim.dice import Dice
from motet.testing.cluster_status import wait_for
from motet.testing.local_cluster import LocalCluster
from motet.testing.replica_damage import rot_prepares

SMALL = {
    "MOTET_KEEPER__LOG_SLOTS": "512",
    "MOTET_KEEPER__CHECKPOINT_OPS": "200",
}
NODES = range(3)
SHORTEST_MS = 4_000


class Storm:
    """A cluster under load, and what can befall it."""

    def __init__(self, cluster: LocalCluster, load: KazooLoad) -> None:
        self.cluster, self.load = cluster, load
        self.nodes = range(len(cluster))

    async def primary(self) -> int:
        return await asyncio.to_thread(self.cluster.keeper_primary, wait_s=PATIENCE_SECONDS)

    async def backup(self) -> int:
        return (await self.primary() + 1) % len(self.nodes)

    async def kill_and_restart(self, *victims: int) -> None:
        for i in victims:
            await asyncio.to_thread(self.cluster.kill, i)
        await self.load.until_acknowledged(50)
        for i in victims:
            await asyncio.to_thread(self.cluster.restart, i, wait=False)
        await self._healed()

    async def kill_all(self) -> None:
        for i in self.nodes:
            await asyncio.to_thread(self.cluster.kill, i)
        for i in self.nodes:
            await asyncio.to_thread(self.cluster.restart, i, wait=False)
        await self._healed()

    async def stop_and_cont(self, i: int) -> None:
        await asyncio.to_thread(self.cluster.stop, i)
        await self.load.until_all_are_answered()  # by another node
        await asyncio.to_thread(self.cluster.cont, i)
        await self._healed()

    async def partition(self, i: int, cut: Callable[[int], None]) -> None:
        """Cut a node off from the others, not from its clients, and let it come back."""
        await asyncio.to_thread(cut, i)
        await self.load.until_all_are_answered()  # by a node that has others
        await asyncio.to_thread(self.cluster.links.heal, i)
        await self._healed()

    async def rot(self, i: int) -> None:
        """Kill it, and have some prepares of its log rot while it is down."""
        await asyncio.to_thread(self.cluster.kill, i)
        data = self.cluster.keeper_folder(i)
        rotten = rot_prepares(data, 4)
        faulty = report_wal((data / WAL).read_bytes(), look_beside(data)).summary["faulty"]
        assert isinstance(faulty, int)
        assert faulty >= len(rotten)
        await asyncio.to_thread(self.cluster.restart, i, wait=False)
        await self._healed()

    async def _healed(self) -> None:
        whole = self.cluster.is_keeper_whole
        await asyncio.to_thread(wait_for, whole, "all are whole again", PATIENCE_SECONDS)
        await self.load.until_acknowledged(50)


def storm(folder: Path, tale: Callable[[Storm], Awaitable[None]], nodes: int = 3) -> None:
    """Tell a tale to a cluster under load, and judge it."""
    with LocalCluster(
        nodes, folder, roles=["keeper"], environment=SMALL, proxied=range(nodes)
    ) as cluster:
        asyncio.run(_storm(cluster, tale))


async def _storm(cluster: LocalCluster, tale: Callable[[Storm], Awaitable[None]]) -> None:
    load = KazooLoad([cluster.zookeeper(i) for i in range(len(cluster))])
    try:
        await load.start()
        sessions = [client.session for client in load.clients]
        await _create_ephemerals(load)
        await load.until_acknowledged(100)
        await tale(Storm(cluster, load))
        await load.finish()
        await _check_sessions(load, sessions)
        await _check_entries(cluster, load)
    finally:
        await load.close()
    ledger = load.ledger
    print(f"acknowledged {ledger.acknowledged}, unknown {ledger.unknown}, failed {ledger.failed}")
    assert (ledger.doubled, ledger.barriers_stale) == ([], [])
    verdict = ledger.verdict()
    assert verdict.status == "ok", verdict


async def _create_ephemerals(load: KazooLoad) -> None:
    for number, client in enumerate(load.clients):
        await client.create(f"/ours-{number}", ephemeral=True)
    for kazoo in load.kazoos:
        await asyncio.to_thread(kazoo.client.create, f"/{kazoo.name}", ephemeral=True)


async def _check_sessions(load: KazooLoad, sessions: list[int]) -> None:
    """Everybody has the session he began with, and its ephemeral node."""
    assert [client.session for client in load.clients] == sessions
    assert [kazoo.client.client_id[0] for kazoo in load.kazoos] == [k.session for k in load.kazoos]
    looker = load.clients[0]
    for number, session in enumerate(sessions):
        stat = await looker.exists(f"/ours-{number}")
        assert stat is not None
        assert stat.ephemeral_owner == session
    for kazoo in load.kazoos:
        stat = await looker.exists(f"/{kazoo.name}")
        assert stat is not None
        assert stat.ephemeral_owner == kazoo.session


async def _check_entries(cluster: LocalCluster, load: KazooLoad) -> None:
    """Every acknowledged entry is there, through every node."""
    for i in range(len(cluster)):
        async with KeeperClient(cluster.zookeeper(i), seconds=PATIENCE_SECONDS) as client:
            assert await load.lost(client) == [], f"through node {i}"


@pytest.mark.timeout(600)
def test_nodes_are_killed_again_and_again(tmp_path: Path) -> None:
    async def tale(storm: Storm) -> None:
        await storm.kill_and_restart(await storm.primary())
        await storm.kill_and_restart(await storm.backup())
        await storm.kill_all()

    storm(tmp_path, tale)


@pytest.mark.timeout(600)
def test_nodes_stop_and_go_on(tmp_path: Path) -> None:
    async def tale(storm: Storm) -> None:
        await storm.stop_and_cont(await storm.primary())
        await storm.stop_and_cont(await storm.backup())

    storm(tmp_path, tale)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_nodes_are_cut_off_and_come_back(tmp_path: Path) -> None:
    async def tale(storm: Storm) -> None:
        links = storm.cluster.links
        await storm.partition(await storm.primary(), links.isolate)
        await storm.partition(await storm.primary(), links.mute)
        await storm.partition(await storm.backup(), links.deafen)

    storm(tmp_path, tale)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_rotten_log_is_repaired(tmp_path: Path) -> None:
    async def tale(storm: Storm) -> None:
        await storm.rot(await storm.backup())
        assert storm.cluster.noted("vsr_prepare_repaired") > 0
        await storm.rot(await storm.primary())

    storm(tmp_path, tale)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("nodes", "seed"), [(3, 1), (3, 2), (5, 1)])
def test_a_long_storm(tmp_path: Path, nodes: int, seed: int) -> None:
    async def tale(storm: Storm) -> None:
        dice = Dice(seed, "storm")
        for _ in range(15):
            kind = dice.between(0, 10)
            victim = await storm.primary() if dice.chance(0.5) else dice.between(0, nodes - 1)
            if kind < 2:
                await storm.kill_and_restart(*dice.shuffled(storm.nodes)[: nodes // 2])
            elif kind < 4:
                await storm.kill_and_restart(victim)
            elif kind < 5:
                await storm.rot(victim)
            elif kind < 7:
                await storm.stop_and_cont(victim)
            elif kind < 9:
                links = storm.cluster.links
                await storm.partition(victim, dice.pick([links.isolate, links.mute, links.deafen]))
            else:
                await storm.kill_all()

    storm(tmp_path, tale, nodes)


# Clients that die


def _dead_client(cluster: LocalCluster, path: str) -> float:
    """A client that makes an ephemeral node and is gone; when it was last heard of, at the latest."""
    client = RawClient(cluster.zookeeper(1))
    assert client.greet(timeout_ms=SHORTEST_MS) == SHORTEST_MS
    heard_at = time.monotonic()
    client.ask(1, Create(path, b"", OPEN, CreateFlags.EPHEMERAL))
    assert client.hear() == (1, ErrorCode.OK)
    client.close()
    return heard_at


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("keeper")
    with LocalCluster(3, folder, roles=["keeper"], environment=SMALL) as running:
        yield running


async def _lives(cluster: LocalCluster, keeper: KeeperClient, path: str) -> float:
    """For how long there is a node of a client that has died, since it was last heard of."""
    heard_at = await asyncio.to_thread(_dead_client, cluster, path)
    watch = Watch()
    assert await keeper.exists(path, watch) is not None
    assert (await asyncio.wait_for(watch.wait(), PATIENCE_SECONDS)).type == EventType.DELETED
    return time.monotonic() - heard_at


def test_the_node_of_a_dead_client_goes_after_its_timeout_and_not_before(
    cluster: LocalCluster,
) -> None:
    async def one(keeper: KeeperClient, number: int) -> float:
        await asyncio.sleep(number * 0.11)  # anywhere between two beats of the cluster's time
        return await _lives(cluster, keeper, f"/dead-{number}")

    async def run() -> None:
        async with KeeperClient(cluster.zookeeper(0), seconds=PATIENCE_SECONDS) as keeper:
            lived = await asyncio.gather(*(one(keeper, number) for number in range(10)))
        print(f"lived {min(lived):.2f} to {max(lived):.2f} s")
        assert min(lived) >= SHORTEST_MS / 1000

    asyncio.run(run())


@pytest.mark.long
def test_it_goes_also_when_the_primary_dies_after_the_client(cluster: LocalCluster) -> None:
    async def run() -> None:
        endpoints = ",".join(cluster.zookeeper(i) for i in NODES)
        async with KeeperClient(endpoints, seconds=PATIENCE_SECONDS) as keeper:
            for turn in range(3):
                primary = await asyncio.to_thread(cluster.keeper_primary)
                dying = asyncio.create_task(_lives(cluster, keeper, f"/orphan-{turn}"))
                while await keeper.exists(f"/orphan-{turn}") is None:
                    pass
                await asyncio.to_thread(cluster.kill, primary)
                assert await dying >= SHORTEST_MS / 1000
                await asyncio.to_thread(cluster.restart, primary)

    asyncio.run(run())
