"""A writer process of the shop: sells until its standard input ends, and notes what it did in its journal.

``python -m motet.demos.shop.writer ENDPOINT FOLDER NUMBER LIFE``

An order reads what is left and writes what is left then, in one transaction, so two writers never sell the
same piece. It also reads its own name: an order of which no answer came is simply placed again, in this life
or the next, and is there once.
"""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import motet
from motet.client.change import Change
from motet.client.sync import Database, Transaction
from motet.demos.shop.journal import (
    ORDERS,
    PRICES_CENTS,
    QUANTITY_MAX,
    RESTOCK_CHANCE,
    RESTOCKED_PIECES,
    STOCK,
    Done,
    Journal,
    Order,
    Refused,
    Try,
    Unknown,
    read_journal,
    undecided,
)
from motet.errors import Conflict, NodeError, OutcomeUnknown
from motet.errors.shards import ShardError
from motet.sim.dice import Dice

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
