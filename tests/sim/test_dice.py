"""A seed decides, and streams of one seed do not disturb each other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from motet.sim.dice import Dice


def throws(dice: Dice) -> list[int]:
    return [dice.between(0, 1_000_000) for _ in range(20)]


def test_the_same_seed_and_name_throw_the_same() -> None:
    assert throws(Dice(7, "a")) == throws(Dice(7, "a"))
    assert throws(Dice(7, "a")) != throws(Dice(8, "a"))
    assert throws(Dice(7, "a")) != throws(Dice(7, "b"))


def test_a_fork_does_not_depend_on_how_far_its_parent_was_thrown() -> None:
    fresh, used = Dice(1), Dice(1)
    throws(used)
    assert throws(fresh.fork("disk")) == throws(used.fork("disk"))


@given(st.integers(), st.integers(-5, 5), st.integers(0, 7))
def test_between_reaches_both_ends_and_nothing_else(seed: int, low: int, width: int) -> None:
    dice = Dice(seed)
    seen = {dice.between(low, low + width) for _ in range(400)}
    assert seen == set(range(low, low + width + 1))


def test_chance_zero_and_one_are_certain() -> None:
    dice = Dice(3)
    assert not any(dice.chance(0.0) for _ in range(100))
    assert all(dice.chance(1.0) for _ in range(100))


def test_shuffled_keeps_everything_and_changes_the_order() -> None:
    dice, cards = Dice(5), list(range(30))
    shuffled = dice.shuffled(cards)
    assert sorted(shuffled) == cards
    assert shuffled != cards


def test_nonces_are_fresh_and_never_zero() -> None:
    dice = Dice(9)
    nonces = [dice.nonce() for _ in range(1_000)]
    assert len(set(nonces)) == 1_000
    assert all(0 < nonce < 1 << 63 for nonce in nonces)
