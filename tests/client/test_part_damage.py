"""A part whose file was changed: every way of reading it says so, and the rest can be read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from tests.client.damage import SUM, file_of, fill, flips, is_told, overwrite
from tests.client.parts import ask, part_file

import motet
from motet.client.link import HTTP_PORT_OFFSET
from motet.client.parts import STORE_FILE, CheckedFiles
from motet.errors import BadRecord, DiskReadFailed, ObjectMissing

PLACES = 60
Sum = Callable[[str], int]


def readers(db: motet.Database) -> list[Callable[[], pa.Table]]:
    return [db.table("hurt").select, partial(db.sql, "select sum(v) from hurt")]


@pytest.fixture(params=["sql", "select", "sql from afar", "select from afar"])
def sum_of(request: pytest.FixtureRequest, db: motet.Database) -> Iterator[Sum]:
    """The sum of a table, read in some way."""
    is_sql = request.param.startswith("sql")

    def read(reader: motet.Database, table: str) -> int:
        if is_sql:
            return int(reader.sql(f"select sum(v) as v from {table}").column("v")[0].as_py())
        return sum(reader.table(table).select(columns=["v"]).column("v").to_pylist())

    if "afar" not in request.param:
        yield lambda table: read(db, table)
        return
    endpoint = db.endpoint
    (Path(db.parts_locator().folder) / STORE_FILE).write_text("0" * 32)  # as on another machine
    with motet.connect(endpoint) as other:
        yield lambda table: read(other, table)


def test_no_flipped_bit_is_read(db: motet.Database, sum_of: Sum) -> None:
    path = fill(db)
    for place in flips(path, PLACES):
        with pytest.raises(BadRecord) as caught:
            sum_of("hurt")
        assert is_told(caught.value, path), place
    assert sum_of("whole") == SUM
    assert sum_of("hurt") == SUM


def test_a_file_that_changes_after_it_was_read_is_checked_again(db: motet.Database) -> None:
    path = fill(db)
    whole = path.read_bytes()
    for read in readers(db):
        before = read()
        for damage in (whole[:-1], whole + b"x", bytes(len(whole))):
            overwrite(path, damage)
            with pytest.raises(BadRecord) as caught:
                read()
            assert is_told(caught.value, path)
        overwrite(path, whole)
        assert read() == before


def test_what_was_there_before_the_damaged_part_can_be_read(db: motet.Database) -> None:
    fill(db)
    before = db.snapshot("hurt").clock
    db.table("hurt").insert([{"k": -1, "v": 5, "name": "last"}])
    path = file_of(db, "hurt")
    overwrite(path, path.read_bytes()[::-1])
    with pytest.raises(BadRecord):
        db.sql("select sum(v) from hurt")
    assert db.sql("select sum(v) as v from hurt", at=before).column("v").to_pylist() == [SUM]
    assert sum(db.table("hurt").select(at=before).column("v").to_pylist()) == SUM
    db.table("hurt").insert([{"k": -2, "v": 6, "name": "later"}])
    assert db.sql("select count(*) as n from system.parts").column("n").to_pylist() == [4]


def test_a_table_that_replaces_is_checked_too(db: motet.Database) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    db.create_table("hurt", schema, order_by=["k"], engine="replacing").insert(
        [{"k": 1, "v": 1}, {"k": 2, "v": 2}]
    )
    path = file_of(db, "hurt")
    for _ in flips(path, PLACES):
        for read in readers(db):
            with pytest.raises(BadRecord) as caught:
                read()
            assert is_told(caught.value, path)
    assert db.table("hurt").select().num_rows == 2


def test_over_http_nothing_of_a_damaged_file_is_given(db: motet.Database) -> None:
    path = fill(db)
    staged = db.snapshot("hurt")["hurt"].parts[0].part.staged
    host, port = db.endpoint.split(":")
    server = (host, int(port) + HTTP_PORT_OFFSET)
    key = f"/parts/{staged.table_id}/{staged.id}/{staged.file}"
    whole = path.read_bytes()
    for _ in flips(path, PLACES):
        for wanted in ({}, {"Range": "bytes=0-3"}):
            answer = ask(server, "GET", key, wanted)
            assert answer.status == 500
            error = json.loads(answer.body)["error"]
            assert error["code"] == "BAD_RECORD"
            assert is_told(BadRecord(error["what"]), path)
    assert ask(server, "HEAD", key).status == 200
    assert ask(server, "GET", key).body == whole
    overwrite(path, bytes(len(whole)))
    assert ask(server, "HEAD", key).status == 500
    assert ask(server, "PUT", key, body=whole).status == 500, "what is there is not the same"


def test_without_its_manifest_a_damaged_file_is_told_by_ids(db: motet.Database) -> None:
    path = fill(db)
    overwrite(path, b"")
    for manifest in (b"not one", None):
        if manifest is None:
            (path.parent / "manifest").unlink()
        else:
            (path.parent / "manifest").write_bytes(manifest)
        with pytest.raises(BadRecord, match=path.parent.parent.name.removesuffix("+")):
            db.table("hurt").select()


def test_a_file_is_hashed_once_while_it_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from motet.client import parts

    hashed: list[Path] = []
    hash_of = parts._hash_of

    def counting(fd: int, size_bytes: int, path: Path) -> str:
        hashed.append(path)
        return hash_of(fd, size_bytes, path)

    monkeypatch.setattr(parts, "_hash_of", counting)
    files = [part_file(1000, seed) for seed in range(3)]
    paths = [tmp_path / str(seed) for seed in range(3)]
    for file, path in zip(files, paths, strict=True):
        path.write_bytes(file.data)
    checked = CheckedFiles(files_max=2)
    for number in (0, 0, 1, 0, 1, 2, 1, 0):  # of three files two are remembered
        checked.check(paths[number], files[number].key)
    assert [path.name for path in hashed] == ["0", "1", "2", "0"]
    with pytest.raises(BadRecord, match="1000 bytes, and 999"):
        checked.check(paths[0], files[0].key, 999)
    paths[0].unlink()
    with pytest.raises(ObjectMissing):
        checked.check(paths[0], files[0].key)
    with pytest.raises(DiskReadFailed):
        checked.check(tmp_path, files[0].key)
