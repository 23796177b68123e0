"""Folds the feed of the shop in plain Python: what is left, what was sold, and every rule that was broken.

It knows nothing of writers, Spark or tables, and looks at each change once, in the order of the feed. Its
arithmetic is that of a shop: what is left of a piece falls by what the order of the same transaction took, or
rises by a delivery. Anything else is miscounted: two writers who sold the same piece show up here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from motet.core.clock.hlc import Clock
from motet.demos.shop.goods import LEFT_AT_FIRST, ORDERS, RESTOCKED_PIECES, STOCK


class FeedChange(Protocol):
    """What is looked at of a change."""

    @property
    def clock(self) -> Clock | None: ...
    @property
    def transaction(self) -> str: ...
    @property
    def index(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def stream(self) -> str: ...
    @property
    def row(self) -> Any: ...
    @property
    def at(self) -> datetime: ...


def clock_of(change: FeedChange) -> Clock:
    """Its clock: nobody turns it off in this story."""
    assert change.clock is not None
    return change.clock


class Left(NamedTuple):
    """What is left of a piece, since when."""

    pieces: int
    clock: Clock


class Sales(NamedTuple):
    """Sums of some orders."""

    orders: int
    quantity: int
    cents: int

    def plus(self, other: Sales) -> Sales:
        return Sales(
            self.orders + other.orders, self.quantity + other.quantity, self.cents + other.cents
        )


NO_SALES = Sales(0, 0, 0)
SalesKey = tuple[datetime, str]
"""A minute and a piece."""


@dataclass
class Folded:
    """The feed, looked at once from its beginning to its end."""

    changes: int = 0
    #: transaction -> the places of its changes that were seen, and how many it says it has
    transactions: dict[str, tuple[list[int], int]] = field(default_factory=dict)
    #: order -> the transactions that placed it, each once
    orders: dict[str, dict[str, None]] = field(default_factory=dict)
    stock: dict[str, Left] = field(default_factory=dict)
    sales: dict[SalesKey, Sales] = field(default_factory=dict)
    #: prefixes of the feed, one per change, in which anything is below zero
    negative_prefixes: int = 0
    #: changes of the stock that do not follow from what was left before
    miscounted: int = 0
    #: changes that come before one they should follow
    disordered: int = 0
    #: for the chart: when, what, and how much was left then; when, and for how many cents was sold
    stock_history: list[tuple[datetime, str, int]] = field(default_factory=list)
    sales_history: list[tuple[datetime, int]] = field(default_factory=list)
    last: tuple[Clock, str, int] | None = None
    #: what the order that was seen last takes from the stock: its transaction, what, how many
    _taken: tuple[str, str, int] | None = None

    @property
    def repeated_changes(self) -> int:
        """Changes that are in the feed more than once."""
        return sum(len(seen) - len(set(seen)) for seen, _ in self.transactions.values())

    @property
    def repeated_orders(self) -> int:
        """Orders that another transaction had placed already."""
        return sum(len(placed) - 1 for placed in self.orders.values())

    @property
    def torn_transactions(self) -> int:
        """Transactions of which a part is missing."""
        return sum(not self.is_whole(name) for name in self.transactions)

    def is_whole(self, transaction: str) -> bool:
        """Whether all changes of a transaction are there."""
        seen, count = self.transactions.get(transaction, ([], 1))
        return len(set(seen)) == count

    def take(self, change: FeedChange) -> None:
        """The next change."""
        self.changes += 1
        place = (clock_of(change), change.transaction, change.index)
        self.disordered += self.last is not None and place <= self.last
        self.last = place
        seen, _ = self.transactions.setdefault(change.transaction, ([], change.count))
        seen.append(change.index)
        if change.stream == ORDERS:
            self._sold(change)
        elif change.stream == STOCK:
            self._moved(change)
        self.negative_prefixes += any(left.pieces < 0 for left in self.stock.values())

    def _sold(self, change: FeedChange) -> None:
        row = change.row
        self.orders.setdefault(row["name"], {})[change.transaction] = None
        key = (change.at.replace(second=0, microsecond=0), row["sku"])
        sold = Sales(1, row["quantity"], row["cents"])
        self.sales[key] = self.sales.get(key, NO_SALES).plus(sold)
        self.sales_history.append((change.at, row["cents"]))
        self._taken = (change.transaction, row["sku"], row["quantity"])

    def _moved(self, change: FeedChange) -> None:
        sku, left = change.row["sku"], change.row["left"]
        self.miscounted += left != self._expected_left(change.transaction, sku)
        self.stock[sku] = Left(left, clock_of(change))
        self.stock_history.append((change.at, sku, left))

    def _expected_left(self, transaction: str, sku: str) -> int:
        if sku not in self.stock:
            return LEFT_AT_FIRST
        before = self.stock[sku].pieces
        if self._taken is not None and self._taken[:2] == (transaction, sku):
            return before - self._taken[2]
        return before + RESTOCKED_PIECES


def fold(changes: Iterable[FeedChange]) -> Folded:
    """The whole feed."""
    folded = Folded()
    for change in changes:
        folded.take(change)
    return folded
