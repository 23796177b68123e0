"""The fold counts what a shop sells, and everything that should not happen in its feed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tests.demos.shop.feeds import NOON, FakeShop, busy_shop

from motet.demos.shop.report import Sales, fold
from motet.demos.shop.writer import LEFT_AT_FIRST, PRICES_CENTS, RESTOCKED_PIECES


def test_a_sound_feed_has_no_faults() -> None:
    shop = busy_shop()
    folded = fold(shop.changes)
    assert folded.changes == len(shop.changes)
    assert {sku: left.pieces for sku, left in folded.stock.items()} == shop.left
    faults = (
        folded.repeated_changes,
        folded.repeated_orders,
        folded.torn_transactions,
        folded.negative_prefixes,
        folded.miscounted,
        folded.disordered,
    )
    assert faults == (0, 0, 0, 0, 0, 0)


def test_sales_are_summed_by_minute_and_piece() -> None:
    shop = FakeShop()  # the shelves are filled at 12:00:20
    shop.order("a", "credo", 1)  # 12:00:40
    shop.order("b", "credo", 2)  # 12:01:00
    shop.order("c", "kyrie", 3)  # 12:01:20
    shop.order("d", "credo", 3)  # 12:01:40
    minute = NOON + timedelta(minutes=1)
    assert fold(shop.changes).sales == {
        (NOON, "credo"): Sales(1, 1, PRICES_CENTS["credo"]),
        (minute, "credo"): Sales(2, 5, 5 * PRICES_CENTS["credo"]),
        (minute, "kyrie"): Sales(1, 3, 3 * PRICES_CENTS["kyrie"]),
    }


def test_of_each_piece_the_last_row_and_its_clock_stay() -> None:
    shop = FakeShop()
    shop.order("a", "credo", 2)
    shop.restock("credo")
    left = fold(shop.changes).stock["credo"]
    assert left == (LEFT_AT_FIRST - 2 + RESTOCKED_PIECES, shop.changes[-1].clock)


def test_a_change_that_is_there_twice_is_counted() -> None:
    changes = busy_shop().changes
    folded = fold([*changes[:6], changes[5], *changes[6:]])
    assert folded.repeated_changes == 1
    assert folded.disordered == 1


def test_an_order_that_two_transactions_placed_is_counted() -> None:
    shop = FakeShop()
    shop.order("a")
    shop.order("a")
    folded = fold(shop.changes)
    assert (folded.repeated_orders, folded.repeated_changes) == (1, 0)


def test_a_transaction_of_which_a_change_is_missing_is_counted() -> None:
    changes = busy_shop().changes
    lost = next(change for change in changes if change.count == 2 and change.index == 0)
    folded = fold(change for change in changes if change is not lost)
    assert folded.torn_transactions == 1
    assert not folded.is_whole(lost.transaction)


def test_a_transaction_that_is_not_there_is_not_whole() -> None:
    assert not fold([]).is_whole("t1")


def test_every_prefix_below_zero_is_counted() -> None:
    shop = FakeShop()
    shop.order("a", "credo", LEFT_AT_FIRST + 1)  # its second change brings it below zero
    shop.order("b", "kyrie", 1)  # two more prefixes
    shop.restock("credo")
    assert fold(shop.changes).negative_prefixes == 3


def test_a_piece_that_was_sold_twice_is_miscounted() -> None:
    shop = FakeShop()
    shop.order("a", "credo", 2)
    shop.left["credo"] = LEFT_AT_FIRST  # another writer has not seen it
    shop.order("b", "credo", 1)
    assert fold(shop.changes).miscounted == 1


def test_a_shelf_that_was_not_filled_right_is_miscounted() -> None:
    changes = FakeShop().changes
    row = {**changes[0].row, "left": LEFT_AT_FIRST + 1}
    assert fold([replace(changes[0], row=row), *changes[1:]]).miscounted == 1


def test_two_changes_that_have_changed_places_are_disordered() -> None:
    changes = busy_shop().changes
    changes[5], changes[6] = changes[6], changes[5]
    assert fold(changes).disordered == 1
