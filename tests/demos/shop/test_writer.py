"""A writer sells each piece once, and places an order once however often it tries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import motet
from motet.client.sync import Database, Transaction
from motet.demos.shop.report import fold
from motet.demos.shop.story import fill_shelves, whole_feed
from motet.demos.shop.writer import (
    LEFT_AT_FIRST,
    ORDERS,
    RESTOCKED_PIECES,
    STOCK,
    Done,
    Journal,
    Line,
    Order,
    Refused,
    Try,
    Unknown,
    Writer,
    read_journal,
)
from motet.errors import OutcomeUnknown
from motet.sim.dice import Dice


class Bench:
    """A writer on a database of its own."""

    def __init__(self, folder: Path) -> None:
        self.db = motet.open(folder / "data")
        self.db.create_stream(ORDERS)
        self.db.create_stream(STOCK)
        self.db.transact(fill_shelves)
        self._journal = folder / "journal"
        self.writer = self.writer_on(self.db)

    def writer_on(self, db: Database) -> Writer:
        return Writer(db, Journal(self._journal), Dice(1))

    def lines(self) -> list[Line]:
        return read_journal(self._journal)

    def left(self, sku: str) -> int:
        return fold(whole_feed(self.db)).stock[sku].pieces


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.db.close()


def test_an_order_takes_from_the_stock_and_is_noted_before_and_after(bench: Bench) -> None:
    order = Order("a", "credo", 3)
    bench.writer.order(order)
    assert bench.left("credo") == LEFT_AT_FIRST - 3
    folded = fold(whole_feed(bench.db))
    (transaction,) = folded.orders["a"]
    assert bench.lines() == [Try(order), Done(transaction, "a", conflicts=0)]


def test_an_order_for_more_than_is_left_is_refused(bench: Bench) -> None:
    bench.writer.order(Order("a", "credo", LEFT_AT_FIRST))
    bench.writer.order(Order("b", "credo", 1))
    assert bench.left("credo") == 0
    assert bench.lines()[-1] == Refused("b", "sold out", conflicts=0)


def test_an_order_that_is_placed_again_is_found(bench: Bench) -> None:
    order = Order("a", "credo", 3)
    bench.writer.order(order)
    first = bench.lines()[-1]
    assert isinstance(first, Done)
    bench.writer.order(order)
    assert bench.left("credo") == LEFT_AT_FIRST - 3
    assert bench.lines()[-1] == Done(first.transaction, "a", conflicts=0, found=True)


def test_a_delivery_fills_the_shelf(bench: Bench) -> None:
    bench.writer.restock("kyrie")
    assert bench.left("kyrie") == LEFT_AT_FIRST + RESTOCKED_PIECES
    (line,) = bench.lines()
    assert isinstance(line, Done)
    assert line.order is None


class Silent:
    """A database that does what it is asked, and whose first answer is lost."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._is_silent = True

    def transact(self, run: Callable[[Transaction], Any]) -> Any:
        answer = self._db.transact(run)
        if self._is_silent:
            self._is_silent = False
            raise OutcomeUnknown("the answer was lost")
        return answer


def test_an_order_whose_answer_was_lost_is_placed_once(bench: Bench) -> None:
    silent: Any = Silent(bench.db)
    bench.writer_on(silent).order(Order("a", "credo", 3))
    assert bench.left("credo") == LEFT_AT_FIRST - 3
    assert bench.lines()[1] == Unknown("a")
    last = bench.lines()[-1]
    assert isinstance(last, Done)
    assert last.found


def test_what_a_writer_chooses_by_itself_keeps_the_rules(bench: Bench) -> None:
    for number in range(60):
        bench.writer.next(f"n-{number}")
    folded = fold(whole_feed(bench.db))
    assert (folded.negative_prefixes, folded.miscounted) == (0, 0)
    done = [line for line in bench.lines() if isinstance(line, Done) and line.order is not None]
    assert [line.order for line in done] == list(folded.orders)
