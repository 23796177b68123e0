"""A keeper of real processes under load: killed, stopped, cut off, started; nothing acknowledged is lost.

Each storm ends in the same questions: is every acknowledged entry there, through every node; was none done
twice; does one order explain all answers; has every client still the session it began with, and that its
ephemeral node. A write without an answer is a kind of its own: an order may have it or not.

That nodes are cut off is in the long tier: test_consensus_processes.py does it to the replicas of which a
keeper consists.
"""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from tests.system.keeper_load import PATIENCE_SECONDS, Load
from tests.system.raw_client import RawClient

from motet.client.keeper.client import OPEN, KeeperClient
from motet.client.keeper.watches import Watch
from motet.format.zookeeper.answers import ErrorCode, EventType
from motet.format.zookeeper.requests import Create, CreateFlags
from motet.sim.dice import Dice
from motet.testing.dev_cluster import DevCluster

SMALL = {
    "MOTET_KEEPER__LOG_SLOTS": "512",
    "MOTET_KEEPER__CHECKPOINT_OPS": "200",
    "MOTET_LOG__LEVEL": "warning",
}
NODES = range(3)
SHORTEST_MS = 4_000
_look_every_seconds = 0.05


def keeper_of(cluster: DevCluster, i: int) -> dict[str, object]:
    """What a node says of its replica; nothing if it says nothing."""
    try:
        with urllib.request.urlopen(f"{cluster.http(i)}/api/status", timeout=1) as answer:
            machine = json.load(answer)["machines"]["keeper"]
    except (OSError, urllib.error.URLError, KeyError, ValueError):
        return {}
    return dict(machine["detail"]) if machine["serving"] else {}


def primaries(cluster: DevCluster) -> list[int]:
    return [i for i in NODES if keeper_of(cluster, i).get("is_primary")]


def is_whole(cluster: DevCluster) -> bool:
    """All serve, in one view."""
    views = [keeper_of(cluster, i).get("view") for i in NODES]
    return None not in views and len(set(views)) == 1


class Storm:
    """A cluster under load, and what can befall it."""

    def __init__(self, cluster: DevCluster, load: Load) -> None:
        self.cluster, self.load = cluster, load

    async def primary(self) -> int:
        await self._until(lambda: len(primaries(self.cluster)) == 1)
        return (await asyncio.to_thread(primaries, self.cluster))[0]

    async def kill_and_restart(self, i: int) -> None:
        await asyncio.to_thread(self.cluster.kill, i)
        await self.load.until_acknowledged(50)
        await asyncio.to_thread(self.cluster.restart, i, wait=False)
        await self._healed()

    async def kill_all(self) -> None:
        for i in NODES:
            await asyncio.to_thread(self.cluster.kill, i)
        for i in NODES:
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

    async def _healed(self) -> None:
        await self._until(lambda: is_whole(self.cluster))
        await self.load.until_acknowledged(50)

    async def _until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - a process tells nobody
                await asyncio.sleep(_look_every_seconds)


def storm(folder: Path, tale: Callable[[Storm], Awaitable[None]]) -> None:
    """Tell a tale to a cluster under load, and judge it."""
    with DevCluster(3, folder, None, roles=["keeper"], environment=SMALL, proxied=NODES) as cluster:
        asyncio.run(_storm(cluster, tale))


async def _storm(cluster: DevCluster, tale: Callable[[Storm], Awaitable[None]]) -> None:
    load = Load([cluster.zookeeper(i) for i in NODES])
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
    assert ledger.doubled == []
    verdict = ledger.verdict()
    assert verdict.status == "ok", verdict


async def _create_ephemerals(load: Load) -> None:
    for number, client in enumerate(load.clients):
        await client.create(f"/ours-{number}", ephemeral=True)
    for kazoo in load.kazoos:
        await asyncio.to_thread(kazoo.client.create, f"/{kazoo.name}", ephemeral=True)


async def _check_sessions(load: Load, sessions: list[int]) -> None:
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


