"""Tables on a disk without room: every write says so, nothing is seen of it, and with room it works again."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import motet
from motet.errors import DiskFull
from motet.node import part_draft

SCHEMA = pa.schema([("k", pa.int64()), ("b", pa.binary())])


def rows(first: int, count: int) -> list[dict[str, object]]:
    return [{"k": k, "b": os.urandom(1000)} for k in range(first, first + count)]


def no_room(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("is_far", [False, True])
@pytest.mark.parametrize("count", [3, 3_000], ids=["within the message", "put ahead"])
def test_a_part_without_room_leaves_nothing(
    db: motet.Database, monkeypatch: pytest.MonkeyPatch, is_far: bool, count: int, tmp_path: Path
) -> None:
    db.create_table("t", SCHEMA, order_by=["k"])
    with motet.connect(db.endpoint) as other:
        reader = other if is_far else db
        reader.table("t").insert(rows(0, 1))
        many = rows(100, count)
        writes: list[Callable[[], object]] = [
            lambda: reader.table("t").insert(many, token="t"),
            lambda: reader.stage("t", many),
        ]
        with monkeypatch.context() as patch:
            patch.setattr(part_draft, "write_all", no_room)
            for write in writes:
                with pytest.raises(DiskFull, match="No space left"):
                    write()
            assert reader.table("t").select().num_rows == 1
            assert reader.sql("select count(*) as n from t").to_pylist() == [{"n": 1}]
        assert list((tmp_path / "data" / "parts" / "unfinished~").iterdir()) == []
        done = reader.table("t").insert(many, token="t")
        assert (done.rows, done.duplicate) == (count, False), "the token was not used up"
        assert reader.table("t").select().num_rows == count + 1


#: the limit on the size of files stands for a full disk; the keeper's files have their size from the start
LIMITED = """
    import os, resource, sys
    import pyarrow as pa
    import motet

    def limit(size_bytes):
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, resource.RLIM_INFINITY))

    rows = [{"k": k, "b": os.urandom(100_000)} for k in range(300)]
    with motet.open(sys.argv[1]) as db:
        table = db.create_table("t", pa.schema([("k", pa.int64()), ("b", pa.binary())]), ["k"])
        limit(20_000_000)
        for write in (table.insert, lambda rows: db.stage("t", rows)):
            try:
                write(rows)
            except motet.errors.DiskFull:
                pass
            else:
                raise AssertionError("there was no room")
        assert table.insert(rows[:3]).rows == 3, "what fits is taken"
        limit(resource.RLIM_INFINITY)
        assert table.insert(rows).rows == 300
    with motet.open(sys.argv[1]) as db:
        print(db.table("t").select().num_rows)
    """


def test_a_table_on_a_full_disk(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(LIMITED), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.split() == ["303"], done.stderr
