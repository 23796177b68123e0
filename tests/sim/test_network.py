"""The fabric: who reaches whom, how often, and when."""

from __future__ import annotations

from motet.ids import Address
from motet.sim.dice import Dice
from motet.sim.faults import NetworkFaults
from motet.sim.network import NS_PER_US, Fabric

A, B, C = Address("a"), Address("b"), Address("c")


def test_an_undisturbed_message_arrives_once_within_its_bounds() -> None:
    fabric = Fabric(Dice(1), NetworkFaults(delay_us_min=10, delay_us_max=20))
    for _ in range(1_000):
        (delay_ns,) = fabric.fates_ns(A, B, 0)
        assert 10 * NS_PER_US <= delay_ns <= 20 * NS_PER_US


def test_loss_and_duplication_come_about_as_often_as_said() -> None:
    fabric = Fabric(Dice(1), NetworkFaults(loss=0.25, duplication=0.5))
    copies = [len(fabric.fates_ns(A, B, 0)) for _ in range(10_000)]
    assert 0.22 < copies.count(0) / len(copies) < 0.28
    assert 0.46 < copies.count(2) / (len(copies) - copies.count(0)) < 0.54
    assert fabric.counts.lost == copies.count(0)


def test_reordering_lets_a_later_message_overtake() -> None:
    fabric = Fabric(Dice(1), NetworkFaults(reordering=0.2))
    arrivals = [at + fabric.fates_ns(A, B, 0)[0] for at in range(0, 10**8, 10**6)]
    assert arrivals != sorted(arrivals)


def test_a_one_way_cut_blocks_one_direction() -> None:
    fabric = Fabric(Dice(1), NetworkFaults())
    fabric.cut([A], [B, C], one_way=True)
    assert fabric.fates_ns(A, B, 0) == []
    assert fabric.fates_ns(B, A, 0) != []
    assert fabric.fates_ns(B, C, 0) != []
    fabric.heal()
    assert fabric.fates_ns(A, B, 0) != []


def test_a_symmetric_cut_blocks_both() -> None:
    fabric = Fabric(Dice(1), NetworkFaults())
    fabric.cut([A], [B], one_way=False)
    assert fabric.fates_ns(A, B, 0) == fabric.fates_ns(B, A, 0) == []


def test_a_clogged_link_holds_everything_back_and_loses_nothing() -> None:
    fabric = Fabric(Dice(1), NetworkFaults(delay_us_min=1, delay_us_max=1))
    fabric.clogged[A, B] = 5_000_000
    assert fabric.fates_ns(A, B, 1_000_000) == [4_000_000 + NS_PER_US]
    assert fabric.fates_ns(A, B, 6_000_000) == [NS_PER_US]


def test_a_healed_fabric_loses_nothing() -> None:
    fabric = Fabric(Dice(1), NetworkFaults(loss=1.0))
    assert fabric.fates_ns(A, B, 0) == []
    fabric.healed = True
    assert len(fabric.fates_ns(A, B, 0)) == 1
