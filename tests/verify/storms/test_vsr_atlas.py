"""Under each kind of fault a cluster is ok; and the atlas spares what the cluster cannot do without."""

from __future__ import annotations

import pytest

from motet.core.vsr.context import GRID, REPLIES, SUPERBLOCK, WAL
from motet.core.vsr.wal_layout import WalLayout
from motet.ids import ReplicaIndex
from motet.sim.dice import Dice
from motet.sim.faults import PROFILES
from motet.sim.storm import simulate
from motet.sim.trace import Trace
from motet.sim.world import World
from motet.verify.storms.vsr import VsrRun, VsrStorm, draw_config
from motet.verify.storms.vsr_atlas import Atlas


@pytest.mark.parametrize("profile", [*PROFILES, "swarm"])
def test_a_cluster_survives(profile: str) -> None:
    outcome = simulate(VsrStorm(), 3, profile=profile)
    assert outcome.violations == []
    assert outcome.verdict == "ok"


def test_a_seed_is_one_run() -> None:
    traces = [Trace(lines_max=1), Trace(lines_max=1)]
    first, second = (simulate(VsrStorm(), 1, trace=trace) for trace in traces)
    assert first.trace_digest == second.trace_digest
    assert first.events >= 10_000


@pytest.mark.parametrize("seed", range(20))
def test_one_copy_of_everything_is_spared(seed: int) -> None:
    config = draw_config(Dice(seed))
    atlas = Atlas(config, Dice(seed, "atlas"))
    most = config.quorums.replication - 1
    places = [*atlas.wal, *atlas.replies, *atlas.blocks]
    assert all(len(set(replicas)) == len(replicas) <= most for replicas in places)
    assert config.count - len(atlas.expendable) >= config.quorums.view_change


@pytest.mark.parametrize("seed", range(20))
def test_damage_stays_on_its_page(seed: int) -> None:
    config = draw_config(Dice(seed))
    atlas = Atlas(config, Dice(seed, "atlas"))
    layout, dice = WalLayout.of(config), Dice(seed, "spots")
    for replica in map(ReplicaIndex, range(config.count)):
        damage = atlas.disk_of(replica)
        for _ in range(50):
            spot = damage.spot(dice)
            if spot is None:
                continue
            file, offset = spot
            if file == WAL:
                in_ring = offset - layout.prepares_offset
                slot = offset // 256 if in_ring < 0 else in_ring // layout.slot_bytes
                assert replica in atlas.wal[slot // 2]
            elif file == GRID:
                assert replica in atlas.blocks[offset // config.block_bytes]
            elif file == SUPERBLOCK:
                assert replica in atlas.expendable
            else:
                assert file == REPLIES


def test_reads_fail_only_where_damage_may_be() -> None:
    config = draw_config(Dice(3))
    atlas = Atlas(config, Dice(3, "atlas"))
    damage = atlas.disk_of(ReplicaIndex(0))
    size_bytes = WalLayout.of(config).size_bytes
    assert not damage.may_fail(WAL, 0, size_bytes)
    assert not damage.may_fail(SUPERBLOCK, 0, 512)
    can_fail = [damage.may_fail(GRID, n * config.block_bytes, config.block_bytes) for n in range(8)]
    assert can_fail == [ReplicaIndex(0) in atlas.blocks[n] for n in range(8)]


def test_a_cluster_of_one_suffers_no_damage() -> None:
    seed = next(seed for seed in range(100) if len(VsrRun(world(seed), None).hosts) == 1)
    run = VsrRun(world(seed), None)
    assert not run.permits("rot", run.config.replicas[0])
    assert run.permits("crash", run.config.replicas[0])


def world(seed: int) -> World:
    return World(seed, PROFILES["none"])
