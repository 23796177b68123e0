"""A writer process of the shop: sells until its standard input ends, and notes what it did in its journal.

``python -m motet.demos.shop.writer ENDPOINT FOLDER NUMBER LIFE``

An order reads what is left and writes what is left then, in one transaction, so two writers never sell the
same piece. It also reads its own name: an order of which no answer came is simply placed again, in this life
or the next, and is there once.

A line of the journal is written with one call, before the transaction begins and after it was acknowledged.
What has a first line and no second was under way when the writer was killed: it is there, or it is not. A
line without an end was cut off, and says nothing.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

import motet
from motet.client.change import Change
from motet.client.sync import Database, Transaction
from motet.errors import Conflict, NodeError, OutcomeUnknown
from motet.errors.shards import ShardError
from motet.sim.dice import Dice

ORDERS, STOCK = "orders", "stock"
"""The two streams: a row of ``orders`` per order, a row of ``stock`` per change of what is left."""

STOCK_NOW, SALES = "stock_now", "sales_by_minute"
"""The two tables of the pipeline."""

PIPELINE = "shop"
"""The name under which the pipeline publishes."""


class Order(NamedTuple):
    """What somebody wants to buy. Its name is the key of its row: placed twice, it is there once."""

    name: str
    sku: str
    quantity: int


PRICES_CENTS = {"kyrie": 450, "gloria": 600, "credo": 900, "sanctus": 350}

LEFT_AT_FIRST = 40
"""Pieces of each that the shop opens with."""

QUANTITY_MAX = 3
RESTOCKED_PIECES = 36
RESTOCK_CHANCE = 0.05
"""How often a writer fills up instead of selling: a little too rarely, so that orders have to be refused."""


class Try(msgspec.Struct, frozen=True, tag="try"):
    """This is going to be done."""

    order: Order


class Done(msgspec.Struct, frozen=True, tag="done"):
    """It was acknowledged, after so many conflicts."""

    transaction: str
    #: None for a delivery to the shop
    order: str | None
    conflicts: int
    #: it had been there already when it was tried again
    found: bool = False


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """It was not done, and never will be."""

    order: str
    why: Literal["sold out", "conflict"]
    conflicts: int


class Unknown(msgspec.Struct, frozen=True, tag="unknown"):
    """No answer came."""

    order: str | None


Line = Try | Done | Refused | Unknown
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Line).decode


class Journal:
    """The journal of one life of one writer."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, line: Line) -> None:
        os.write(self._file, _encode(line) + b"\n")


def read_journal(path: Path) -> list[Line]:
    """All lines that are whole; none if there is no such file yet."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    return [_decode(line) for line in data.splitlines(keepends=True) if line.endswith(b"\n")]


def undecided(lines: Iterable[Line]) -> list[Order]:
    """The orders of which it is not known whether they were placed."""
    open_: dict[str, Order] = {}
    for line in lines:
        if isinstance(line, Try):
            open_[line.order.name] = line.order
        elif not isinstance(line, Unknown) and line.order is not None:
            open_.pop(line.order, None)
    return list(open_.values())


pause_seconds = 0.04
"""Between two transactions of one writer: the demo is about what is right, and Spark wants cores too."""


@dataclass
class Attempt:
    """One order on its way: the function that is run again at each conflict."""

    order: Order
    runs: int = 0
    #: the transaction that had placed it before
    found: str | None = None
    is_sold_out: bool = False

    def __call__(self, txn: Transaction) -> str:
        self.runs += 1
        name, sku, quantity = self.order
        before = txn.get(ORDERS, name)
        if isinstance(before, Change):
            self.found = before.transaction
            return self.found
        left = left_of(txn, sku)
        self.is_sold_out = left < quantity
        if not self.is_sold_out:
            cents = quantity * PRICES_CENTS[sku]
            row = {"name": name, "sku": sku, "quantity": quantity, "cents": cents}
            txn.change(ORDERS, key=name, op="insert", row=row)
            set_left(txn, sku, left - quantity)
        return txn.id


def left_of(txn: Transaction, sku: str) -> int:
    """What is left of a piece."""
    found = txn.get(STOCK, sku)
    return 0 if found is None else int(found.row["left"])


def set_left(txn: Transaction, sku: str, left: int) -> None:
    """Say what is left of a piece from now on."""
    txn.change(STOCK, key=sku, op="update", row={"sku": sku, "left": left})


class Writer:
    """Sells and restocks, one transaction after the other."""

    def __init__(self, db: Database, journal: Journal, dice: Dice) -> None:
        self._db = db
        self._journal = journal
        self._dice = dice

    def order(self, order: Order) -> None:
        """Place an order, or refuse it. It ends when that is known."""
        self._journal.write(Try(order))
        while True:
            attempt = Attempt(order)
            try:
                transaction = self._db.transact(attempt)
            except OutcomeUnknown:
                self._journal.write(Unknown(order.name))
                continue
            except Conflict:
                self._journal.write(Refused(order.name, "conflict", attempt.runs))
                return
            except (NodeError, ShardError):
                continue  # a leader is gone, and nothing was changed
            conflicts = attempt.runs - 1
            if attempt.is_sold_out:
                self._journal.write(Refused(order.name, "sold out", conflicts))
            else:
                found = attempt.found is not None
                self._journal.write(Done(transaction, order.name, conflicts, found))
            return

    def restock(self, sku: str) -> None:
        """Take a delivery. One of which no answer came is not repeated: it has no name to look for."""
        runs = 0

        def fill(txn: Transaction) -> str:
            nonlocal runs
            runs += 1
            set_left(txn, sku, left_of(txn, sku) + RESTOCKED_PIECES)
            return txn.id

        try:
            transaction = self._db.transact(fill)
        except OutcomeUnknown:
            self._journal.write(Unknown(None))
        except (Conflict, NodeError, ShardError):
            return  # nothing was changed
        else:
            self._journal.write(Done(transaction, None, runs - 1))

    def next(self, name: str) -> None:
        """One more transaction."""
        sku = self._dice.pick(list(PRICES_CENTS))
        if self._dice.chance(RESTOCK_CHANCE):
            self.restock(sku)
        else:
            self.order(Order(name, sku, self._dice.between(1, QUANTITY_MAX)))


def journal_path(folder: Path, number: int, life: int) -> Path:
    """Where a life of a writer keeps its journal."""
    return folder / f"writer-{number}-{life}.jsonl"


def main(endpoint: str, folder: Path, number: int, life: int) -> None:
    """Take up what an earlier life has left open, then go on selling until nobody holds our input."""
    over = threading.Event()
    threading.Thread(target=_wait_for_end, args=(over,), daemon=True).start()
    journal = Journal(journal_path(folder, number, life))
    with motet.connect(endpoint) as db:
        writer = Writer(db, journal, Dice(life, f"writer {number}"))
        earlier = [
            line for n in range(life) for line in read_journal(journal_path(folder, number, n))
        ]
        for order in undecided(earlier):
            writer.order(order)
        for n in count():
            if over.wait(pause_seconds):
                return
            writer.next(f"{number}-{life}-{n}")


def _wait_for_end(over: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    over.set()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
