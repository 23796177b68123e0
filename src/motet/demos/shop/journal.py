"""What the shop sells, and a writer's journal: what it is about to do, and what it knows to be done.

A line is written with one call, before the transaction begins and after it was acknowledged. What has a
first line and no second was under way when the writer was killed: it is there, or it is not. A line without
an end was cut off, and says nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

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