async def _check_entries(cluster: DevCluster, load: Load) -> None:
    """Every acknowledged entry is there, through every node."""
    for i in NODES:
        async with KeeperClient(cluster.zookeeper(i), seconds=PATIENCE_SECONDS) as client:
            assert await load.lost(client) == [], f"through node {i}"


@pytest.mark.timeout(600)
def test_nodes_are_killed_again_and_again(tmp_path: Path) -> None:
    async def tale(storm: Storm) -> None:
        await storm.kill_and_restart(await storm.primary())
        await storm.kill_and_restart((await storm.primary() + 1) % 3)
        await storm.kill_all()

    storm(tmp_path, tale)


@pytest.mark.timeout(600)
def test_nodes_stop_and_go_on(tmp_path: Path) -> None:
    async def tale(storm: Storm) -> None:
        await storm.stop_and_cont(await storm.primary())
        await storm.stop_and_cont((await storm.primary() + 1) % 3)

    storm(tmp_path, tale)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_nodes_are_cut_off_and_come_back(tmp_path: Path) -> None:
    async def tale(storm: Storm) -> None:
        links = storm.cluster.links
        await storm.partition(await storm.primary(), links.isolate)
        await storm.partition(await storm.primary(), links.mute)
        await storm.partition((await storm.primary() + 1) % 3, links.deafen)

    storm(tmp_path, tale)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_long_storm(tmp_path: Path, seed: int) -> None:
    async def tale(storm: Storm) -> None:
        dice = Dice(seed, "storm")
        for _ in range(15):
            kind = dice.between(0, 9)
            victim = await storm.primary() if dice.chance(0.5) else dice.between(0, 2)
            if kind < 5:
                await storm.kill_and_restart(victim)
            elif kind < 7:
                await storm.stop_and_cont(victim)
            elif kind < 9:
                links = storm.cluster.links
                await storm.partition(victim, dice.pick([links.isolate, links.mute, links.deafen]))
            else:
                await storm.kill_all()

    storm(tmp_path, tale)


# Clients that die


def _dead_client(cluster: DevCluster, path: str) -> float:
    """A client that makes an ephemeral node and is gone; when it was last heard of, at the latest."""
    client = RawClient(cluster.zookeeper(1))
    assert client.greet(timeout_ms=SHORTEST_MS) == SHORTEST_MS
    heard_at = time.monotonic()
    client.ask(1, Create(path, b"", OPEN, CreateFlags.EPHEMERAL))
    assert client.hear() == (1, ErrorCode.OK)
    client.close()
    return heard_at


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    folder = tmp_path_factory.mktemp("keeper")
    with DevCluster(3, folder, None, roles=["keeper"], environment=SMALL) as running:
        yield running


async def _lives(cluster: DevCluster, keeper: KeeperClient, path: str) -> float:
    """For how long there is a node of a client that has died, since it was last heard of."""
    heard_at = await asyncio.to_thread(_dead_client, cluster, path)
    watch = Watch()
    assert await keeper.exists(path, watch) is not None
    assert (await asyncio.wait_for(watch.wait(), PATIENCE_SECONDS)).type == EventType.DELETED
    return time.monotonic() - heard_at


def test_the_node_of_a_dead_client_goes_after_its_timeout_and_not_before(
    cluster: DevCluster,
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
def test_it_goes_also_when_the_primary_dies_after_the_client(cluster: DevCluster) -> None:
    async def run() -> None:
        endpoints = ",".join(cluster.zookeeper(i) for i in NODES)
        async with KeeperClient(endpoints, seconds=PATIENCE_SECONDS) as keeper:
            for turn in range(3):
                primary = (await asyncio.to_thread(primaries, cluster))[0]
                dying = asyncio.create_task(_lives(cluster, keeper, f"/orphan-{turn}"))
                while await keeper.exists(f"/orphan-{turn}") is None:
                    pass
                await asyncio.to_thread(cluster.kill, primary)
                assert await dying >= SHORTEST_MS / 1000
                await asyncio.to_thread(cluster.restart, primary)

    asyncio.run(run())
