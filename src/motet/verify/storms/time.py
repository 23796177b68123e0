"""The cluster's time in the storm: five replicas agree on it while two of them follow a wrong clock.

Three walls are right to within the error that agreement assumes of an honest machine; the other two agree
with each other, are off by up to minutes, and jump. What is watched, after every step of every replica:

T4  a replica that calls itself synchronised, and has heard a majority of right walls for it, knows an
    interval that holds the true time. Whoever heard fewer may be misled: an answer that took long agrees
    with everybody, and two wrong walls and such an answer are a majority too.
T5  its own idea of the time, moved into that interval, is in it
"""

from __future__ import annotations

from collections.abc import Callable

from motet.core.clock.cluster_time import ClusterTime, Epoch, monotonic_error_ppm, wall_error_ms
from motet.core.clock.marzullo import Interval
from motet.core.clock.time_peer import TimePeer
from motet.core.machine import NS_PER_MS, Effect, Event, Violation
from motet.ids import Address, NodeId
from motet.sim.host import Host, Stepper
from motet.sim.time import EPOCH_NS, SimTime
from motet.sim.world import World
from motet.verify.plants import plants_of

HONEST = tuple(Address(name) for name in ("n1", "n2", "n3"))
LOST = tuple(Address(name) for name in ("n4", "n5"))
REPLICAS = HONEST + LOST
LOST_MS_MAX = 600_000
MAJORITY = "a-third-follows"
"""A third replica follows the wrong clock: more than agreement claims to survive, so it must be noticed."""


class TimeStorm:
    """``motet simulate time``."""

    name = "time"
    marks = (
        "time_synchronized",
        "clock_jump",
        "crash",
        "crash_all",
        "partition",
        "pause",
    )
    plants = plants_of("time")
    storm_ms = 90_000

    def prepare(self, world: World, plant: str | None) -> TimeRun:
        return TimeRun(world, plant)


class TimeRun:
    """Five replicas, and an observer who knows what time it is."""

    def __init__(self, world: World, plant: str | None) -> None:
        self._world = world
        self._plant = plant
        #: node -> how many right walls it has heard in its window, its own included
        self._right_heard: dict[Address, int] = {}
        #: node -> its newest agreement, and whether a majority of right walls stood behind it
        self._agreements: dict[Address, tuple[Epoch, bool]] = {}
        dice = world.dice.fork("walls")
        astray_ms = dice.pick([-1, 1]) * dice.between(2 * wall_error_ms, LOST_MS_MAX)
        for address in REPLICAS:
            node = world.add_node(address)
            is_lost = address in LOST or (plant == MAJORITY and address == HONEST[-1])
            # Rates accumulate: over the whole run an honest wall must stay within its error.
            rate_ppm = dice.between(-monotonic_error_ppm // 4, monotonic_error_ppm // 4)
            skew_ms = dice.between(-wall_error_ms // 2, wall_error_ms // 2)
            skew_ms += astray_ms if is_lost else 0
            node.time = SimTime(world.virtual, rate_ppm=rate_ppm, skew_ms=skew_ms)
            world.host(node, "time", _factory(address))
        world.observe(self._saw)

    def finished(self) -> bool:
        """Long enough for windows and epochs to end, and everybody synchronised again."""
        if self._world.virtual.elapsed_ns < TimeStorm.storm_ms * NS_PER_MS:
            return False
        return all(self._is_synchronized(address) for address in HONEST)

    def check(self) -> list[Violation]:
        return []  # everything is watched while it happens

    def permits(self, fault: str, node: Address, /) -> bool:
        # Those who follow the wrong clock together must stay together to be believed.
        return fault != "clock_jump" or (node in LOST and self._plant is None)

    def _is_synchronized(self, address: Address) -> bool:
        node = self._world.nodes[address]
        peer = node.hosts["time"].machine
        assert isinstance(peer, TimePeer)
        return peer.time is not None and peer.time.is_synchronized(node.time.now())

    def _saw(self, host: Host, event: Event, _effects: list[Effect]) -> None:
        peer = host.machine
        assert isinstance(peer, TimePeer)
        if peer.time is None:
            return
        is_founded = self._is_founded(host.node.address, peer.time)
        bounds, wall_ns = peer.time.bounds_ns(event.now), peer.time.wall_ns(event.now)
        if bounds is None or wall_ns is None:
            return
        true_ns = EPOCH_NS + self._world.virtual.elapsed_ns
        if is_founded and not _holds(bounds, true_ns):
            self._world.violated("T4", f"{host.label} is sure of {bounds}, it is {true_ns}")
        if not _holds(bounds, wall_ns):
            self._world.violated("T5", f"{host.label} says {wall_ns} outside {bounds}")

    def _is_founded(self, node: Address, time: ClusterTime) -> bool:
        """Does the node's agreement rest on a majority of right walls? An agreement ends its window."""
        newest, is_founded = self._agreements.get(node, (None, False))
        if time.epoch is not None and time.epoch != newest:
            is_founded = self._right_heard[node] >= time.quorum
            self._agreements[node] = (time.epoch, is_founded)
        self._right_heard[node] = sum(Address(s) in HONEST for s in (time.own, *time.samples))
        return is_founded


def _holds(interval: Interval, instant_ns: int) -> bool:
    return interval.lower <= instant_ns <= interval.upper


def _factory(address: Address) -> Callable[[], Stepper]:
    replicas = tuple(NodeId(replica) for replica in REPLICAS)
    return lambda: TimePeer(NodeId(address), replicas)
