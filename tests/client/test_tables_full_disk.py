"""Tables on a disk without room: every write says so, nothing is seen of it, and with room it works again."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pytest
from tests.client.parts import ask, part_file, serving

import motet
from motet.client.parts import STORE_FILE
from motet.columnar import part_file as part_file_module
from motet.errors import DiskFull
from motet.real import objects
from motet.real.durable import write_all

#: the limit on the size of files stands for a full disk: the system refuses what goes beyond it
LIMITED = """
    import os, resource, sys
    import motet

    def limit(size_bytes):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))

    def refused(what):
        try:
            what()
        except motet.errors.DiskFull as error:
            assert "DISK_FULL" in str(error)
        else:
            raise AssertionError("there was no room")

    rows = [{"k": k, "b": os.urandom(1000)} for k in range(100)]
    with motet.open(sys.argv[1]) as db:
        import pyarrow as pa

        table = db.create_table("t", pa.schema([("k", pa.int64()), ("b", pa.binary())]), ["k"])
        table.insert(rows[:1], token="first")
        staged = db.stage("t", rows[:2])
        limit(50_000)
        refused(lambda: table.insert(rows, token="second"))
        refused(lambda: db.stage("t", rows))
        assert table.insert(rows[:3]).rows == 3, "what fits is taken"
        limit(1)
        refused(lambda: table.insert(rows[:1]))
        refused(lambda: db.publish(staged))
        assert table.select().num_rows == 4
        assert db.sql("select count(*) as n from t").to_pylist() == [{"n": 4}]
        limit(resource.RLIM_INFINITY)
        assert db.publish(staged).rows == 2
        done = table.insert(rows, token="second")
        assert (done.rows, done.duplicate) == (100, False), "the token was not used up"
        assert not os.listdir(os.path.join(sys.argv[1], "parts", ".unfinished"))
    with motet.open(sys.argv[1]) as db:
        print(db.table("t").select().num_rows)
    """


def test_a_table_on_a_full_disk(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(LIMITED), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.split() == ["106"], done.stderr


def test_a_part_that_is_put_over_http_where_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    file = part_file(10_000)
    with serving(tmp_path) as server:
        with monkeypatch.context() as patch:
            patch.setattr(objects, "write_all", no_room)
            answer = ask(server, "PUT", file.path, body=file.data)
            assert (answer.status, json.loads(answer.body)["error"]["code"]) == (507, "DISK_FULL")
        assert ask(server, "GET", file.path).status == 404
        assert list((tmp_path / "parts" / ".unfinished").iterdir()) == []
        assert ask(server, "PUT", file.path, body=file.data).status == 201


def test_an_insert_from_afar_where_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    with motet.open(tmp_path) as db:
        db.create_table("t", pa.schema([("k", pa.int64())]), order_by=["k"])
        endpoint = db.endpoint
        (tmp_path / "parts" / STORE_FILE).write_text("0" * 32)  # as on another machine
        with motet.connect(endpoint) as other:
            with monkeypatch.context() as patch:
                patch.setattr(objects, "write_all", no_room)
                with pytest.raises(DiskFull, match="no room for these rows of table t"):
                    other.table("t").insert([{"k": 1}])
            assert other.table("t").select().num_rows == 0
            assert other.table("t").insert([{"k": 1}]).rows == 1


class Room:
    """Room for so many files of parts."""

    def __init__(self, patch: pytest.MonkeyPatch, files: int) -> None:
        self.files = files
        patch.setattr(objects, "write_all", self._write)

    def _write(self, fd: int, data: bytes, offset: int) -> None:
        if not self.files:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.files -= 1
        write_all(fd, data, offset)


def part_files(folder: Path) -> list[Path]:
    return [
        path for path in (folder / "parts").rglob("*") if path.name != STORE_FILE and path.is_file()
    ]


@pytest.mark.parametrize("is_far", [False, True])
def test_an_insert_of_several_parts_without_room_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_far: bool
) -> None:
    monkeypatch.setattr(part_file_module, "block_rows_max", 1)
    rows = [{"k": 1}, {"k": 2}, {"k": 3}]
    with motet.open(tmp_path) as db:
        db.create_table("t", pa.schema([("k", pa.int64())]), order_by=["k"])
        endpoint = db.endpoint
        if is_far:
            (tmp_path / "parts" / STORE_FILE).write_text("0" * 32)  # as on another machine
        with motet.connect(endpoint) as other:
            for files in range(6):  # three parts, each with a manifest
                for write in (other.table("t").insert, lambda rows: other.stage("t", rows)):
                    with monkeypatch.context() as patch:
                        Room(patch, files)
                        with pytest.raises(DiskFull, match="no room"):
                            write(rows)
                    assert part_files(tmp_path) == [], files
            assert other.table("t").insert(rows).rows == 3
            assert len(part_files(tmp_path)) == 6
            assert other.table("t").select().num_rows == 3


def test_an_insert_whose_publication_finds_no_room_leaves_no_file(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(NOT_PUBLISHED), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert len(part_files(tmp_path)) == 2, "those of the insert that fitted"


#: the log cannot grow, and the files of a part are no longer than it is
NOT_PUBLISHED = """
    import os, resource, sys
    import motet
    import pyarrow as pa

    with motet.open(sys.argv[1]) as db:
        table = db.create_table("t", pa.schema([("k", pa.int64())]), ["k"])
        put = type(db._inner._tables).__dict__["_publish"]

        async def publish(tables, wanted):
            resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
            return await put(tables, wanted)

        type(db._inner._tables)._publish = publish
        try:
            table.insert([{"k": 1}])
        except motet.errors.DiskFull:
            pass
        else:
            raise AssertionError("there was no room")
        type(db._inner._tables)._publish = put
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert table.insert([{"k": 2}]).rows == 1
        assert table.select().to_pylist() == [{"k": 2}]
    """
