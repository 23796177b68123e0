"""The face without an event loop: the same calls, from any thread."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from datetime import timedelta

import pyarrow as pa
import pytest
from tests.behaviour.face import CLASSES, NOT_FOR_USERS, covers
from tests.behaviour.places import EMBEDDED, Place, fresh, keys_of_shards

import motet
from motet.client.change import Change
from motet.client.sync import Transaction
from motet.core.clock.hlc import ZERO, Clock
from motet.errors import BadInput, Conflict, NodeError, NoSuchStream, NoSuchTable
from motet.errors.shards import CursorInTheWay

ASYNC_ALONE = {
    "Database.contract": "operators use the command line",
    "Database.describe_shards": "operators use the command line",
    "Database.drain": "operators use the command line",
    "Database.elect": "operators use the command line",
    "Database.expand": "operators use the command line",
    "Database.feed_begins": "``oldest`` is what readers ask for",
    "Database.resume_after": "``connect(after=…)`` is what readers ask for",
    "Database.incomplete_transactions": "a table of ``db.sql``",
    "Database.nodes": "a table of ``db.sql``",
    "Database.swap": "operators use the command line",
}
"""What can be asked in an event loop alone, and what there is instead."""


def test_both_faces_have_the_same_calls() -> None:
    for kind in ("Database", "Stream", "Transaction", "Table"):
        ours = {name for name in dir(CLASSES[f"sync.{kind}"]) if not name.startswith("_")}
        theirs = {name for name in dir(CLASSES[kind]) if not name.startswith("_")}
        missing = {f"{kind}.{name}" for name in theirs - ours}
        alone = {**ASYNC_ALONE, **NOT_FOR_USERS}
        assert missing == {name for name in alone if name.startswith(f"{kind}.")}


def everywhere_at_once(work: Callable[[int], None], threads: int) -> None:
    """Run it in so many threads; what one of them raises is raised."""
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=guarded, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert not worker.is_alive()
    assert failures == []


# Life


@covers(
    "sync.open",
    "sync.connect",
    "sync.Database.close",
    "sync.Database.endpoint",
    "sync.Database.database_id",
)
def test_it_is_opened_closed_twice_and_leaves_no_thread(sync_place: Place) -> None:
    before = set(threading.enumerate())
    opened = motet.open if sync_place.name == EMBEDDED else motet.connect
    assert callable(opened)
    db = sync_place.open_sync()
    name = fresh("life")
    stream = db.create_stream(name, shards=1)
    assert not repr(db).endswith(", closed>")
    with motet.connect(db.endpoint) as other:
        assert other.database_id == db.database_id
    db.close()
    db.close()
    assert set(threading.enumerate()) <= before
    assert repr(db).endswith(", closed>")
    uses: list[Callable[[], object]] = [
        db.clock,
        lambda: db.endpoint,
        lambda: stream.append("k", b"v"),
        lambda: db.create_stream(fresh("late")),
        lambda: db.transact(lambda txn: txn.get(name, "k")),
        db.streams,
    ]
    for use in uses:
        with pytest.raises(NodeError, match="closed"):
            use()
    assert list(db.tail(name)) == []


def test_a_database_that_is_forgotten_is_closed(sync_place: Place) -> None:
    before = set(threading.enumerate())
    stream = sync_place.open_sync().create_stream(fresh("forgotten"), shards=1)
    stream.append("k", b"v")  # a stream keeps its database
    del stream
    gc.collect()
    assert set(threading.enumerate()) <= before
    sync_place.open_sync().close()


def test_closing_ends_a_tail_that_waits(sync_place: Place) -> None:
    db = sync_place.open_sync()
    name = fresh("tailed")
    db.create_stream(name, shards=1).append("k", b"v")
    seen: list[Change] = []
    came = threading.Event()

    def follow() -> None:
        for change in db.tail(name):
            seen.append(change)
            came.set()

    follower = threading.Thread(target=follow)
    follower.start()
    assert came.wait(60)
    db.close()
    follower.join(60)
    assert not follower.is_alive()
    assert len(seen) == 1


# Streams


@covers(
    "sync.Database.create_stream",
    "sync.Database.stream",
    "sync.Database.streams",
    "sync.Stream.name",
    "sync.Stream.append",
    "sync.Stream.append_batch",
    "sync.Stream.read",
    "sync.Stream.read_arrow",
    "sync.Stream.stats",
    "sync.Stream.tail",
)
def test_entries_go_in_and_come_back(sync_db: motet.Database) -> None:
    name = fresh("entries")
    stream = sync_db.create_stream(name, shards=1)
    assert (stream.name, sync_db.stream(name).name) == (name, name)
    assert repr(stream).startswith(f"<Stream {name} of ")
    first = stream.append("a", b"1", token=("p", 1))
    assert stream.append("a", b"1", token=("p", 1)).duplicate
    stream.append_batch(pa.table({"key": ["b", "c"], "value": [b"2", b"3"]}))
    assert [entry.value for entry in stream.read(after=first)] == [b"2", b"3"]
    assert stream.read_arrow().column("value").to_pylist() == [b"1", b"2", b"3"]
    assert [entry.value for entry in stream.tail(stop_after=3)] == [b"1", b"2", b"3"]
    assert [shard["next_offset"] for shard in stream.stats()] == [3]
    info = next(info for info in sync_db.streams() if info.name == name)
    assert info.entries == (3,)
    with pytest.raises(BadInput, match="stop_after"):
        stream.tail(stop_after=-1)  # told now, not when the first entry is wanted
    with pytest.raises(NoSuchStream):
        sync_db.stream("nowhere").read()


@covers("sync.Database.delete_stream")
def test_a_stream_is_deleted(sync_db: motet.Database) -> None:
    name = fresh("deleted")
    sync_db.create_stream(name, shards=1)
    sync_db.delete_stream(name)
    assert name not in [info.name for info in sync_db.streams()]


def test_many_threads_share_a_database(sync_db: motet.Database) -> None:
    stream = sync_db.create_stream(fresh("threads"), shards=3)
    positions: list[tuple[int, int]] = []

    def work(number: int) -> None:
        for n in range(20):
            position = stream.append(f"{number}-{n}", b"v")
            positions.append((position.shard, position.offset))

    everywhere_at_once(work, threads=8)
    assert len(set(positions)) == 160
    assert sum(shard["next_offset"] for shard in stream.stats()) == 160


# Transactions


@covers(
    "sync.Database.transaction",
    "sync.Transaction.id",
    "sync.Transaction.clock",
    "sync.Transaction.get",
    "sync.Transaction.change",
    "sync.Transaction.carry",
    "sync.Transaction.commit_clock",
    "sync.Database.transaction_status",
    "sync.Database.transaction_changes",
)
def test_a_transaction_is_committed_at_the_end_of_its_block(sync_db: motet.Database) -> None:
    name, copy = fresh("changed"), fresh("copied")
    sync_db.create_stream(name, shards=2)
    sync_db.create_stream(copy, shards=2)
    with sync_db.transaction() as txn:
        assert txn.get(name, "a") is None
        txn.change(name, key="a", op="insert", row={"n": 1})
        own = txn.get(name, "a")
        assert own is not None
        assert own.row == {"n": 1}
        assert txn.clock is None
    status = sync_db.transaction_status(txn.id)
    assert (status.standing, status.clock) == ("committed", txn.clock)
    (change,) = sync_db.transaction_changes(txn.id)
    assert (change.key, change.row, change.clock) == (b"a", {"n": 1}, txn.clock)
    with pytest.raises(ZeroDivisionError), sync_db.transaction() as lost:  # noqa: PT012
        lost.change(name, key="b", op="insert", row={})
        raise ZeroDivisionError
    assert lost.clock is None

    def fixed(txn: Transaction) -> tuple[Transaction, Clock | None]:
        txn.carry(change)
        return txn, txn.commit_clock()

    done, told = sync_db.transact(fixed)  # again if it has had its time
    assert done.clock == told
    with pytest.raises(Conflict), sync_db.transaction() as stale:  # noqa: PT012
        stale.get(name, "a")
        sync_db.stream(name).append("a", b"raw")
        stale.change(name, key="b", op="insert", row={})


@covers("sync.Database.transact")
def test_a_counter_is_exact_under_many_threads(sync_db: motet.Database) -> None:
    name = fresh("counter")
    sync_db.create_stream(name, shards=1)

    def increment(txn: Transaction) -> None:
        latest = txn.get(name, "n")
        count = 0 if latest is None else latest.row["n"]
        txn.change(name, key="n", op="update", row={"n": count + 1})

    def work(_: int) -> None:
        for _ in range(6):
            sync_db.transact(increment, attempts=1000)

    everywhere_at_once(work, threads=4)
    sync_db.visible_clock(name, wait=True)
    assert [change.row["n"] for change in sync_db.changes(name)] == list(range(1, 25))


# The feed and the clock


@covers(
    "sync.Database.changes",
    "sync.Database.tail",
    "sync.Database.split_feed",
    "sync.Database.feed_plan",
    "sync.Database.feed_status",
    "sync.Database.oldest",
    "sync.Database.visible_clock",
    "sync.Database.clock",
    "sync.Database.bookmark",
)
def test_the_feed_is_read_in_pages_by_tail_and_by_plan(sync_db: motet.Database) -> None:
    name = fresh("feed")
    sync_db.create_stream(name, shards=2)
    keys = keys_of_shards(2)
    for number in range(4):
        with sync_db.transaction() as txn:
            for key in keys:
                txn.change(name, key, "update", row={"n": number})
        assert txn.clock is not None
        assert sync_db.visible_clock(name, wait=True) >= txn.clock
    end = sync_db.visible_clock(name, wait=True)
    assert sync_db.clock() >= end
    whole = sync_db.changes(name).changes
    assert [change.row["n"] for change in whole] == [0, 0, 1, 1, 2, 2, 3, 3]
    first = sync_db.changes(name, limit=3)
    assert list(sync_db.tail(name, after=first.cursor, stop_after=6)) == whole[2:]
    assert sync_db.changes(name, key=keys[0], last=timedelta(hours=1)).changes == whole[::2]
    split = sync_db.split_feed(name, up_to=end, splits=2)
    plan = sync_db.feed_plan([name], splits=2, up_to=end)
    assert [up_to for _, up_to in plan.splits] == list(split.bounds)
    read = [
        change
        for after, up_to in plan.splits
        for change in sync_db.changes(name, after=after, up_to=up_to)
    ]
    assert read == whole
    assert sync_db.oldest(name) == ZERO
    status = sync_db.feed_status(name)
    assert status.visible is not None
    assert status.visible >= end
    with motet.connect(sync_db.endpoint, after=sync_db.bookmark()) as other:
        assert other.changes(name).changes == whole
    with pytest.raises(BadInput, match="no stream"):
        sync_db.tail()  # told now, not when the first change is wanted


@covers(
    "sync.Database.save_cursor",
    "sync.Database.cursors",
    "sync.Database.drop_cursor",
    "sync.Database.prune",
    "sync.Database.low_watermark",
)
def test_pruning_stops_at_a_named_cursor(sync_db: motet.Database) -> None:
    name, reader = fresh("pruned"), fresh("reader")
    stream = sync_db.create_stream(name, shards=1)
    clocks = [stream.append("k", b"v").clock for _ in range(3)]
    sync_db.visible_clock(name, wait=True)
    sync_db.save_cursor(reader, sync_db.changes(name, limit=1).cursor)
    assert reader in [cursor.name for cursor in sync_db.cursors()]
    with pytest.raises(CursorInTheWay):
        sync_db.prune(name, up_to=clocks[1])
    sync_db.drop_cursor(reader)
    assert sync_db.prune(name, up_to=clocks[1]) == sync_db.low_watermark(name) == clocks[1]


@covers("sync.Database.enable_clock", "sync.Database.clock_enabled")
def test_the_clock_is_turned_off_and_on(sync_db: motet.Database) -> None:
    sync_db.enable_clock(False)
    try:
        assert not sync_db.clock_enabled()
    finally:
        sync_db.enable_clock()
    assert sync_db.clock_enabled()


# Tables


@covers(
    "sync.Database.create_table",
    "sync.Database.table",
    "sync.Database.tables",
    "sync.Database.stage",
    "sync.Database.publish",
    "sync.Database.snapshot",
    "sync.Database.sql",
    "sync.Database.drop_table",
    "sync.Database.rename_table",
    "sync.Database.set_table",
    "sync.Database.writer_steps",
    "sync.Database.open_job",
    "sync.Database.renew_job",
    "sync.Database.writer",
    "sync.Database.writers",
    "sync.Database.note_writer",
    "sync.Table.name",
    "sync.Table.insert",
    "sync.Table.select",
    "sync.Table.snapshot",
    "sync.Table.sync",
)
def test_a_table_is_filled_and_asked(sync_db: motet.Database) -> None:
    name, writer, other = fresh("filled"), fresh("writer"), fresh("other")
    table_of_other = sync_db.table(other)
    schema = pa.schema([("sku", pa.string()), ("qty", pa.int64())])
    table = sync_db.create_table(name, schema, order_by=["sku"])
    assert (table.name, sync_db.table(name).name) == (name, name)
    assert repr(table).startswith(f"<Table {name} of ")
    assert table.insert([{"sku": "a", "qty": 1}], token="t").rows == 1
    assert table.insert([{"sku": "a", "qty": 1}], token="t").duplicate
    sync_db.note_writer(writer, "it broke")
    sync_db.open_job(writer, [name])
    staged = sync_db.stage(name, [{"sku": "b", "qty": 2}], job=writer)
    sync_db.renew_job(writer, [name])
    sync_db.publish(staged, step=motet.WriterStep(writer, 0, None, Clock(1, 0)))
    assert table.select().sort_by("sku").to_pylist() == [
        {"sku": "a", "qty": 1},
        {"sku": "b", "qty": 2},
    ]
    assert pa.table(table).num_rows == 2
    assert sync_db.sql(f"select sum(qty) as n from {name}").to_pylist() == [{"n": 3}]
    assert table.sync() >= table.snapshot(at=table.snapshot()).version
    assert table.snapshot().rows == sync_db.snapshot(name)[name].rows == 2
    assert name in [info.name for info in sync_db.tables()]
    found = sync_db.writer(writer)
    assert found is not None
    assert found.steps == 1
    assert found in sync_db.writers()
    assert [each.epoch for each in sync_db.writer_steps(writer)] == [0]
    sync_db.rename_table(name, other)
    assert sync_db.table(other).select().num_rows == 2
    with pytest.raises(BadInput, match="does not tell rows apart"):
        sync_db.set_table(other, dedup_window=3)
    sync_db.drop_table(other)
    with pytest.raises(NoSuchTable, match=other):
        table_of_other.select()
