"""The clock of a transaction, fixed before the block is left; and what became of a transaction."""

from __future__ import annotations

import threading

import pytest

import motet
from motet.client.sync import Transaction
from motet.core.clock.hlc import Clock
from motet.errors import BadInput, Conflict
from motet.limits import clock_held_ms_max, transaction_id_length_max


@pytest.fixture(autouse=True)
def streams(db: motet.Database) -> None:
    db.create_stream("stock")


def change(txn: Transaction, key: str, left: int) -> None:
    txn.change("stock", key=key, op="update", row={"left": left})


def test_the_clock_that_is_told_is_the_clock_of_the_commit(db: motet.Database) -> None:
    with db.transaction() as txn:
        change(txn, "a", 1)
        told = txn.commit_clock()
        assert txn.commit_clock() == told
        assert told is not None
        assert db.visible_clock() < told
    assert txn.clock == told
    assert [c.clock for c in db.changes("stock")] == [told]
    assert db.transaction_status(txn.id).clock == told


def test_a_fixed_transaction_takes_nothing_more(db: motet.Database) -> None:
    with db.transaction() as txn:
        assert txn.get("stock", "a") is None
        change(txn, "b", 1)
        txn.commit_clock()
        with pytest.raises(BadInput, match="fixed"):
            change(txn, "c", 1)
        with pytest.raises(BadInput, match="fixed"):
            txn.get("stock", "c")
        assert txn.get("stock", "a") is None
        own = txn.get("stock", "b")
        assert own is not None
    assert [c.key for c in db.changes("stock")] == [b"b"]


def test_what_was_fixed_and_left_by_an_exception_is_not_committed(db: motet.Database) -> None:
    told: list[Clock] = []
    with pytest.raises(ZeroDivisionError), db.transaction() as txn:  # noqa: PT012
        change(txn, "a", 1)
        fixed = txn.commit_clock()
        assert fixed is not None
        told.append(fixed)
        raise ZeroDivisionError
    with db.transaction() as other:
        change(other, "a", 2)
    assert other.clock is not None
    assert other.clock > told[0], "it is not used again"
    assert [c.clock for c in db.changes("stock")] == [other.clock]
    assert db.transaction_status(txn.id).standing == "unknown"


def test_others_wait_and_come_behind(db: motet.Database) -> None:
    clocks: list[Clock] = []

    def append() -> None:
        clocks.append(db.stream("stock").append("other", b"x").clock)

    with db.transaction() as txn:
        change(txn, "a", 1)
        told = txn.commit_clock()
        other = threading.Thread(target=append)
        other.start()
    other.join()
    assert told is not None
    assert clocks[0] > told


def test_what_has_been_overtaken_has_no_clock(db: motet.Database) -> None:
    with pytest.raises(Conflict), db.transaction() as txn:  # noqa: PT012
        txn.get("stock", "a")
        db.stream("stock").append("a", b"x")
        txn.commit_clock()
    assert txn.clock is None


def test_who_stays_too_long_is_given_up(db: motet.Database) -> None:
    def too_slow() -> None:
        with db.transaction() as txn:
            change(txn, "a", 1)
            txn.commit_clock()
            # Others go on when it has had its time.
            db.stream("stock").append("b", b"x")

    with pytest.raises(Conflict, match=str(clock_held_ms_max)):
        too_slow()
    assert [c.key for c in db.changes("stock")] == [b"b"]


def test_a_transaction_that_did_nothing_has_no_clock_to_fix(db: motet.Database) -> None:
    with db.transaction() as txn, pytest.raises(BadInput, match="nothing"):
        txn.commit_clock()


def test_a_transaction_that_only_read_has_a_clock(db: motet.Database) -> None:
    with db.transaction() as txn:
        txn.get("stock", "a")
        told = txn.commit_clock()
    assert told is not None
    assert txn.clock == told
    assert db.visible_clock(wait=True) >= told


def test_what_became_of_a_transaction(db: motet.Database) -> None:
    with db.transaction() as txn:
        change(txn, "a", 1)
        assert db.transaction_status(txn.id).standing == "unknown"
        txn.commit_clock()
        assert db.transaction_status(txn.id).standing == "prepared"
    found = db.transaction_status(txn.id)
    assert (found.id, found.standing, found.clock) == (txn.id, "committed", txn.clock)


@pytest.mark.parametrize("name", ["", "x" * (transaction_id_length_max + 1), 7])
def test_what_is_no_transaction_is_told(name: str, db: motet.Database) -> None:
    with pytest.raises(BadInput, match="transaction id"):
        db.transaction_status(name)
