"""Feeds of the shop for tests: what writers, Spark and the database would have made of a few orders."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from motet.core.clock.hlc import Clock
from motet.demos.shop.report import Tables, fold
from motet.demos.shop.writer import (
    LEFT_AT_FIRST,
    ORDERS,
    PRICES_CENTS,
    RESTOCKED_PIECES,
    STOCK,
    Done,
    Line,
    Order,
    Try,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class FakeChange:
    clock: Clock
    transaction: str
    index: int
    count: int
    stream: str
    row: dict[str, Any]
    at: datetime


class FakeShop:
    """A shop without a database: every transaction takes twenty seconds."""

    def __init__(self) -> None:
        self.changes: list[FakeChange] = []
        self.journal: list[Line] = []
        self.left = dict.fromkeys(PRICES_CENTS, LEFT_AT_FIRST)
        self._transactions = 0
        self._commit([(STOCK, {"sku": sku, "left": left}) for sku, left in self.left.items()])

    def order(self, name: str, sku: str = "credo", quantity: int = 2) -> None:
        self.left[sku] -= quantity
        cents = quantity * PRICES_CENTS[sku]
        row = {"name": name, "sku": sku, "quantity": quantity, "cents": cents}
        moved = {"sku": sku, "left": self.left[sku]}
        transaction = self._commit([(ORDERS, row), (STOCK, moved)])
        self.journal += [Try(Order(name, sku, quantity)), Done(transaction, name, conflicts=0)]

    def restock(self, sku: str = "credo") -> None:
        self.left[sku] += RESTOCKED_PIECES
        transaction = self._commit([(STOCK, {"sku": sku, "left": self.left[sku]})])
        self.journal.append(Done(transaction, None, conflicts=1))

    def _commit(self, rows: list[tuple[str, dict[str, Any]]]) -> str:
        self._transactions += 1
        clock, name = Clock(1000 + self._transactions, 0), f"t{self._transactions}"
        at = NOON + timedelta(seconds=20 * self._transactions)
        self.changes += [
            FakeChange(clock, name, index, len(rows), stream, row, at)
            for index, (stream, row) in enumerate(rows)
        ]
        return name

    def tables(self) -> Tables:
        """What the pipeline makes of it, in batches of two changes."""
        folded = fold(self.changes)
        sales = [
            {"minute": minute, "sku": sku, **sums._asdict()}
            for first in range(0, len(self.changes), 2)
            for (minute, sku), sums in fold(self.changes[first : first + 2]).sales.items()
        ]
        stock = [
            {"sku": sku, "left": left.pieces, "clock": clock_struct(left.clock)}
            for sku, left in folded.stock.items()
        ]
        checks = [{"table": "stock_now", "equal": True}, {"table": "sales", "equal": True}]
        parts = {"1/0/a": "hash of a", "2/0/b": "hash of b"}
        replicas = {f"n{i}": dict(parts) for i in range(3)}
        return Tables(stock, sales, self.changes[-1].clock, 7, checks, parts, replicas)


def clock_struct(clock: Clock) -> dict[str, int]:
    return {"logical": clock.logical, "counter": clock.counter}


def busy_shop() -> FakeShop:
    """Orders of several pieces over some minutes, and a delivery."""
    shop = FakeShop()
    for number in range(8):
        shop.order(f"o{number}", sku=["credo", "kyrie"][number % 2], quantity=1 + number % 3)
    shop.restock()
    shop.order("last", quantity=3)
    return shop
