"""Two streams with transactions over both, as a query follows them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import motet
from motet.core.clock.hlc import Clock

STREAMS = "orders,stock"


@contextmanager
def two_streams(folder: Path) -> Iterator[motet.Database]:
    """A database with these streams, and another one."""
    with motet.open(folder) as db:
        db.create_stream("orders", shards=2)
        db.create_stream("stock", shards=2)
        db.create_stream("other", shards=1)
        yield db


def write(db: motet.Database, first: int, behind: int) -> None:
    """Transactions of two to four changes."""
    for i in range(first, behind):
        with db.transaction() as txn:
            txn.change("orders", key=f"o-{i}", op="insert", row={"i": i})
            for j in range(1 + i % 3):
                txn.change("stock", key=f"s-{i}-{j}", op="insert", row={"i": i})


def places_of(db: motet.Database) -> list[tuple[Clock, str, int]]:
    """The changes of both: clock, transaction, index."""
    changes = db.changes("orders", "stock", limit=10_000).changes
    return [(change.raw.clock, change.transaction, change.index) for change in changes]
