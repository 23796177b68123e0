"""A mirror of one embedded database in another: each change once, in its order, whatever happens."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest

import motet
from motet.client import mirror as mirroring
from motet.client.mirror import Mirror
from motet.client.sync import Transaction
from motet.errors import BadCursor, BadInput, BadSchema, NoSuchStream, OutcomeUnknown, TooLarge
from motet.errors.shards import CursorExpired

Told = tuple[str, bytes, str, bytes | None, bytes | None]


@pytest.fixture
def source(tmp_path: Path) -> Iterator[motet.Database]:
    with motet.open(tmp_path / "source") as db:
        db.create_stream("orders", shards=2)
        db.create_stream("stock", shards=3)
        yield db


@pytest.fixture
def target(tmp_path: Path) -> Iterator[motet.Database]:
    with motet.open(tmp_path / "target") as db:
        yield db


def sell(db: motet.Database, number: int) -> None:
    with db.transaction() as txn:
        txn.change("orders", f"o-{number}", "insert", row={"qty": number})
        txn.change("stock", f"s-{number % 3}", "update", row={"left": -number}, before={})


def told(db: motet.Database) -> list[list[Told]]:
    """The changes of each transaction, in order."""
    found: list[list[Told]] = []
    last = ""
    for change in db.changes("orders", "stock", limit=10_000):
        raw = change.raw
        if change.transaction != last:
            found.append([])
        found[-1].append((raw.stream, raw.key, raw.op, raw.row, raw.before))
        last = change.transaction
    return found


def test_streams_that_are_pruned_differently_are_mirrored_from_the_oldest_when_told_to(
    source: motet.Database, target: motet.Database
) -> None:
    for number in range(4):
        sell(source, number)
    pruned = source.changes("stock").changes[2].clock
    assert pruned is not None
    source.prune("stock", up_to=pruned)
    with pytest.raises(
        CursorExpired, match=f"orders is kept from its beginning, stock .*{pruned.counter}"
    ):
        Mirror(source, target).run(once=True)
    assert told(target) == []
    report = Mirror(source, target, after="oldest").run(once=True)
    assert (report.transactions, report.changes) == (1, 2)
    sell(source, 4)
    assert Mirror(source, target).run(once=True).changes == 2, "it goes on where it was left"
    assert [len(changes) for changes in told(target)] == [2, 2]


def test_it_has_the_same_transactions_in_the_same_order(
    source: motet.Database, target: motet.Database
) -> None:
    for number in range(5):
        sell(source, number)
    source.stream("stock").append("raw", b"\xff\x00")
    report = Mirror(source, target).run(once=True)
    assert (report.streams, report.transactions, report.changes) == (("orders", "stock"), 6, 11)
    assert told(target) == told(source)
    assert [info.shards for info in target.streams() if info.name == "stock"] == [3]
    assert Mirror(source, target).run(once=True).changes == 0
    sell(source, 5)
    assert Mirror(source, target).run(once=True).transactions == 1
    assert told(target) == told(source)


def test_transactions_that_go_together_are_never_split(
    source: motet.Database, target: motet.Database
) -> None:
    for number in range(7):
        sell(source, number)
    report = Mirror(source, target, together=5).run(once=True)
    assert report.transactions == 4
    assert [len(each) for each in told(target)] == [4, 4, 4, 2]
    assert list(chain(*told(target))) == list(chain(*told(source)))


def test_a_commit_whose_answer_is_lost_is_not_repeated(
    source: motet.Database, target: motet.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        sell(source, number)
    leave, lost = Transaction.__exit__, list[str]()

    def forgetful(txn: Transaction, *why: object) -> None:
        leave(txn, *why)  # type: ignore[arg-type]
        if why[0] is None and txn._inner._changes:
            lost.append(txn.id)
            raise OutcomeUnknown("the answer was lost")

    monkeypatch.setattr(Transaction, "__exit__", forgetful)
    Mirror(source, target).run(once=True)
    assert len(lost) == 3
    assert told(target) == told(source)


def test_mirrors_of_one_name_do_everything_once_between_them(
    source: motet.Database, target: motet.Database
) -> None:
    for number in range(30):
        sell(source, number)
    mirrors = [Mirror(source, target) for _ in range(3)]
    mirrors[0]._prepare()
    threads = [
        threading.Thread(target=mirror.run, kwargs={"once": True}, daemon=True)
        for mirror in mirrors
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert told(target) == told(source)
    assert sum(mirror.transactions for mirror in mirrors) == 30


def test_one_that_follows_ends_when_it_is_told_to(
    source: motet.Database, target: motet.Database
) -> None:
    stop = threading.Event()
    mirror = Mirror(source, target)
    mirror._prepare()
    thread = threading.Thread(target=mirror.run, kwargs={"stop": stop}, daemon=True)
    thread.start()
    sell(source, 1)
    assert [c.op for c in target.tail("orders", stop_after=1)] == ["insert"]
    stop.set()
    thread.join(60)
    assert not thread.is_alive()


def test_raw_entries_that_no_transaction_can_hold_come_in_pieces(
    source: motet.Database, target: motet.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirroring, "room_changes", 1)
    source.stream("stock").append("a", b"1")
    with source.transaction() as txn:
        for _ in range(3):
            txn.carry(source.changes("stock").changes[0])
    Mirror(source, target).run(once=True)
    assert [len(each) for each in told(target)] == [1, 1, 1, 1]
    sell(source, 1)
    with pytest.raises(TooLarge, match=r"no room for the note"):
        Mirror(source, target).run(once=True)


def test_what_cannot_be_mirrored_is_told(
    source: motet.Database, target: motet.Database, tmp_path: Path
) -> None:
    sell(source, 1)
    with pytest.raises(BadInput):
        Mirror(source, source)
    with pytest.raises(NoSuchStream):
        Mirror(source, target, ["nothing"]).run(once=True)
    target.create_stream("orders", schema=pa.schema([("qty", pa.int64())]))
    with pytest.raises(BadSchema):
        Mirror(source, target, ["orders"]).run(once=True)
    Mirror(source, target, ["stock"]).run(once=True)
    with pytest.raises(BadCursor, match="is of the streams stock"):
        Mirror(source, target, ["stock", "orders"]).run(once=True)
    with motet.open(tmp_path / "third") as third:
        third.create_stream("stock")
        ours = f"{source.database_id:016x}"
        with pytest.raises(BadCursor, match="is of database"):
            Mirror(third, target, ["stock"], name=ours).run(once=True)
