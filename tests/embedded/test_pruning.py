"""Pruning an embedded database makes its folder smaller, and a kill at any time of it loses nothing."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from tests.embedded.processes import python_running

import motet
from motet.core.metadata.definitions import shard_of
from motet.errors.shards import OffsetExpired
from motet.limits import segment_bytes

ROW = "x" * 200_000
TRANSACTIONS = 2 * segment_bytes // len(ROW)
PRUNES = """
    import os, signal, sys
    import motet

    left = int(sys.argv[2])

    def counted(name):
        real = getattr(os, name)

        def instead(*arguments, **named):
            global left
            left -= is_counted
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **named)

        setattr(os, name, instead)

    is_counted = False
    for name in ("replace", "unlink", "fsync", "fdatasync", "pwrite", "pwritev"):
        counted(name)
    db = motet.open(sys.argv[1])
    up_to = db.visible_clock("orders")
    is_counted = True
    db.prune("orders", "notes", up_to=up_to)
    print("pruned", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    """
"""Kills itself before it has asked the system for something once more than so often."""


def log_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in (folder / "streams").glob("database-log-*"))


def filled(folder: Path) -> None:
    """Some segments of changes of one key, and a little that is to be there for ever."""
    with motet.open(folder) as db:
        db.create_stream("orders")
        db.create_stream("notes")
        db.stream("notes").append(b"n", b"raw", token=("producer", 7))
        with db.transaction() as txn:
            txn.change("orders", "first", "insert", row={"n": 1})
        sales = db.create_table("sales", pa.schema([("qty", pa.int64())]), order_by=["qty"])
        sales.insert(pa.table({"qty": [1, 2, 3]}), token="batch-1")
        for number in range(TRANSACTIONS):
            with db.transaction() as txn:
                txn.change("orders", "often", "update", row={"n": number, "text": ROW})


def check(folder: Path) -> None:
    """All that must be there."""
    with motet.open(folder) as db:
        with db.transaction() as txn:
            first, often = txn.get("orders", "first"), txn.get("orders", "often")
        assert first is not None
        assert often is not None
        assert first.row == {"n": 1}
        assert often.row["n"] == TRANSACTIONS - 1
        again = db.stream("notes").append(b"n", b"raw", token=("producer", 7))
        assert (again.shard, again.offset) == (shard_of(b"n", 4), 0)
        assert db.sql("select sum(qty) as total from sales").to_pylist() == [{"total": 6}]
        assert [each.name for each in db.streams()] == ["notes", "orders"]


def first_shard(db: motet.Database) -> int:
    """Of the stream ``orders``, one that has entries."""
    counts = next(each.entries for each in db.streams() if each.name == "orders")
    return counts.index(max(counts))


def test_a_pruned_folder_is_smaller_and_has_all_that_it_must(tmp_path: Path) -> None:
    filled(tmp_path)
    before = log_bytes(tmp_path)
    assert before > segment_bytes
    with motet.open(tmp_path) as db:
        half = db.changes("orders", limit=TRANSACTIONS - 5).cursor
        db.save_cursor("reader", half)
        db.prune("orders", "notes", older_than=timedelta(0), force=True)
        assert log_bytes(tmp_path) <= segment_bytes, "it is free when the call comes back"
        assert list(db.changes("orders")) == []
        shard = first_shard(db)
        with pytest.raises(OffsetExpired):
            db.stream("orders").read(shard=shard)
        first, behind = (
            db.stream("orders").stats()[shard][name] for name in ("first_offset", "next_offset")
        )
        assert 0 < first <= behind
        kept = db.stream("orders").read(shard=shard, after=first - 1, limit=3)
        assert [entry.offset for entry in kept] == list(range(first, min(first + 3, behind)))
    check(tmp_path)
    with motet.open(tmp_path) as db:
        with db.transaction() as txn:
            txn.change("orders", "next", "insert", row={"n": 2})
        assert [change.key for change in db.changes("orders")] == [b"next"]


def test_a_kill_while_it_is_pruned_loses_nothing(tmp_path: Path) -> None:
    full, folder = tmp_path / "full", tmp_path / "killed"
    filled(full)
    for calls in (1, 4, 9, 1000):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(full, folder)
        with python_running(PRUNES, folder, str(calls)) as process:
            said, _ = process.communicate(timeout=60)
            assert process.returncode == -9
        assert said == ("pruned\n" if calls == 1000 else "")
        check(folder)
    assert log_bytes(folder) <= segment_bytes
