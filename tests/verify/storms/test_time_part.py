"""Cluster time in its storm: the watch knows what time it is, and whom it may hold to it."""

from __future__ import annotations

import pytest

from motet.core.clock.cluster_time import ClusterTime
from motet.core.clock.time_peer import TimePeer
from motet.core.machine import NS_PER_MS
from motet.sim.faults import PROFILES, Faults
from motet.sim.storm import simulate
from motet.sim.world import World
from motet.verify.storms.time import HONEST, LOST, MAJORITY, TimeStorm


@pytest.mark.parametrize("profile", PROFILES)
def test_honest_replicas_agree_in_every_profile(profile: str) -> None:
    outcome = simulate(TimeStorm(), 3, profile=profile)
    assert outcome.verdict == "ok", outcome.violations
    assert outcome.marks["time_synchronized"] >= len(HONEST)


def test_a_third_that_follows_the_wrong_clock_is_noticed_without_any_fault() -> None:
    outcome = simulate(TimeStorm(), 1, profile="none", plant=MAJORITY)
    assert {violation.invariant for violation in outcome.violations} == {"T4"}


def test_a_time_outside_of_what_was_agreed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replica with a wrong wall that is not moved into the interval it knows."""
    monkeypatch.setattr(ClusterTime, "wall_ns", lambda _self, now: now.wall_ns)
    outcome = simulate(TimeStorm(), 1, profile="none")
    assert {violation.invariant for violation in outcome.violations} == {"T5"}


def test_a_replica_that_heard_too_few_right_walls_is_not_held_to_the_true_time() -> None:
    """Two wrong walls and one slow answer are a majority; this seed brings them together."""
    outcome = simulate(TimeStorm(), 1117)
    assert outcome.verdict == "ok", outcome.violations


def test_without_faults_every_replica_is_held_to_the_true_time() -> None:
    world = World(1, Faults())
    run = TimeStorm().prepare(world, None)
    for node in world.nodes.values():
        world.start(node)
    assert world.run(10_000)
    for address in (*HONEST, *LOST):
        peer = world.nodes[address].hosts["time"].machine
        assert isinstance(peer, TimePeer)
        assert peer.time is not None
        assert peer.time.epoch is not None
        assert run._agreements[address] == (peer.time.epoch, True)


def test_the_run_is_not_finished_before_its_storm_is_over() -> None:
    world = World(1, Faults())
    run = TimeStorm().prepare(world, None)
    for node in world.nodes.values():
        world.start(node)
    world.run(TimeStorm.storm_ms - 1)
    assert not run.finished()
    world.run(TimeStorm.storm_ms)
    assert world.virtual.elapsed_ns == TimeStorm.storm_ms * NS_PER_MS
    assert run.finished()


def test_only_walls_that_are_wrong_anyway_may_jump() -> None:
    run = TimeStorm().prepare(World(1, Faults()), None)
    assert [run.permits("clock_jump", address) for address in (*HONEST, *LOST)] == [
        *[False] * len(HONEST),
        *[True] * len(LOST),
    ]
    assert all(run.permits("crash", address) for address in (*HONEST, *LOST))
