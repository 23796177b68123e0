"""Crashes, restarts and pauses at the worst moment: nothing is lost, doubled or swapped on the way."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.sim.scripted import (
    FILE,
    TIMER,
    Hello,
    Scripted,
    all_seen,
    heard,
    on_start,
    put,
    seen,
)

from motet.core.machine import (
    NS_PER_MS,
    Effect,
    Event,
    Fired,
    Read,
    ReadBack,
    Received,
    Send,
    SetTimer,
    Started,
    Violation,
    Write,
    Written,
)
from motet.ids import Address, ReadId, TimerName, WriteId
from motet.sim.faults import (
    PROFILES,
    DiskFaults,
    Faults,
    NetworkFaults,
    NodeFaults,
)
from motet.sim.host import Host
from motet.sim.nemesis import Nemesis
from motet.sim.trace import Trace
from motet.sim.world import SimNode, World

SLOW = Faults(disk=DiskFaults(latency_us_min=5_000, latency_us_max=5_000, lost=1.0))
MS = NS_PER_MS
OTHER_TIMER = TimerName("other")


# Starting


def test_nothing_reaches_a_machine_before_it_is_started() -> None:
    """A message that arrives at the very moment of the restart waits or is lost: Started is first."""
    instant = Faults(network=NetworkFaults(delay_us_min=3_000, delay_us_max=3_000))
    world = World(1, instant)
    host = put(world, "a", start=False)
    world.at(3 * MS, world.start, (host.node,))
    put(world, "b", on_start(*[Send(Address("a"), Hello(number)) for number in range(3)]))
    world.run(20)
    assert isinstance(all_seen(host)[0], Started)


def test_every_machine_of_a_node_crashes_and_starts_with_it() -> None:
    world = World(1, SLOW)
    first = put(world, "a", on_start(Write(WriteId(0), FILE, 0, b"x")), start=False)
    second = world.host(first.node, "n", first.factory)
    world.start(first.node)
    world.run(2)
    world.crash(first.node)
    assert first.disk.size(FILE) is second.disk.size(FILE) is None
    world.start(first.node)
    world.run(20)
    for host in (first, second):
        assert [type(event) for event in all_seen(host)] == [Started, Written]


def test_nonces_differ_between_machines_and_incarnations() -> None:
    world = World(1, Faults())
    host, other = put(world, "a"), put(world, "b")
    nonces = []
    for _ in range(5):
        world.run(world.virtual.elapsed_ns // MS + 1)
        nonces += [event.nonce for event in seen(host, Started)]
        world.crash(host.node)
        world.start(host.node)
    nonces += [event.nonce for event in seen(other, Started)]
    assert len(set(nonces)) == 6


# Crashing


def test_a_message_on_its_way_outlives_the_crash_of_its_sender() -> None:
    world = World(1, Faults(network=NetworkFaults(delay_us_min=5_000, delay_us_max=5_000)))
    receiver = put(world, "b")
    sender = put(world, "a", on_start(Send(Address("b"), Hello(1))))
    world.run(2)
    world.crash(sender.node)
    world.run(20)
    assert heard(receiver) == [1]


def test_of_what_a_node_sent_just_before_its_crash_any_subset_arrives() -> None:
    """A crash comes between two effects of a step as well as between two steps."""
    arrived = set()
    for seed in range(100):
        world = World(seed, Faults(nodes=NodeFaults(unsent=0.5)))
        receivers = [put(world, name) for name in ("b", "c", "d")]
        sends = [Send(receiver.node.address, Hello(1)) for receiver in receivers]
        sender = put(world, "a", on_start(*sends))
        world.run(0)
        world.crash(sender.node)
        world.run(20)
        arrived.add(tuple(bool(heard(receiver)) for receiver in receivers))
    assert len(arrived) == 8


def test_while_nobody_crashes_nothing_is_lost_by_crashes() -> None:
    world = World(1, Faults(nodes=NodeFaults(unsent=1.0)))
    receiver = put(world, "b")
    put(world, "a", on_start(*[Send(Address("b"), Hello(number)) for number in range(50)]))
    world.run(20)
    assert len(heard(receiver)) == 50


def test_a_message_to_a_node_that_is_down_is_lost_and_a_late_copy_reaches_its_next_life() -> None:
    for down_ms, found in ((1, [1]), (20, [])):
        world = World(1, Faults(network=NetworkFaults(delay_us_min=5_000, delay_us_max=5_000)))
        receiver = put(world, "b")
        put(world, "a", on_start(Send(Address("b"), Hello(1))))
        world.run(1)
        world.crash(receiver.node)
        world.run(1 + down_ms)
        world.start(receiver.node)
        world.run(50)
        assert heard(receiver) == found


def test_a_crash_in_a_pause_is_a_crash_and_the_next_life_is_awake() -> None:
    world = World(1, SLOW)
    host = put(world, "a", on_start(SetTimer(TIMER, 6), Write(WriteId(0), FILE, 0, b"x")))
    put(world, "b", on_start(Send(Address("a"), Hello(1))))
    world.run(0)
    world.pause(host.node, 100)
    world.run(50)
    world.crash(host.node)
    assert host.disk.size(FILE) is None, "its sync was never finished"
    world.start(host.node)
    world.run(60)
    kinds = [type(event) for event in all_seen(host)]
    assert kinds == [Started, Written, Fired], "the message died with the process it waited for"


# Pausing


def busy(event: Event) -> list[Effect]:
    if isinstance(event, Started):
        return [SetTimer(TIMER, 3), Write(WriteId(0), FILE, 0, b"a")]
    if isinstance(event, Received):
        return [Write(WriteId(1), FILE, 1, b"b")]
    return []


def test_what_happened_in_a_pause_is_seen_after_it_in_order() -> None:
    world = World(1, Faults())
    host = put(world, "a", busy)
    put(world, "b", on_start(SetTimer(TIMER, 10)))
    world.run(0)
    world.pause(host.node, 50)
    world.run(49)
    assert [type(event) for event in all_seen(host)] == [Started]
    world.run(60)
    assert [type(event) for event in all_seen(host)] == [Started, Written, Fired]
    assert {event.now.monotonic_ns for event in all_seen(host)[1:]} == {50 * MS}


def test_a_pause_that_ends_early_does_not_swap_the_writes_before_and_after_it() -> None:
    """The older write waits in the pause; the younger begins after it, and must not overtake."""
    faults = Faults(disk=DiskFaults(latency_us_min=1_000, latency_us_max=1_000, lost=1.0))
    world = World(1, faults)
    host = put(world, "a", busy)
    put(world, "b", lambda event: [Send(Address("a"), Hello(1))] if fired(event) else timer(event))
    nemesis = Nemesis(world)
    nemesis.unleash()
    world.run(0)
    world.pause(host.node, 500)
    world.run(10)
    nemesis.stop()
    world.run(100)
    assert [event.write for event in seen(host, Written)] == [0, 1]
    world.crash(host.node)
    assert host.disk.read(FILE, 0) == b"ab"


def fired(event: Event) -> bool:
    return isinstance(event, Fired)


def timer(event: Event) -> list[Effect]:
    return [SetTimer(TIMER, 20)] if isinstance(event, Started) else []


def test_a_write_that_ends_with_the_pause_does_not_overtake_one_that_ended_in_it() -> None:
    faults = Faults(disk=DiskFaults(latency_us_min=5_000, latency_us_max=5_000, lost=1.0))
    world = World(1, faults)
    writes = (Write(WriteId(0), FILE, 0, b"a"), SetTimer(TIMER, 3))

    def write_twice(event: Event) -> list[Effect]:
        if isinstance(event, Started):
            return list(writes)
        return [Write(WriteId(1), FILE, 1, b"b")] if isinstance(event, Fired) else []

    host = put(world, "a", write_twice)
    world.run(4)  # the first write ends at 5 ms, the second at 8
    world.pause(host.node, 4)
    world.run(20)
    assert [event.write for event in seen(host, Written)] == [0, 1]


def test_a_second_pause_prolongs_the_first_and_never_shortens_it() -> None:
    world = World(1, Faults())
    host = put(world, "a", on_start(SetTimer(TIMER, 5)))
    world.run(1)
    world.pause(host.node, 20)
    world.pause(host.node, 10)
    world.run(20)
    assert not seen(host, Fired)
    world.pause(host.node, 30)
    world.run(49)
    assert not seen(host, Fired)
    world.run(60)
    (event,) = seen(host, Fired)
    assert event.now.monotonic_ns == 50 * MS


# The nemesis


def test_crashes_come_between_whole_milliseconds_too() -> None:
    """A machine that works by the clock is not always struck at the same moment of its work."""
    found: set[int] = set()
    for seed in range(60):
        world = World(seed, Faults(nodes=NodeFaults(crash_interval_ms=20)))
        put(world, "a")
        Nemesis(world).unleash()
        crashes: list[int] = []
        note_crashes(world, crashes)
        world.run(100)
        found.update(at_ns % MS for at_ns in crashes)
    assert len(found) > 50


def note_crashes(world: World, found: list[int]) -> None:
    crash: Callable[[SimNode], None] = world.crash

    def noted(node: SimNode) -> None:
        found.append(world.virtual.elapsed_ns)
        crash(node)

    world.crash = noted  # type: ignore[method-assign]


def test_a_crash_while_writing_comes_in_a_pause_as_well() -> None:
    """A node that falls asleep with each write is struck there, and not when it is awake again."""
    writing_ns: list[int] = []
    crashes_ns: list[int] = []
    world = World(1, Faults(nodes=NodeFaults(crash_interval_ms=100)))

    def write_on(event: Event) -> list[Effect]:
        return [Write(WriteId(0), FILE, 0, b"x")] if fired(event) else timer(event)

    def fall_asleep(host: Host, _event: Event, effects: list[Effect]) -> None:
        if any(isinstance(effect, Write) for effect in effects):
            world.pause(host.node, 300)
            writing_ns.append(world.virtual.elapsed_ns)

    put(world, "a", write_on)
    world.observe(fall_asleep)
    note_crashes(world, crashes_ns)
    Nemesis(world).unleash()
    world.run(30_000)
    begun = [max(at for at in writing_ns if at <= crash) for crash in crashes_ns if writing_ns]
    struck = sum(0 <= crash - at < MS for crash, at in zip(crashes_ns, begun, strict=False))
    assert struck >= world.marks["crash_writing"] > 5


def storm(profile: str, seed: int) -> World:
    world = World(seed, PROFILES[profile])
    for name in ("a", "b", "c"):
        put(world, name)
    Nemesis(world).unleash()
    world.run(5_000)
    return world


def test_all_nodes_are_down_at_once_now_and_then() -> None:
    for seed in range(10):
        world = World(seed, PROFILES["crash"])
        nodes = [put(world, name).node for name in ("a", "b", "c")]
        Nemesis(world).unleash()
        for ms in range(3_000):
            world.run(ms)
            if "crash_all" in world.marks and not any(node.up for node in nodes):
                return
    raise AssertionError("somebody was always up")


def test_profile_none_has_no_fault_at_all() -> None:
    world = storm("none", 1)
    assert world.marks == {}
    assert all(node.incarnation == 1 for node in world.nodes.values())
    assert not world.fabric.blocked
    assert not world.fabric.clogged


@pytest.mark.parametrize("fault", ["crash", "pause", "clock_jump", "rot", "slow_disk", "full_disk"])
def test_a_fault_that_is_not_permitted_spares_the_node(fault: str) -> None:
    faults = Faults(
        disk=PROFILES["disk"].disk, time=PROFILES["clock"].time, nodes=PROFILES["crash"].nodes
    )
    trace = Trace()
    world = World(1, faults, trace)
    for name in ("spared", "struck"):
        host = put(world, name)
        host.disk.write(FILE, 0, b"x")
        host.disk.sync(FILE)
    Nemesis(world, lambda asked, node: asked != fault or node != "spared").unleash()
    world.run(20_000)
    columns = [line.split() for line in trace.lines]
    hit = {
        who.partition(".")[0]
        for _, who, glyph, what, *_ in columns
        if (glyph, what) == ("!", fault)
    }
    assert hit == {"struck"}


def test_reads_fail_only_where_that_is_permitted_and_never_after_the_storm() -> None:
    faults = Faults(disk=DiskFaults(read_error=1.0))
    world = World(1, faults)
    hosts = {name: put(world, name) for name in ("spared", "struck")}
    nemesis = Nemesis(world, lambda fault, node: fault != "read_error" or node == "struck")
    nemesis.unleash()
    for name, fails in (("spared", False), ("struck", True)):
        assert hosts[name].disk.steady is not fails
    nemesis.stop()
    assert all(host.disk.steady for host in hosts.values())


def test_after_the_storm_disks_have_room_and_are_quick_again() -> None:
    world = World(1, Faults())
    host = put(world, "a", on_start(Write(WriteId(0), FILE, 0, b"x")))
    nemesis = Nemesis(world)
    nemesis.unleash()
    host.disk.full = host.slow = True
    nemesis.stop()
    world.run(1)
    assert [event.write for event in seen(host, Written)] == [0]


def test_a_violated_invariant_ends_the_run_and_names_its_node() -> None:
    class Broken(Scripted):
        def invariants(self) -> list[Violation]:
            return [Violation("I1", "seen")] if len(self.seen) > 1 else []

    world = World(1, Faults())
    node = world.add_node("a")
    world.host(node, "m", lambda: Broken(on_start(SetTimer(TIMER, 5), SetTimer(OTHER_TIMER, 9))))
    world.start(node)
    assert not world.run(20)
    assert world.violations == [Violation("I1", "a.m: seen")]
    assert world.virtual.elapsed_ns == 5 * MS


def test_a_read_in_the_calm_after_the_storm_succeeds() -> None:
    world = World(1, Faults(disk=DiskFaults(read_error=1.0)))
    host = put(world, "a", on_start(Read(ReadId(0), FILE)), start=False)
    host.disk.write(FILE, 0, b"x")
    host.disk.sync(FILE)
    nemesis = Nemesis(world)
    nemesis.unleash()
    nemesis.stop()
    world.run(10)
    assert [event.data for event in seen(host, ReadBack)] == [b"x"]
