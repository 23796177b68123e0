"""Bad input to tables, and to streams that are not there: a code, what it is, and nothing has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import motet
from motet.client.sync import Transaction
from motet.errors import (
    BadInput,
    BadSchema,
    MotetError,
    NoSuchStream,
    NoSuchTable,
    TooLarge,
)
from motet.limits import row_bytes_max

SALES = pa.schema([("sku", pa.string()), ("qty", pa.int64()), ("tags", pa.list_(pa.string()))])


@pytest.fixture
def db(tmp_path: Path) -> Iterator[motet.Database]:
    with motet.open(tmp_path / "data") as opened:
        opened.create_stream("orders", schema=SALES, shards=1)
        opened.create_table("sales", SALES, order_by=["sku"])
        yield opened


def left_alone(db: motet.Database) -> bool:
    """Whether there is nothing but what was there at the start."""
    streams = [(info.name, sum(info.entries)) for info in db.streams()]
    tables = [(info.name, info.parts) for info in db.tables()]
    return streams == [("orders", 0)] and tables == [("sales", 0)] and not db.writers()


def is_clear(error: MotetError, name: str) -> bool:
    """Whether the text has the code, what it is about, and what to do."""
    return str(error).startswith(f"{error.code} ") and name in error.what and bool(error.advice)


@pytest.mark.parametrize(
    "use",
    [
        lambda db: db.table("nowhere").insert([{"sku": "a"}]),
        lambda db: db.table("nowhere").select(),
        lambda db: db.table("nowhere").snapshot(),
        lambda db: db.stage("nowhere", [{"sku": "a"}]),
        lambda db: db.snapshot("sales", "nowhere"),
        lambda db: db.sql("select * from nowhere"),
        lambda db: db.sql("select * from sales join nowhere using (sku)"),
    ],
)
def test_a_table_that_is_not_there(
    db: motet.Database, use: Callable[[motet.Database], object]
) -> None:
    with pytest.raises(NoSuchTable) as caught:
        use(db)
    assert is_clear(caught.value, "nowhere")
    assert left_alone(db)


def change_nowhere(db: motet.Database) -> None:
    with db.transaction() as txn:
        txn.change("orders", key="a", op="insert", row={"sku": "a"})
        txn.change("nowhere", key="a", op="insert", row={"sku": "a"})


@pytest.mark.parametrize(
    "use",
    [
        lambda db: db.stream("nowhere").append("k", b"v"),
        lambda db: db.stream("nowhere").read(),
        lambda db: db.changes("orders", "nowhere"),
        lambda db: db.split_feed("orders", "nowhere"),
        lambda db: db.visible_clock("nowhere"),
        lambda db: next(db.tail("orders", "nowhere")),
        lambda db: db.transaction().__enter__().get("nowhere", "k"),
        change_nowhere,
    ],
)
def test_a_stream_that_is_not_there(
    db: motet.Database, use: Callable[[motet.Database], object]
) -> None:
    with pytest.raises(NoSuchStream) as caught:
        use(db)
    assert is_clear(caught.value, "nowhere")
    assert left_alone(db)


@pytest.mark.parametrize(
    ("options", "column"),
    [
        ({"order_by": ["tags"]}, "tags"),
        ({"order_by": ["sku"], "engine": "replacing", "version": "tags"}, "tags"),
        ({"order_by": ["sku"], "engine": "replacing", "tombstone": "qty"}, "qty"),
        ({"order_by": ["price"]}, "price"),
        ({"order_by": None}, "order_by"),
        ({"schema": pa.schema([("a\0b", pa.int64())]), "order_by": ["a\0b"]}, "'a\\x00b'"),
    ],
)
def test_a_table_that_could_never_be_filled_or_read_is_not_created(
    db: motet.Database, options: dict[str, Any], column: str
) -> None:
    with pytest.raises(BadInput) as caught:
        db.create_table("new", **{"schema": SALES, **options})
    assert is_clear(caught.value, column)
    assert left_alone(db)


@pytest.mark.parametrize(
    ("rows", "column"),
    [
        ([{"sku": "a", "qty": "many"}], "qty"),
        ([{"sku": "a", "price": 1}], "price"),
        ([{"sku": "a", "tags": ["x", 1]}], "tags"),
        (pa.table({"sku": [1]}), "sku"),
        ({"sku": ["a"], "qty": [1, 2]}, "qty"),
    ],
)
def test_rows_that_do_not_fit_name_the_column_and_leave_no_file(
    db: motet.Database, tmp_path: Path, rows: object, column: str
) -> None:
    before = sorted((tmp_path / "data" / "parts").rglob("*"))
    for use in (db.table("sales").insert, lambda given: db.stage("sales", given)):
        with pytest.raises(BadSchema) as caught:
            use(rows)
        assert is_clear(caught.value, f"'{column}'")
    assert left_alone(db)
    assert sorted((tmp_path / "data" / "parts").rglob("*")) == before


def test_a_row_that_is_too_large_for_a_stream(db: motet.Database) -> None:
    def change(txn: Transaction) -> None:
        txn.change("orders", key="b", op="insert", row={"sku": "small"})
        txn.change("orders", key="a", op="insert", row={"sku": "x" * row_bytes_max})

    with pytest.raises(TooLarge) as caught:
        db.transact(change)
    assert is_clear(caught.value, str(row_bytes_max))
    assert left_alone(db), "nor is the small one there"


@pytest.mark.parametrize("cursor", ["", "garbled", "x" * 10_000, "\0", "grün", 17])
def test_a_cursor_that_is_none(db: motet.Database, cursor: Any) -> None:
    for use in (db.changes, db.split_feed, lambda name, after: next(db.tail(name, after=after))):
        with pytest.raises(BadInput) as caught:
            use("orders", after=cursor)
        assert is_clear(caught.value, "")
        assert len(str(caught.value)) < 500, "what was given is shown in part"
