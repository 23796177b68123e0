"""A database keeps what streams and tables it has in a keeper of its own, and nothing is ever half there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from tests.embedded.keeper_tree import tree_of
from tests.embedded.processes import line_of, python_running

import motet
from motet.errors import BadRecord, NodeError, StreamExists, TableExists

SCHEMA = pa.schema([("sku", pa.string()), ("qty", pa.int64())])
FOLDER_BYTES_MAX = 24 << 20


def fill(db: motet.Database) -> None:
    db.create_stream("orders", shards=2)
    db.create_stream("stock", schema=SCHEMA)
    db.create_table("sales", SCHEMA, order_by=["sku"])


def test_definitions_are_in_the_keeper(tmp_path: Path) -> None:
    with motet.open(tmp_path) as db:
        fill(db)
        database = f"{db._inner.database_id:016x}"
    tree = tree_of(tmp_path)
    assert json.loads(tree["/motet/database"])["number"] == database
    orders = json.loads(tree["/motet/streams/orders"])
    assert (orders["name"], orders["shards"], orders["schema"]) == ("orders", 2, None)
    table = f"/motet/table_data/{tree['/motet/tables/sales'].decode()}"
    sales = json.loads(tree[f"{table}/definition"])
    assert (sales["order_by"], sales["engine"]) == (["sku"], "merge")
    assert f"{table}/shards/0/replicas/embedded/log_pointer" in tree
    with motet.open(tmp_path) as db:
        assert [info.name for info in db.streams()] == ["orders", "stock"]
        assert [info.name for info in db.tables()] == ["sales"]


def test_it_is_the_same_for_whoever_connects(tmp_path: Path) -> None:
    with motet.open(tmp_path) as db, motet.connect(db.endpoint) as other:
        fill(other)
        assert db.streams() == other.streams()
        assert db.tables() == other.tables()
        db.create_stream("orders", shards=2)
        with pytest.raises(StreamExists):
            other.create_stream("orders", shards=3)
        with pytest.raises(TableExists):
            other.create_table("sales", SCHEMA, order_by=["qty"])
    assert "/motet/streams/orders" in tree_of(tmp_path)


def test_a_new_folder_stays_small(tmp_path: Path) -> None:
    with motet.open(tmp_path) as db:
        fill(db)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < FOLDER_BYTES_MAX


def test_it_can_be_opened_more_often_than_the_keeper_has_places_for_clients(tmp_path: Path) -> None:
    for number in range(20):
        with motet.open(tmp_path) as db:
            db.create_stream(f"stream-{number}")
    with motet.open(tmp_path) as db:
        assert len(db.streams()) == 20


# Between the two steps

DIES = """
    import os, signal, sys
    import pyarrow as pa
    import motet
    from motet.core.catalog.machine import CatalogedStreams
    from motet.core.mergetree.replica import TableReplica

    def die(*_):
        print("defined", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

    db = motet.open(sys.argv[1])
    if sys.argv[2] == "stream":
        CatalogedStreams._bear = die
        db.create_stream("orders", shards=3)
    else:
        TableReplica.on_session = die
        db.create_table("sales", pa.schema([("sku", pa.string())]), order_by=["sku"])
    """


def test_a_stream_whose_creator_was_killed_between_the_steps_is_there(tmp_path: Path) -> None:
    with python_running(DIES, tmp_path, "stream") as process:
        assert line_of(process) == "defined"
        assert process.wait(60) == -9
    assert "/motet/streams/orders" in tree_of(tmp_path)
    with motet.open(tmp_path) as db:
        (info,) = db.streams()
        assert (info.name, info.shards) == ("orders", 3)
        db.create_stream("orders", shards=3).append("k", b"v")
        assert len(db.changes("orders")) == 1
    with motet.open(tmp_path) as db:
        assert len(db.changes("orders")) == 1


def test_a_table_whose_creator_was_killed_between_the_steps_is_there(tmp_path: Path) -> None:
    with python_running(DIES, tmp_path, "table") as process:
        assert line_of(process) == "defined"
        assert process.wait(60) == -9
    with motet.open(tmp_path) as db:
        rows = pa.table({"sku": ["a", "b"]})
        db.table("sales").insert(rows)
        assert db.sql("select count(*) as n from sales").to_pylist() == [{"n": 2}]


# Folders that are not whole


def test_a_folder_without_its_keeper_is_refused(tmp_path: Path) -> None:
    with motet.open(tmp_path) as db:
        fill(db)
    shutil.rmtree(tmp_path / "keeper")
    with pytest.raises(NodeError, match="no keeper") as raised:
        motet.open(tmp_path)
    assert "release before" in raised.value.advice
    assert not (tmp_path / "keeper" / "superblock").exists(), "and none was made"


def test_a_folder_without_its_log_is_refused(tmp_path: Path) -> None:
    with motet.open(tmp_path) as db:
        fill(db)
    shutil.rmtree(tmp_path / "streams")
    with pytest.raises(BadRecord, match="another one"):
        motet.open(tmp_path)


def test_the_keeper_of_another_database_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        with motet.open(tmp_path / name) as db:
            fill(db)
    shutil.rmtree(tmp_path / "a" / "keeper")
    shutil.copytree(tmp_path / "b" / "keeper", tmp_path / "a" / "keeper")
    with pytest.raises(BadRecord, match="another one"):
        motet.open(tmp_path / "a")


def test_a_garbled_keeper_says_so(tmp_path: Path) -> None:
    with motet.open(tmp_path) as db:
        fill(db)
    superblock = tmp_path / "keeper" / "superblock"
    superblock.write_bytes(bytes(superblock.stat().st_size))
    with pytest.raises(NodeError, match="keeper"):
        motet.open(tmp_path)
