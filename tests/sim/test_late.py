"""Messages that the network keeps, and delivers in another life of whoever they are about."""

from __future__ import annotations

from tests.sim.scripted import Hello, on_start, put, seen

from motet.core.machine import Received, Send
from motet.ids import Address
from motet.sim.faults import Faults, NetworkFaults
from motet.sim.network import LATE, LATE_AFTER_RESTART, LateMessages
from motet.sim.world import World

KEEPS_ALL = Faults(network=NetworkFaults(kept=1.0, kept_ms_max=1))


def kept_world(seed: int) -> World:
    world = World(seed, KEEPS_ALL)
    world.late = LateMessages(world)
    return world


def test_a_copy_arrives_after_the_restart_of_its_receiver_or_its_sender() -> None:
    for restarted in ("a", "b"):
        marks: dict[str, int] = {}
        for seed in range(10):
            world = kept_world(seed)
            b = put(world, "b")
            put(world, "a", on_start(Send(Address("b"), Hello(7))))
            world.run(20)
            before = len(seen(b, Received))
            assert before == 2, "the message, and a copy that came soon"
            node = world.nodes[Address(restarted)]
            world.crash(node)
            world.start(node)
            world.run(2_000)
            marks |= dict.fromkeys(world.marks, 1)
        assert marks.keys() >= {LATE, LATE_AFTER_RESTART}


def test_a_rare_kind_of_message_is_kept_though_few_are() -> None:
    world = World(1, Faults(network=NetworkFaults(kept=0.000001, kept_ms_max=1)))
    world.late = LateMessages(world)
    b = put(world, "b")
    put(world, "a", on_start(Send(Address("b"), Hello(7))))
    world.run(20)
    assert len(seen(b, Received)) == 2


def test_nothing_comes_late_when_the_storm_is_over() -> None:
    world = kept_world(1)
    b = put(world, "b")
    a = put(world, "a", on_start(Send(Address("b"), Hello(7))))
    world.fabric.healed = True
    world.run(20)
    world.crash(a.node)
    world.run(2_000)
    assert len(seen(b, Received)) == 1
