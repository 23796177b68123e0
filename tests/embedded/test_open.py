"""A database in a folder: opened once, closed without a trace, there again when it is opened again."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.embedded.processes import line_of, python_running, run_python

import motet
from motet.errors import BadInput, BadRecord, DatabaseLocked, NodeError, OutcomeUnknown
from motet.real.disk import RealDisk


def test_what_was_written_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    with motet.open(tmp_path) as db:
        orders = db.create_stream("orders", shards=2)
        positions = [orders.append(f"k-{i}", b"v", token=("p", i)) for i in range(10)]
        with db.transaction() as txn:
            txn.change("orders", key="o-1", op="insert", row={"n": 1})
        whole = db.changes("orders").changes
        first = db.changes("orders", limit=4)
        clock = db.clock()
    with motet.open(str(tmp_path)) as db:
        assert db.changes("orders").changes == whole
        assert db.changes("orders", after=first.cursor).changes == whole[4:]
        again = db.stream("orders").append("k-9", b"v", token=("p", 9))
        assert (again, again.duplicate) == (positions[9], True)
        with db.transaction() as txn:
            latest = txn.get("orders", "o-1")
            assert latest == whole[-1]
            txn.change("orders", key="o-1", op="update", row={"n": 2})
        assert txn.clock is not None
        assert clock < txn.clock


def test_a_cursor_is_good_in_another_process(tmp_path: Path) -> None:
    with motet.open(tmp_path) as db:
        stream = db.create_stream("a")
        for i in range(5):
            stream.append("k", bytes([i]))
        cursor = db.changes("a", limit=3).cursor
    printed = run_python(
        """
        import sys, motet
        with motet.open(sys.argv[1]) as db:
            print([change.row[0] for change in db.changes("a", after=sys.argv[2])])
        """,
        tmp_path,
        cursor,
    )
    assert printed.strip() == "[3, 4]"


def test_closing_leaves_no_thread_and_can_be_done_again(tmp_path: Path) -> None:
    before = threading.active_count()
    db = motet.open(tmp_path)
    stream = db.create_stream("a")
    assert "closed" not in repr(db)
    assert db.endpoint
    db.close()
    db.close()
    assert threading.active_count() == before
    assert "closed" in repr(db)
    used: list[Any] = [
        db.clock,
        lambda: db.endpoint,
        lambda: stream.append("k", b"v"),
        lambda: db.create_stream("b"),
        lambda: db.transact(lambda txn: txn.get("a", "k")),
    ]
    for use in used:
        with pytest.raises(NodeError, match="closed"):
            use()
    assert list(db.tail("a")) == []


def test_a_database_that_is_forgotten_is_closed(tmp_path: Path) -> None:
    before = threading.active_count()
    stream = motet.open(tmp_path).create_stream("a")
    stream.append("k", b"v")  # a stream keeps its database
    del stream
    gc.collect()
    assert threading.active_count() == before
    motet.open(tmp_path).close()


def test_a_process_may_end_without_closing(tmp_path: Path) -> None:
    code = """
        import sys, motet
        db = motet.open(sys.argv[1])
        db.create_stream("a").append("k", b"v")
        print("end")
        """
    assert run_python(code, tmp_path) == "end\n"
    with motet.open(tmp_path) as db:
        assert len(db.changes("a")) == 1


def test_a_second_open_in_the_same_process_is_refused(tmp_path: Path) -> None:
    with motet.open(tmp_path) as db:
        before = threading.active_count()
        with pytest.raises(DatabaseLocked):
            motet.open(tmp_path)
        endpoint = db.endpoint
        with pytest.raises(DatabaseLocked, match=endpoint):
            motet.open(tmp_path)
        assert threading.active_count() == before
        assert db.streams() == []
    motet.open(tmp_path).close()


HOLDER = """
    import sys, motet
    db = motet.open(sys.argv[1])
    print("open", flush=True)
    sys.stdin.readline()
    print(db.endpoint, flush=True)
    sys.stdin.readline()
    """


def test_a_second_open_says_who_has_it_and_where_that_serves(tmp_path: Path) -> None:
    with python_running(HOLDER, tmp_path) as holder:
        assert line_of(holder) == "open"
        with pytest.raises(DatabaseLocked, match=f"process {holder.pid}") as raised:
            motet.open(tmp_path)
        assert "serves" not in raised.value.what
        print(file=holder.stdin, flush=True)
        endpoint = line_of(holder)
        with pytest.raises(DatabaseLocked, match=f"{holder.pid}.*{endpoint}"):
            motet.open(tmp_path)
    # It was killed: its endpoint is not taken for ours.
    with motet.open(tmp_path), pytest.raises(DatabaseLocked) as raised:
        motet.open(tmp_path)
    assert endpoint not in str(raised.value)


def test_a_place_that_cannot_be_a_database(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    for place in (file, file / "below"):
        with pytest.raises(NodeError, match="file"):
            motet.open(place)
    bad: Any
    for bad in ("", None, 7):
        with pytest.raises(BadInput):
            motet.open(bad)


def test_a_damaged_log_is_named_and_kept(tmp_path: Path) -> None:
    before = threading.active_count()
    with motet.open(tmp_path) as db:
        stream = db.create_stream("a")
        for i in range(50):
            stream.append("k", bytes([i]) * 100)
    log = max((tmp_path / "streams").iterdir(), key=lambda file: file.stat().st_size)
    damaged = bytearray(log.read_bytes())
    damaged[600] ^= 1
    log.write_bytes(damaged)
    for _ in range(2):
        with pytest.raises(BadRecord, match=log.name):
            motet.open(tmp_path)
    assert log.read_bytes() == damaged
    assert threading.active_count() == before


def test_a_node_that_had_to_stop_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with motet.open(tmp_path) as db:
        stream = db.create_stream("a")

        def fail(self: RealDisk, file: str) -> None:
            raise RuntimeError("no platter")

        with monkeypatch.context() as broken:
            broken.setattr(RealDisk, "sync", fail)
            with pytest.raises(OutcomeUnknown, match="no platter"):
                stream.append("k", b"v")
        with pytest.raises(NodeError, match="no platter"):
            stream.append("k", b"v")
    with motet.open(tmp_path) as db:
        assert len(db.changes("a")) <= 1


def test_many_threads_share_a_database(tmp_path: Path) -> None:
    with motet.open(tmp_path) as db:
        stream = db.create_stream("a", shards=3)
        positions: list[Any] = []

        def work(number: int) -> None:
            positions.extend([stream.append(f"{number}-{i}", b"v") for i in range(20)])

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({(p.shard, p.offset) for p in positions}) == 160
        assert sum(db.streams()[0].entries) == 160
