"""Clocks: each node has its own idea of time, and its timers go by that."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sim.scripted import TIMER, all_seen, on_start, put, seen

from motet.core.machine import NS_PER_MS, Effect, Event, Fired, SetTimer, Started
from motet.sim.faults import PROFILES, Faults, TimeFaults
from motet.sim.nemesis import Nemesis
from motet.sim.time import EPOCH_NS, SimTime, VirtualTime
from motet.sim.world import World

MS = NS_PER_MS


def ticking(event: Event) -> list[Effect]:
    return [SetTimer(TIMER, 100)] if isinstance(event, Started | Fired) else []


@given(
    st.integers(-5_000, 5_000), st.integers(0, 10**13), st.integers(0, 10**12), st.integers(0, 9)
)
def test_a_wait_ends_at_the_first_moment_at_which_the_own_clock_has_run_so_long(
    rate_ppm: int, elapsed_ns: int, wait_ns: int, uptime_ms: int
) -> None:
    virtual = VirtualTime()
    time = SimTime(virtual, rate_ppm=rate_ppm)
    time.reboot(uptime_ms)
    virtual.elapsed_ns = elapsed_ns
    began_ns = time.now().monotonic_ns
    needed_ns = time.virtual_ns(wait_ns)
    virtual.elapsed_ns = elapsed_ns + needed_ns
    assert time.now().monotonic_ns >= began_ns + wait_ns
    if needed_ns:
        virtual.elapsed_ns -= 1
        assert time.now().monotonic_ns < began_ns + wait_ns


@pytest.mark.parametrize("seed", range(8))
def test_a_timer_never_fires_early_by_the_clock_of_its_node(seed: int) -> None:
    world = World(seed, Faults(time=TimeFaults(rate_ppm_max=2_000)))
    host = put(world, "a", ticking)
    world.run(5_000)
    times = [event.now.monotonic_ns for event in all_seen(host)]
    gaps = [after - before for before, after in itertools.pairwise(times)]
    assert len(gaps) > 40
    assert all(100 * MS <= gap < 101 * MS for gap in gaps)


def test_clocks_of_two_nodes_run_apart_and_without_faults_they_do_not() -> None:
    for faults, apart in ((TimeFaults(rate_ppm_max=2_000), True), (TimeFaults(), False)):
        world = World(1, Faults(time=faults))
        nodes = [put(world, name).node for name in ("a", "b")]
        world.run(10_000)
        readings = {node.time.now().monotonic_ns for node in nodes}
        assert (len(readings) == 2) is apart


def test_wall_clocks_start_apart_by_at_most_the_skew() -> None:
    offsets = []
    for seed in range(50):
        world = World(seed, Faults(time=TimeFaults(skew_ms_max=100)))
        offsets.append(put(world, "a").node.time.now().wall_ns - EPOCH_NS)
    assert all(-100 * MS <= offset <= 100 * MS for offset in offsets)
    assert min(offsets) < -50 * MS
    assert max(offsets) > 50 * MS


def test_a_jump_moves_the_wall_either_way_and_never_the_monotonic_clock() -> None:
    directions = set()
    for seed in range(10):
        world = World(seed, Faults(time=TimeFaults(jump_interval_ms=50, jump_ms_max=500)))
        host = put(world, "a", ticking)
        Nemesis(world).unleash()
        world.run(2_000)
        readings = [event.now for event in all_seen(host)]
        for before, after in itertools.pairwise(readings):
            monotonic_ns = after.monotonic_ns - before.monotonic_ns
            assert monotonic_ns == 100 * MS
            directions.add(after.wall_ns - before.wall_ns > monotonic_ns)
    assert directions == {False, True}


def test_the_zero_of_the_monotonic_clock_means_nothing() -> None:
    """It differs between nodes and between two lives of one, and may well be lower than before."""
    world = World(1, Faults(time=TimeFaults(uptime_ms_max=1_000_000)))
    hosts = [put(world, name) for name in ("a", "b")]
    readings = []
    for life in range(5):
        for host in hosts:
            readings.append(host.node.time.now().monotonic_ns)
            world.crash(host.node)
            world.start(host.node)
        world.run(life + 1)
    assert len({reading // 1_000_000_000 for reading in readings}) == 10
    first = readings[::2]
    assert first != sorted(first)


def test_within_one_life_the_monotonic_clock_never_goes_back() -> None:
    for profile in ("clock", "all"):
        world = World(3, PROFILES[profile])
        host = put(world, "a", ticking)
        Nemesis(world).unleash()
        for ms in range(0, 5_000, 5):
            world.run(ms)
            readings = [event.now.monotonic_ns for event in all_seen(host)]
            assert readings == sorted(readings)


def test_every_profile_with_crashes_moves_the_zero() -> None:
    for name, faults in PROFILES.items():
        assert bool(faults.nodes.crash_interval_ms) <= bool(faults.time.uptime_ms_max), name


def test_a_timer_for_the_past_fires_now_and_time_does_not_go_back() -> None:
    world = World(1, Faults())
    host = put(world, "a", on_start(SetTimer(TIMER, -5)))
    world.run(1)
    world.crash(host.node)
    world.start(host.node)
    world.run(3)
    (event,) = seen(host, Fired)
    assert event.now.monotonic_ns == 1 * MS


def test_without_faults_every_clock_is_right() -> None:
    world = World(1, PROFILES["none"])
    nodes = [put(world, name).node for name in ("a", "b")]
    Nemesis(world).unleash()
    world.run(1_000)
    for node in nodes:
        now = node.time.now()
        assert (now.monotonic_ns, now.wall_ns) == (1_000 * MS, EPOCH_NS + 1_000 * MS)
