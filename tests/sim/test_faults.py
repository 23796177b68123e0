"""Profiles of faults, and a nemesis that keeps to them."""

from __future__ import annotations

import pytest
from tests.toy.storm import ToyPart

from motet.errors import BadInput
from motet.sim.dice import Dice
from motet.sim.faults import PROFILES, SWARM, Faults, faults_for
from motet.sim.nemesis import Nemesis
from motet.sim.world import World


def test_no_fault_is_the_default_and_the_profile_none() -> None:
    assert PROFILES["none"] == Faults()


def test_the_swarm_draws_another_mixture_for_each_seed_and_the_same_for_one() -> None:
    mixtures = [faults_for(SWARM, Dice(seed)) for seed in range(50)]
    assert len({str(mixture) for mixture in mixtures}) > 45
    assert mixtures[7] == faults_for(SWARM, Dice(7))
    assert any(m.nodes.crash_interval_ms == 0 for m in mixtures)


def test_an_unknown_profile_is_refused_and_the_known_ones_are_named() -> None:
    with pytest.raises(BadInput, match="swarm"):
        faults_for("tempest", Dice(1))


def storm(profile: str) -> World:
    world = World(8, PROFILES[profile])
    ToyPart().prepare(world, None)
    for node in world.nodes.values():
        world.start(node)
    Nemesis(world).unleash()
    world.run(20_000)
    return world


FAULTS_OF = {
    "network": {"partition", "partition_one_way", "clog"},
    "crash": {"crash", "crash_all", "crash_writing", "pause", "slow_disk", "full_disk"},
    "disk": {"crash", "crash_all", "crash_writing", "pause", "slow_disk", "full_disk", "rot"},
    "clock": {"crash", "crash_all", "crash_writing", "pause", "clock_jump"},
}
ALL_FAULTS = set().union(*FAULTS_OF.values())


@pytest.mark.parametrize("profile", FAULTS_OF)
def test_a_profile_brings_all_of_its_faults_and_no_other(profile: str) -> None:
    seen = {mark for mark in storm(profile).marks if mark in ALL_FAULTS}
    assert seen == FAULTS_OF[profile]


def test_the_nemesis_leaves_clients_alone_and_mends_everything_in_the_end() -> None:
    world = World(5, PROFILES["all"])
    ToyPart().prepare(world, None)
    for node in world.nodes.values():
        world.start(node)
    nemesis = Nemesis(world)
    nemesis.unleash()
    world.run(10_000)
    assert all(node.incarnation == 1 for node in world.nodes.values() if node.immune)
    assert any(node.incarnation > 1 for node in world.nodes.values())
    nemesis.stop()
    assert all(node.up for node in world.nodes.values())
    assert not world.fabric.blocked
    crashes = world.marks["crash"]
    world.run(20_000)
    assert world.marks["crash"] == crashes
