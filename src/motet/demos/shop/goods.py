"""What the shop sells, and the names that its parts share."""

from __future__ import annotations

from typing import NamedTuple

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
