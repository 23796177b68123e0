"""Transactions: all or nothing, judged by what they read."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import motet
from motet.client.transaction import pause_ms_max, pauses_seconds
from motet.errors import BadInput, Conflict, NoSuchStream, TooLarge
from motet.limits import key_bytes_max, row_bytes_max, transaction_changes_max
from motet.real.entropy import RealEntropy


@pytest.fixture(autouse=True)
def streams(db: motet.Database) -> None:
    db.create_stream("orders")
    db.create_stream("stock")


def feed(db: motet.Database) -> list[tuple[str, bytes, str, Any]]:
    return [(c.stream, c.key, c.op, c.row) for c in db.changes("orders", "stock")]


def put(db: motet.Database, key: str, left: int) -> None:
    with db.transaction() as txn:
        txn.change("stock", key=key, op="insert", row={"left": left})


def test_leaving_the_block_commits_all_changes_at_one_clock(db: motet.Database) -> None:
    with db.transaction() as txn:
        assert txn.get("stock", "s-9") is None
        txn.change("orders", key="o-1", op="insert", row={"sku": "s-9", "qty": 2})
        txn.change("stock", key=b"s-9", op="update", row={"left": 7}, before={"left": 9})
    first, second = db.changes("orders", "stock").changes
    assert {(c.clock, c.transaction, c.count) for c in (first, second)} == {(txn.clock, txn.id, 2)}
    assert [(c.index, c.stream, c.key, c.op) for c in (first, second)] == [
        (0, "orders", b"o-1", "insert"),
        (1, "stock", b"s-9", "update"),
    ]
    assert (first.row, first.before) == ({"sku": "s-9", "qty": 2}, None)
    assert (second.row, second.before) == ({"left": 7}, {"left": 9})
    assert first.at.tzname() == "UTC"


def test_there_is_no_clock_before_the_commit(db: motet.Database) -> None:
    with db.transaction() as txn:
        txn.change("stock", key="a", op="delete")
        before = txn.clock
    assert before is None
    assert db.visible_clock(wait=True) == txn.clock


def test_an_exception_sends_nothing(db: motet.Database) -> None:
    clock = db.clock()
    with pytest.raises(ZeroDivisionError), db.transaction() as txn:  # noqa: PT012
        txn.change("orders", key="o-1", op="insert", row={})
        raise ZeroDivisionError
    assert feed(db) == []
    assert txn.clock is None
    assert db.clock() == clock


def test_get_answers_with_the_latest_committed_change(db: motet.Database) -> None:
    put(db, "s-9", 3)
    with db.transaction() as txn:
        txn.change("stock", key="s-9", op="delete")
    with db.transaction() as txn:
        latest = txn.get("stock", "s-9")
    assert latest is not None
    assert (latest.op, latest.row) == ("delete", None)


def test_get_stays_the_same_within_a_transaction(db: motet.Database) -> None:
    put(db, "s-9", 3)
    with pytest.raises(Conflict, match="s-9"), db.transaction() as txn:  # noqa: PT012
        first = txn.get("stock", "s-9")
        put(db, "s-9", 2)
        again = txn.get("stock", b"s-9")
        assert first is not None
        assert again == first
        assert first.row == {"left": 3}


def test_get_sees_what_the_transaction_has_changed_itself(db: motet.Database) -> None:
    with db.transaction() as txn:
        txn.change("stock", key="s-9", op="insert", row={"left": 3})
        txn.change("stock", key="s-9", op="update", row={"left": 2}, before={"left": 3})
        own = txn.get("stock", "s-9")
        assert own is not None
        assert (own.stream, own.key, own.op) == ("stock", b"s-9", "update")
        assert (own.row, own.before, own.clock) == ({"left": 2}, {"left": 3}, None)
    assert [c.row for c in db.changes("stock")] == [{"left": 3}, {"left": 2}]


def test_a_conflict_applies_nothing(db: motet.Database) -> None:
    with pytest.raises(Conflict), db.transaction() as txn:  # noqa: PT012
        txn.get("stock", "s-9")
        put(db, "s-9", 1)
        txn.change("orders", key="o-1", op="insert", row={})
    assert [stream for stream, *_ in feed(db)] == ["stock"]
    assert txn.clock is None


def test_a_transaction_that_only_read_is_judged_too(db: motet.Database) -> None:
    put(db, "a", 1)
    with db.transaction() as txn:
        txn.get("stock", "a")
    assert txn.clock is not None
    with pytest.raises(Conflict), db.transaction() as txn:  # noqa: PT012
        txn.get("stock", "a")
        put(db, "a", 2)


def test_a_transaction_that_did_nothing_has_no_clock(db: motet.Database) -> None:
    with db.transaction() as txn:
        pass
    assert txn.clock is None


def test_changes_without_reads_never_conflict(db: motet.Database) -> None:
    with db.transaction() as txn:
        txn.change("stock", key="a", op="insert", row={"left": 2})
        put(db, "a", 1)
    assert [c.row["left"] for c in db.changes("stock")] == [1, 2]


def test_it_is_used_once_and_within_its_block(db: motet.Database) -> None:
    txn = db.transaction()
    with pytest.raises(BadInput, match="begun"):
        txn.change("stock", key="a", op="delete")
    with txn:
        pass
    with pytest.raises(BadInput, match="over"):
        txn.get("stock", "a")
    with pytest.raises(BadInput, match="once"), txn:
        pass


def test_bad_changes_are_refused_before_anything_is_sent(db: motet.Database) -> None:
    bad: list[dict[str, Any]] = [
        {"op": "upsert"},
        {"op": "append"},
        {"op": "insert", "row": None},
        {"op": "delete", "row": {}},
        {"row": {"x": object()}},
        {"row": [1]},
        {"before": {"x": object()}},
        {"key": ""},
        {"stream": "no stream"},
    ]
    for wrong in bad:
        good = {"stream": "stock", "key": "k", "op": "insert", "row": {}}
        with pytest.raises(BadInput), db.transaction() as txn:
            txn.change(**(good | wrong))
    with pytest.raises(TooLarge), db.transaction() as txn:
        txn.change("stock", key="k" * (key_bytes_max + 1), op="insert", row={})
    with pytest.raises(TooLarge), db.transaction() as txn:
        txn.change("stock", key="k", op="insert", row={"x": "a" * row_bytes_max})
    assert feed(db) == []


def test_a_transaction_is_bounded_in_bytes_and_in_changes(db: motet.Database) -> None:
    large = {"x": "a" * (row_bytes_max - 10)}
    with db.transaction() as txn:
        for i in range(3):
            txn.change("stock", key=f"{i}", op="insert", row=large)
        with pytest.raises(TooLarge):
            txn.change("stock", key="4", op="update", row=large, before=large)
    assert len(db.changes("stock")) == 3
    with db.transaction() as txn:
        for i in range(transaction_changes_max):
            txn.change("orders", key=f"{i}", op="insert", row={})
        with pytest.raises(TooLarge):
            txn.change("orders", key="more", op="insert", row={})
    assert len(db.changes("orders", limit=1)) == transaction_changes_max


def test_a_stream_that_is_not_there_refuses_the_whole(db: motet.Database) -> None:
    with pytest.raises(NoSuchStream), db.transaction() as txn:  # noqa: PT012
        txn.change("stock", key="a", op="insert", row={})
        txn.change("nothing", key="a", op="insert", row={})
    assert feed(db) == []


def test_transact_gives_back_what_the_function_gave(db: motet.Database) -> None:
    assert db.transact(lambda txn: txn.id)


def test_transact_tries_again_and_gives_up_in_the_end(db: motet.Database) -> None:
    tries = []

    def always_late(txn: Any) -> None:
        tries.append(txn.id)
        txn.get("stock", "a")
        put(db, "a", len(tries))

    with pytest.raises(Conflict):
        db.transact(always_late, attempts=3)
    assert len(set(tries)) == len(tries) == 3
    with pytest.raises(BadInput):
        db.transact(always_late, attempts=0)
    assert len(tries) == 3


def test_transact_passes_other_errors_on_at_once(db: motet.Database) -> None:
    tries = []

    def fails(txn: Any) -> None:
        tries.append(txn)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        db.transact(fails)
    assert len(tries) == 1


def test_a_counter_is_exact_under_eight_threads(db: motet.Database) -> None:
    threads, each = 8, 15
    put(db, "counter", 0)
    failures: list[BaseException] = []

    def increment(txn: Any) -> None:
        latest = txn.get("stock", "counter")
        txn.change("stock", key="counter", op="update", row={"left": latest.row["left"] + 1})

    def work() -> None:
        try:
            for _ in range(each):
                db.transact(increment, attempts=1000)
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []
    counts = [c.row["left"] for c in db.changes("stock")]
    assert counts == list(range(threads * each + 1))


def test_pauses_grow_to_a_bound() -> None:
    pauses = list(pauses_seconds(200, RealEntropy()))
    assert len(pauses) == 199
    assert pauses[0] < 0.001
    assert max(pauses) < pause_ms_max / 1000
