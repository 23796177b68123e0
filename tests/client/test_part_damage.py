"""A part whose file was changed: every way of reading it says so, and the rest can be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from tests.client.damage import SUM, file_of, fill, flips, is_told, overwrite

import motet
from motet.errors import BadRecord, ObjectError
from motet.format.part_manifest import MANIFEST_FILE
from motet.real.part_files import TOKEN_FILE

PLACES = 40
Sum = Callable[[str], int]


def readers(db: motet.Database) -> list[Callable[[], pa.Table]]:
    return [db.table("hurt").select, partial(db.sql, "select sum(v) from hurt")]


@pytest.fixture(params=["sql", "select", "sql from afar", "select from afar"])
def sum_of(request: pytest.FixtureRequest, db: motet.Database, tmp_path: Path) -> Iterator[Sum]:
    """The sum of a table, read in some way."""
    is_sql = request.param.startswith("sql")

    def read(reader: motet.Database, table: str) -> int:
        if is_sql:
            return int(reader.sql(f"select sum(v) as v from {table}").column("v")[0].as_py())
        return sum(reader.table(table).select(columns=["v"]).column("v").to_pylist())

    if "afar" not in request.param:
        yield lambda table: read(db, table)
        return
    with motet.connect(db.endpoint) as other:
        # The folder is not at hand, as on another machine.
        (tmp_path / "data" / "parts" / TOKEN_FILE).write_text("0" * 32)
        yield lambda table: read(other, table)


def test_no_flipped_bit_is_read(db: motet.Database, sum_of: Sum, tmp_path: Path) -> None:
    path = fill(db)
    for place in flips(path, PLACES):
        with pytest.raises(BadRecord) as caught:
            sum_of("hurt")
        assert is_told(caught.value, path), place
    assert sum_of("whole") == SUM
    db.close()  # a node that was told of the damage looks at the file when it starts
    with motet.open(tmp_path / "data") as again:
        assert sum(again.table("hurt").select(["v"]).column("v").to_pylist()) == SUM


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
    before = db.snapshot("hurt").version
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


def test_a_part_without_a_whole_manifest_is_not_read(db: motet.Database) -> None:
    path = fill(db)
    manifest = path.parent / MANIFEST_FILE
    for damage in (b"not one", None):
        if damage is None:
            manifest.unlink()
        else:
            manifest.write_bytes(damage)
        with pytest.raises((BadRecord, ObjectError), match=path.parent.name):
            db.table("hurt").select()
