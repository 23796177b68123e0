"""What the demo proves, in numbers: the journals, the folded feed and the tables held against each other.

Pure: everything comes in as plain data, so that tests can plant every fault that it is to count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from motet.core.clock.hlc import Clock
from motet.demos.shop.feed_fold import NO_SALES, Folded, Left, Sales, SalesKey
from motet.demos.shop.journal import Done, Line, Refused, Unknown, undecided

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

    @property
    def is_ok(self) -> bool:
        faults = (self.lost, self.doubled, self.negative_stock, self.miscounted, self.torn)
        return not any((*faults, self.disordered)) and self.tables_equal is not False


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
