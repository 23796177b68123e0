"""The network between machines: each fault has its effect, and without faults there is none."""

from __future__ import annotations

import pytest
from tests.sim.scripted import TIMER, Answer, Hello, all_seen, heard, on_start, put, seen

from motet.core.machine import NS_PER_MS, Effect, Event, Fired, Send, SetTimer, Started
from motet.ids import Address
from motet.sim.faults import PROFILES, Faults, NetworkFaults
from motet.sim.nemesis import Nemesis
from motet.sim.world import World

A, B = Address("a"), Address("b")
MESSAGES = 400


def stream(event: Event) -> list[Effect]:
    """A few messages each millisecond, numbered."""
    if not isinstance(event, Started | Fired):
        return []
    first = 4 * round(event.now.monotonic_ns / NS_PER_MS)
    sends: list[Effect] = [Send(B, Hello(first + number)) for number in range(4)]
    return [*sends, SetTimer(TIMER, 1)] if first < MESSAGES else []


def streamed(faults: NetworkFaults, seed: int = 1) -> list[int]:
    """What of the numbers from 0 to 399 arrived, in order."""
    world = World(seed, Faults(network=faults))
    receiver = put(world, "b")
    put(world, "a", stream)
    world.run(1_000)
    return heard(receiver)


@pytest.mark.parametrize("seed", range(5))
def test_without_faults_everything_arrives_once_and_in_order(seed: int) -> None:
    assert streamed(PROFILES["none"].network, seed) == [*range(MESSAGES)]


def test_a_jittery_delay_alone_reorders_nothing() -> None:
    """One link is one connection; only what is told to may overtake on it."""
    assert streamed(NetworkFaults(delay_us_min=1, delay_us_max=20_000)) == [*range(MESSAGES)]


def test_delay_has_its_bounds() -> None:
    world = World(1, Faults(network=NetworkFaults(delay_us_min=7_000, delay_us_max=9_000)))
    receiver = put(world, "b")
    put(world, "a", on_start(Send(B, Hello(1))))
    world.run(6)
    assert heard(receiver) == []
    world.run(9)
    assert heard(receiver) == [1]


def test_loss_loses_and_does_nothing_else() -> None:
    arrived = streamed(NetworkFaults(loss=0.2))
    assert 0.6 * MESSAGES < len(arrived) < 0.95 * MESSAGES
    assert arrived == sorted(set(arrived))


def test_duplication_repeats_and_loses_nothing() -> None:
    arrived = streamed(NetworkFaults(duplication=0.2))
    assert sorted(set(arrived)) == [*range(MESSAGES)]
    repeated = {number for number in arrived if arrived.count(number) == 2}
    assert 0.05 * MESSAGES < len(repeated) < 0.4 * MESSAGES
    assert len(arrived) == MESSAGES + len(repeated)


def test_reordering_swaps_and_neither_loses_nor_repeats() -> None:
    arrived = streamed(NetworkFaults(reordering=0.1))
    assert sorted(arrived) == [*range(MESSAGES)]
    assert arrived != sorted(arrived)


def test_a_copy_reaches_a_later_incarnation_of_its_receiver() -> None:
    """Both copies of one message, one before and one after a crash."""
    faults = NetworkFaults(delay_us_min=1_000, delay_us_max=1_000, duplication=1.0)
    for seed in range(50):
        world = World(seed, Faults(network=faults))
        receiver = put(world, "b")
        put(world, "a", on_start(Send(B, Hello(1))))
        world.run(1)
        first = heard(receiver)
        world.crash(receiver.node)
        world.start(receiver.node)
        world.run(100)
        if first == heard(receiver) == [1]:
            return
    raise AssertionError("no copy was late enough")


def test_old_messages_of_a_crashed_sender_may_arrive_behind_those_of_its_next_life() -> None:
    orders = set()
    for seed in range(50):
        world = World(seed, Faults(network=NetworkFaults(delay_us_min=10, delay_us_max=9_000)))
        receiver = put(world, "b")
        host = put(world, "a", lambda event: [Send(B, Hello(event.now.wall_ns % 10**9 // 10**6))])
        world.run(1)
        world.crash(host.node)
        world.start(host.node)
        world.run(100)
        orders.add(tuple(heard(receiver)))
    assert orders == {(0, 1), (1, 0)}


def test_a_message_to_oneself_arrives_in_a_partition_too() -> None:
    world = World(1, Faults())
    host = put(world, "a", on_start(Send(A, Hello(1))))
    put(world, "b")
    world.fabric.cut([A], [B], one_way=False)
    world.run(10)
    assert heard(host) == [1]
    assert len(all_seen(host)) == 2


@pytest.mark.parametrize("one_way", [False, True])
def test_a_partition_silences_machines_until_it_heals(one_way: bool) -> None:
    world = World(1, Faults())
    left, right = put(world, "a", chatter(B)), put(world, "b", chatter(A))
    world.fabric.cut([A], [B], one_way=one_way)
    world.run(10)
    assert heard(right) == []
    assert bool(heard(left)) is one_way
    world.fabric.heal()
    world.run(20)
    assert heard(right)
    assert heard(left)


def chatter(to: Address) -> Answer:
    def answer(event: Event) -> list[Effect]:
        if isinstance(event, Started | Fired):
            return [Send(to, Hello(0)), SetTimer(TIMER, 1)]
        return []

    return answer


def test_a_clogged_link_delivers_late_and_in_order_while_others_flow() -> None:
    world = World(1, Faults())
    receiver, other = put(world, "b"), put(world, "c")
    put(world, "a", on_start(*[Send(to, Hello(n)) for n in range(9) for to in (B, Address("c"))]))
    world.fabric.clogged[A, B] = 50 * NS_PER_MS
    world.run(49)
    assert heard(receiver) == []
    assert heard(other) == [*range(9)]
    world.run(60)
    assert heard(receiver) == [*range(9)]


def test_the_nemesis_cuts_clients_off_and_lets_each_direction_go_alone() -> None:
    links: set[tuple[str, str]] = set()
    lone = False
    for seed in range(20):
        world = World(seed, PROFILES["network"])
        put(world, "a")
        put(world, "b")
        world.add_node("client", immune=True)
        Nemesis(world).unleash()
        for ms in range(0, 4_000, 20):
            world.run(ms)
            links.update(world.fabric.blocked)
            lone = lone or any((b, a) not in world.fabric.blocked for a, b in world.fabric.blocked)
    names = ("a", "b", "client")
    assert links == {(x, y) for x in names for y in names if x != y}
    assert lone


def test_when_the_storm_is_over_nothing_is_lost_any_more() -> None:
    world = World(1, Faults(network=NetworkFaults(loss=0.9, duplication=0.5, reordering=0.5)))
    receiver = put(world, "b")
    put(world, "a", stream)
    nemesis = Nemesis(world)
    nemesis.unleash()
    nemesis.stop()
    world.run(1_000)
    assert heard(receiver) == [*range(MESSAGES)]
    assert seen(receiver, Started)
