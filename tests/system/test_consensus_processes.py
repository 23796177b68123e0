"""Real replicas under load: killed, stopped, cut off and with rotten logs; nothing acknowledged is lost.

Each test ends in the same questions: is every acknowledged operation there, was none done twice, does one
order explain all answers, was no read barrier too old. How long it took to be whole again after each fault is
printed as ``back_s``; 5 s is the promise, and no test fails for a machine that is busy.

Of what can befall three replicas, the demo shows that they are killed one by one, and that their logs rot
(test_demo.py), and a keeper that they are stopped (test_keeper_processes.py): here that is in the long tier.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path

import pytest

from motet.client.consensus import ConsensusClient
from motet.core.vsr.context import WAL
from motet.demos.consensus.load import Load
from motet.demos.consensus.show import is_whole
from motet.node.replica_report import look_beside, report_wal
from motet.sim.dice import Dice
from motet.testing.consensus_cluster import ConsensusCluster, wait_for
from motet.testing.consensus_damage import rot_prepares

patience_s = 120.0

BOTH = pytest.mark.parametrize("replicas", [3, 5])


def say(what: str, value: object) -> None:
    """Into the report of the test: ``pytest -rP`` shows it."""
    print(f"{what}: {value}")


class Storm:
    """A cluster under load, and what can befall it."""

    def __init__(self, cluster: ConsensusCluster, load: Load) -> None:
        self.cluster = cluster
        self.load = load

    async def primary(self) -> int:
        return await asyncio.to_thread(self.cluster.primary, wait_s=patience_s)

    async def backup(self) -> int:
        return (await self.primary() + 1) % len(self.cluster)

    async def kill_and_restart(self, victims: Iterable[int], more: int = 20) -> None:
        victims = list(victims)
        for i in victims:
            await asyncio.to_thread(self.cluster.kill, i)
        await self.load.until_acknowledged(more, patience_s)
        await self._healed(partial(self._restart, victims))

    async def kill_all(self) -> None:
        everybody = range(len(self.cluster))
        for i in everybody:
            await asyncio.to_thread(self.cluster.kill, i)
        await self._healed(partial(self._restart, everybody))

    async def stop_and_cont(self, i: int) -> None:
        await asyncio.to_thread(self.cluster.stop, i)
        await self.load.until_acknowledged(20, patience_s)
        await self._healed(lambda: self.cluster.cont(i))

    async def cut(self, i: int, how: Callable[[int], None]) -> None:
        await asyncio.to_thread(how, i)
        await self.load.until_acknowledged(20, patience_s)
        await self._healed(lambda: self.cluster.heal(i))

    async def rot(self, i: int) -> None:
        """Kill it, and have some prepares of its log rot while it is down."""
        await asyncio.to_thread(self.cluster.kill, i)
        data = self.cluster.data(i)
        rotten = rot_prepares(data, 4)
        beside = look_beside(data)
        faulty = report_wal((data / WAL).read_bytes(), beside).summary["faulty"]
        assert isinstance(faulty, int)
        assert faulty >= len(rotten)
        await self._healed(lambda: self.cluster.restart(i, wait=False))

    def _restart(self, victims: Iterable[int]) -> None:
        for i in victims:
            self.cluster.restart(i, wait=False)

    async def _healed(self, heal: Callable[[], object]) -> None:
        began = time.monotonic()
        await asyncio.to_thread(heal)
        whole = lambda: is_whole(self.cluster)  # noqa: E731
        await asyncio.to_thread(wait_for, whole, "all are whole again", patience_s)
        say("back_s", round(time.monotonic() - began, 2))
        await self.load.until_acknowledged(20, patience_s)


def storm(
    folder: Path,
    replicas: int,
    tale: Callable[[Storm], Awaitable[None]],
    proxied: Iterable[int] = (),
) -> None:
    """Tell a tale to a cluster under load, and judge it."""
    with ConsensusCluster(replicas, folder / "cluster", proxied=tuple(proxied)) as cluster:
        asyncio.run(_storm(cluster, tale))


async def _storm(cluster: ConsensusCluster, tale: Callable[[Storm], Awaitable[None]]) -> None:
    async with ConsensusClient(cluster.config, cluster.endpoints) as client:
        load = Load(client, call_s_max=patience_s)
        working = asyncio.create_task(load.run())
        try:
            await load.until_acknowledged(50, patience_s)
            await tale(Storm(cluster, load))
        finally:
            load.stop()
            await working
        lost = await load.lost()
    tally, verdict = load.tally, load.verdict()
    say("acknowledged", tally.acknowledged)
    say("outage_ms", tally.outage_ms_max())
    assert (lost, tally.doubled, tally.barriers_stale) == (0, 0, 0)
    assert verdict.status == "ok", verdict
    assert tally.acknowledged >= 50


@pytest.mark.long
@BOTH
def test_replicas_are_killed_again_and_again(tmp_path: Path, replicas: int) -> None:
    async def tale(storm: Storm) -> None:
        await storm.kill_and_restart([await storm.primary()])
        await storm.kill_and_restart([await storm.backup()])
        if replicas == 5:
            primary = await storm.primary()
            await storm.kill_and_restart([primary, (primary + 2) % replicas])

    storm(tmp_path, replicas, tale)


def test_all_are_killed_at_once(tmp_path: Path) -> None:
    async def tale(storm: Storm) -> None:
        await storm.kill_all()

    storm(tmp_path, 3, tale)


@pytest.mark.long
@BOTH
def test_a_primary_stops_and_goes_on(tmp_path: Path, replicas: int) -> None:
    async def tale(storm: Storm) -> None:
        await storm.stop_and_cont(await storm.primary())
        await storm.stop_and_cont(await storm.backup())

    storm(tmp_path, replicas, tale)


def test_replicas_are_cut_off_each_way(tmp_path: Path) -> None:
    async def tale(storm: Storm) -> None:
        for how in (storm.cluster.isolate, storm.cluster.mute, storm.cluster.deafen):
            await storm.cut(await storm.primary(), how)

    storm(tmp_path, 3, tale, proxied=range(3))


@pytest.mark.long
@BOTH
def test_a_rotten_log_is_repaired(tmp_path: Path, replicas: int) -> None:
    async def tale(storm: Storm) -> None:
        victim = await storm.backup()
        await storm.rot(victim)
        assert storm.cluster.noted("vsr_prepare_repaired") > 0
        await storm.rot(await storm.primary())

    storm(tmp_path, replicas, tale)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("replicas", [3, 5])
def test_a_long_storm(tmp_path: Path, replicas: int, seed: int) -> None:
    async def tale(storm: Storm) -> None:
        dice = Dice(seed, "storm")
        for _ in range(20):
            victim = dice.between(0, replicas - 1)
            kind = dice.between(0, 6)
            if kind == 0:
                await storm.kill_and_restart(dice.shuffled(range(replicas))[: replicas // 2])
            elif kind == 1:
                await storm.kill_and_restart([await storm.primary()], more=300)
            elif kind == 2:
                await storm.stop_and_cont(victim)
            elif kind == 3:
                await storm.rot(victim)
            elif kind == 4:
                await storm.kill_all()
            else:
                cluster = storm.cluster
                how = dice.pick((cluster.isolate, cluster.mute, cluster.deafen))
                await storm.cut(victim, how)

    storm(tmp_path, replicas, tale, proxied=range(replicas))
