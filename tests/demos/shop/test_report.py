"""The proof counts every fault that is planted, and holds for a run without one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from tests.demos.shop.feeds import FakeChange, FakeShop, busy_shop

from motet.core.clock.hlc import Clock, plus
from motet.demos.shop.report import Proof, Tables, acknowledged, fold, prove, tables_equal
from motet.demos.shop.writer import LEFT_AT_FIRST, ORDERS, Done, Line, Order, Refused, Try, Unknown


def proof_of(
    shop: FakeShop, changes: list[FakeChange] | None = None, tables: Tables | None = None
) -> Proof:
    found = shop.changes if changes is None else changes
    return prove(acknowledged([shop.journal]), fold(found), tables or shop.tables())


def test_a_sound_run_is_proved() -> None:
    proof = proof_of(busy_shop())
    assert proof == Proof(0, 0, 0, 0, 0, 0, tables_equal=True, replicas_equal=True)
    assert proof.is_ok


def test_without_tables_nothing_is_said_about_them() -> None:
    shop = busy_shop()
    proof = prove(acknowledged([shop.journal]), fold(shop.changes), None)
    assert proof.tables_equal is None
    assert proof.is_ok


def test_an_order_that_is_missing_in_the_feed_is_lost() -> None:
    shop = busy_shop()
    gone = next(change for change in shop.changes if change.stream == ORDERS)
    without = [change for change in shop.changes if change.transaction != gone.transaction]
    proof = proof_of(shop, without)
    assert (proof.lost, proof.doubled, proof.is_ok) == (1, 0, False)


def test_half_an_order_is_lost_and_torn() -> None:
    shop = busy_shop()
    gone = next(change for change in shop.changes if change.stream == ORDERS)
    proof = proof_of(shop, [change for change in shop.changes if change is not gone])
    assert (proof.lost, proof.torn, proof.is_ok) == (1, 1, False)


def test_a_delivery_that_is_missing_in_the_feed_is_lost() -> None:
    shop = busy_shop()
    proof = proof_of(shop, [c for c in shop.changes if c.count != 1])
    assert (proof.lost, proof.is_ok) == (1, False)


def test_what_nobody_acknowledged_cannot_be_lost() -> None:
    shop = busy_shop()
    shop.journal.append(Try(Order("never", "credo", 1)))
    assert proof_of(shop).is_ok


def test_an_order_that_is_in_the_feed_twice_is_doubled() -> None:
    shop = busy_shop()
    twice = next(change for change in shop.changes if change.stream == ORDERS)
    proof = proof_of(shop, [*shop.changes, twice])
    assert (proof.doubled, proof.lost, proof.is_ok) == (1, 0, False)


def test_an_order_that_was_applied_once_more_after_a_kill_is_doubled() -> None:
    shop = busy_shop()
    shop.order("o3")
    proof = proof_of(shop)
    assert (proof.doubled, proof.is_ok) == (1, False)


def test_a_stock_below_zero_is_counted() -> None:
    shop = FakeShop()
    shop.order("greedy", quantity=LEFT_AT_FIRST + 1)
    proof = proof_of(shop)
    assert (proof.negative_stock, proof.is_ok) == (1, False)


@pytest.mark.parametrize("table", ["stock_now", "sales_by_minute"])
@pytest.mark.parametrize("fault", ["changed", "missing", "twice", "foreign"])
def test_a_table_that_differs_is_found(table: str, fault: str) -> None:
    shop = busy_shop()
    tables = shop.tables()
    rows = list(getattr(tables, table))
    number = {"stock_now": "left", "sales_by_minute": "quantity"}[table]
    planted = {
        "changed": [{**rows[0], number: rows[0][number] + 1}, *rows[1:]],
        "missing": rows[1:],
        "twice": [*rows, rows[0]],
        "foreign": [*rows, {**rows[0], "sku": "amen"}],
    }
    changed: Any = {table: planted[fault]}
    proof = proof_of(shop, tables=dataclasses.replace(tables, **changed))
    assert (proof.tables_equal, proof.is_ok) == (False, False)


def test_a_row_at_the_wrong_clock_or_minute_is_found() -> None:
    shop = busy_shop()
    tables, folded = shop.tables(), fold(shop.changes)
    first, *others = tables.stock_now
    older = {**first, "clock": {"logical": 1, "counter": 0}}
    assert not tables_equal(folded, dataclasses.replace(tables, stock_now=[older, *others]))
    sold, *rest = tables.sales_by_minute
    later = {**sold, "minute": sold["minute"] + timedelta(hours=1)}
    assert not tables_equal(folded, dataclasses.replace(tables, sales_by_minute=[later, *rest]))


@pytest.mark.parametrize("clock", [None, plus(busy_shop().changes[-1].clock, -1)])
def test_tables_that_do_not_reflect_the_whole_feed_are_not_equal(clock: Clock | None) -> None:
    shop = busy_shop()
    behind = dataclasses.replace(shop.tables(), clock=clock)
    assert proof_of(shop, tables=behind).tables_equal is False


@pytest.mark.parametrize(
    "checks", [[], [{"table": "stock_now", "equal": True}, {"table": "sales", "equal": False}]]
)
def test_the_check_of_the_pipeline_has_its_say(checks: list[dict[str, object]]) -> None:
    shop = busy_shop()
    doubted = dataclasses.replace(shop.tables(), checks=checks)
    assert proof_of(shop, tables=doubted).tables_equal is False


@pytest.mark.parametrize("fault", ["missing", "other bytes", "one more", "no parts at all"])
def test_replicas_that_are_not_what_was_committed_are_not_equal(fault: str) -> None:
    shop = busy_shop()
    tables = shop.tables()
    parts = dict(tables.parts)
    planted: dict[str, dict[str, str]] = {
        "missing": dict(list(parts.items())[1:]),
        "other bytes": dict.fromkeys(parts, "another hash"),
        "one more": {**parts, "3/0/c": "hash of c"},
        "no parts at all": {},
    }
    replicas: dict[str, Mapping[str, str]] = {**tables.replicas, "n1": planted[fault]}
    changed = dataclasses.replace(tables, replicas=replicas)
    if fault == "no parts at all":
        changed = dataclasses.replace(tables, parts={}, replicas={node: {} for node in replicas})
    proof = proof_of(shop, tables=changed)
    assert (proof.tables_equal, proof.replicas_equal, proof.is_ok) == (True, False, False)


def test_journals_are_added_up() -> None:
    one: list[Line] = [
        Try(Order("a", "credo", 1)),
        Done("t1", "a", conflicts=2),
        Try(Order("b", "credo", 1)),
        Refused("b", "sold out", conflicts=1),
        Try(Order("c", "credo", 1)),
    ]
    other: list[Line] = [
        Unknown(None),
        Done("t2", None, conflicts=0),
        Done("t3", "d", 0, found=True),
    ]
    known = acknowledged([one, other])
    assert [done.transaction for done in known.done] == ["t1", "t2", "t3"]
    assert (known.refused, known.conflicts, known.unknown) == (1, 3, 1)
    assert (known.found_again, known.undecided) == (1, 1)
