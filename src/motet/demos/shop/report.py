"""What the demo proves, in numbers: the journals, the folded feed and the tables held against each other.

The fold knows nothing of writers, Spark or tables, and looks at each change once, in the order of the feed.
Its arithmetic is that of a shop: what is left of a piece falls by what the order of the same transaction
took, or rises by a delivery. Anything else is miscounted: two writers who sold the same piece show up here.

Pure: everything comes in as plain data, so that tests can plant every fault that it is to count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from motet.core.clock.hlc import Clock
from motet.demos.shop.writer import (
    LEFT_AT_FIRST,
    ORDERS,
    RESTOCKED_PIECES,
    STOCK,
    Done,
    Line,
    Refused,
    Unknown,
    undecided,
)


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


Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """What the writers know, from all their journals."""

    done: tuple[Done, ...]
    refused: int
    conflicts: int
    #: orders and deliveries whose answer did not come
    unknown: int
    #: orders that were placed again, and found to be there
    found_again: int
    #: orders of which nobody ever learned whether they were placed
    undecided: int


def acknowledged(journals: Iterable[Sequence[Line]]) -> Acknowledged:
    """Read the journals of all lives of all writers, of each writer in order."""
    lines = [line for journal in journals for line in journal]
    done = [line for line in lines if isinstance(line, Done)]
    refused = [line for line in lines if isinstance(line, Refused)]
    return Acknowledged(
        done=tuple(done),
        refused=len(refused),
        conflicts=sum(line.conflicts for line in done) + sum(line.conflicts for line in refused),
        unknown=sum(isinstance(line, Unknown) for line in lines),
        found_again=sum(line.found for line in done),
        undecided=len(undecided(lines)),
    )


@dataclass(frozen=True, slots=True)
class Tables:
    """What the pipeline has made."""

    stock_now: Sequence[Row]
    sales_by_minute: Sequence[Row]
    #: the clock that they reflect
    clock: Clock | None
    #: steps of the pipeline
    batches: int
    #: what `motet pipeline check` says of each
    checks: Sequence[Row]
    #: the hashes of their parts by place, as they were committed, and as each node has them
    parts: Mapping[str, str]
    replicas: Mapping[str, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Proof:
    """The numbers that have to be zero, and whether the tables are what the feed says."""

    lost: int
    doubled: int
    negative_stock: int
    miscounted: int
    torn: int
    disordered: int
    #: None without Spark: there are no tables
    tables_equal: bool | None
    #: every node has every part of them, with the bytes that were committed
    replicas_equal: bool | None

    @property
    def is_ok(self) -> bool:
        faults = (self.lost, self.doubled, self.negative_stock, self.miscounted, self.torn)
        are_equal = self.tables_equal is not False and self.replicas_equal is not False
        return not any((*faults, self.disordered)) and are_equal


def prove(known: Acknowledged, folded: Folded, tables: Tables | None) -> Proof:
    """Hold everything against everything."""
    return Proof(
        lost=sum(not is_there(done, folded) for done in known.done),
        doubled=folded.repeated_orders + folded.repeated_changes,
        negative_stock=folded.negative_prefixes,
        miscounted=folded.miscounted,
        torn=folded.torn_transactions,
        disordered=folded.disordered,
        tables_equal=None if tables is None else tables_equal(folded, tables),
        replicas_equal=None if tables is None else replicas_equal(tables),
    )


def is_there(done: Done, folded: Folded) -> bool:
    """Whether the feed has what was acknowledged, all of it."""
    return folded.is_whole(done.transaction) and (done.order is None or done.order in folded.orders)


def tables_equal(folded: Folded, tables: Tables) -> bool:
    """Whether the tables reflect the whole feed, and are what two recomputations say."""
    if folded.last is None or tables.clock is None or tables.clock < folded.last[0]:
        return False
    return (
        stock_of(tables.stock_now) == folded.stock
        and sales_of(tables.sales_by_minute) == folded.sales
        and len(tables.checks) > 0
        and all(check["equal"] is True for check in tables.checks)
    )


def replicas_equal(tables: Tables) -> bool:
    """Whether all nodes have the same parts, those that were committed."""
    return len(tables.parts) > 0 and all(
        stored == tables.parts for stored in tables.replicas.values()
    )


def stock_of(rows: Sequence[Row]) -> dict[str, Left]:
    """The table ``stock_now`` as the fold has it; a piece that is there twice gets a name of its own."""
    found: dict[str, Left] = {}
    for row in rows:
        clock = Clock(row["clock"]["logical"], row["clock"]["counter"])
        sku = row["sku"] if row["sku"] not in found else f"{row['sku']} once more"
        found[sku] = Left(row["left"], clock)
    return found


def sales_of(rows: Sequence[Row]) -> dict[SalesKey, Sales]:
    """The table ``sales_by_minute``, summed up: each batch has a row for what it saw of a minute."""
    found: dict[SalesKey, Sales] = {}
    for row in rows:
        key = (row["minute"], row["sku"])
        sums = Sales(row["orders"], row["quantity"], row["cents"])
        found[key] = found.get(key, NO_SALES).plus(sums)
    return found
