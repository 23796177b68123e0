"""Typed streams: rows are checked before anything is sent, and come back as the values they were."""

from __future__ import annotations

import asyncio
import pickle
import sys
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import motet
from motet.client.change import Change
from motet.columnar.schema import encode_schema
from motet.core.onelog.messages import CreateStream, StreamReady
from motet.errors import BadInput, BadSchema, MissingLibrary, NoSuchStream, StreamExists, TooLarge
from motet.ids import StreamName
from motet.limits import row_bytes_max, transaction_bytes_max

SALES = pa.schema(
    [
        pa.field("sku", pa.string(), nullable=False),
        ("qty", pa.int32()),
        ("price", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
        ("photo", pa.binary()),
        ("items", pa.list_(pa.struct([("qty", pa.int8())]))),
    ]
)
STOCK = pa.schema([("left", pa.int64())])

SALE: dict[str, Any] = {
    "sku": "s-1",
    "qty": 2,
    "price": Decimal("1.50"),
    "at": datetime(2024, 2, 29, 12, tzinfo=UTC),
    "day": date(2024, 2, 29),
    "photo": b"\xff",
    "items": [{"qty": 1}, None],
}


def sell(db: motet.Database, key: str, row: dict[str, Any], **more: Any) -> None:
    with db.transaction() as txn:
        txn.change("sales", key=key, op="insert", row=row, **more)


def test_rows_come_back_as_the_values_they_were(db: motet.Database) -> None:
    db.create_stream("sales", schema=SALES, shards=1)
    sell(db, "a", SALE, before=SALE | {"qty": None})
    (change,) = db.changes("sales")
    assert (change.row, change.before) == (SALE, SALE | {"qty": None})
    (entry,) = db.stream("sales").read()
    assert (entry.row, entry.value) == (SALE, change.raw.row)
    with db.transaction() as txn:
        latest = txn.get("sales", "a")
        txn.change("sales", key="a", op="update", row={"sku": "s-2"}, before=SALE)
        own = txn.get("sales", "a")
    assert latest is not None
    assert latest.row == SALE
    assert own is not None
    assert (own.row["sku"], own.row["qty"], own.before) == ("s-2", None, SALE)
    tailed = list(db.tail("sales", stop_after=2))
    assert [change.row["sku"] for change in tailed] == ["s-1", "s-2"]


def test_instants_of_other_zones_are_the_same_instants(db: motet.Database) -> None:
    db.create_stream("sales", schema=SALES)
    there = SALE["at"].astimezone(timezone(timedelta(hours=-5)))
    sell(db, "a", SALE | {"at": there})
    (change,) = db.changes("sales")
    assert change.row["at"] == there
    assert change.row["at"].tzinfo is UTC


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"qty": "2"}, "'qty'"),
        ({"qty": 1 << 31}, "'qty'"),
        ({"sku": None}, "'sku'"),
        ({"price": Decimal("1.505")}, "'price'"),
        ({"at": datetime(2024, 1, 1)}, "'at'"),  # noqa: DTZ001 - that is what is wrong with it
        ({"items": [{"qty": 300}]}, "'items.qty'"),
        ({"colour": "red"}, "'colour'"),
    ],
    ids=str,
)
def test_a_row_that_does_not_fit_is_refused_by_its_column(
    db: motet.Database, wrong: dict[str, Any], named: str
) -> None:
    db.create_stream("sales", schema=SALES)
    for row, before in [(SALE | wrong, None), (SALE, SALE | wrong)]:
        with pytest.raises(BadSchema, match=named) as raised, db.transaction() as txn:
            txn.change("sales", key="a", op="update", row=row, before=before)
        assert "sales" in raised.value.what
    with db.transaction() as txn:
        with pytest.raises(BadSchema):
            txn.change("sales", key="a", op="insert", row=SALE | wrong)
        txn.change("sales", key="b", op="insert", row=SALE)
    assert [change.key for change in db.changes("sales")] == [b"b"]


def test_a_typed_row_is_bounded_like_any_other(db: motet.Database) -> None:
    db.create_stream("sales", schema=SALES)
    with pytest.raises(TooLarge):
        sell(db, "a", SALE | {"sku": "x" * row_bytes_max})
    with pytest.raises(BadInput):
        sell(db, "a", [SALE])  # type: ignore[arg-type]


def test_a_schema_belongs_to_its_stream_for_ever(db: motet.Database, tmp_path: Path) -> None:
    db.create_stream("sales", schema=SALES)
    db.create_stream("sales", schema=SALES.with_metadata({"note": "the same"}))
    for other in (None, STOCK, SALES.remove(0)):
        with pytest.raises(StreamExists):
            db.create_stream("sales", schema=other)
    db.create_stream("notes")
    with pytest.raises(StreamExists):
        db.create_stream("notes", schema=STOCK)
    sell(db, "a", SALE)
    db.close()
    with motet.open(tmp_path / "data") as again:
        assert again.changes("sales").changes[0].row == SALE
        with pytest.raises(BadSchema):
            sell(again, "b", {"sku": 7})
        with pytest.raises(StreamExists):
            again.create_stream("sales", schema=STOCK)


def test_the_same_schema_in_other_bytes_is_the_same(tmp_path: Path) -> None:
    async def run() -> None:
        name = StreamName("stock")
        other = STOCK.with_metadata({"written": "by another version"}).serialize().to_pybytes()
        async with motet.aio.open(tmp_path) as db:
            await db._calls.once(lambda n: CreateStream(n, name, 4, other), StreamReady)
        async with motet.aio.open(tmp_path) as db:
            assert encode_schema(STOCK, what="stock") != other
            await db.create_stream("stock", schema=STOCK)
            with pytest.raises(StreamExists):
                await db.create_stream("stock", schema=SALES)

    asyncio.run(run())


def test_a_schema_that_cannot_be_creates_nothing(db: motet.Database) -> None:
    with pytest.raises(BadSchema, match="'sizes'"):
        db.create_stream("sales", schema=pa.schema([("sizes", pa.uint8())]))
    assert db.streams() == []


def test_a_client_learns_of_streams_that_others_create(db: motet.Database) -> None:
    with motet.connect(db.endpoint) as other:
        db.create_stream("sales", schema=SALES)
        db.create_stream("notes")
        with other.transaction() as txn:
            with pytest.raises(BadSchema, match="'qty'"):
                txn.change("sales", key="a", op="insert", row=SALE | {"qty": "2"})
            txn.change("sales", key="a", op="insert", row=SALE)
            txn.change("notes", key="n", op="insert", row={"any": [1, "thing"]})
        found = {change.stream: change.row for change in other.changes("notes", "sales")}
        assert found == {"sales": SALE, "notes": {"any": [1, "thing"]}}
        with pytest.raises(NoSuchStream, match="nothing"), other.transaction() as txn:
            txn.change("nothing", key="a", op="insert", row=SALE)


def test_readers_learn_of_streams_that_others_create(db: motet.Database) -> None:
    with motet.connect(db.endpoint) as reader, motet.connect(db.endpoint) as getter:
        db.create_stream("sales", schema=SALES, shards=1)
        sell(db, "a", SALE)
        assert [entry.row for entry in reader.stream("sales").read()] == [SALE]
        with getter.transaction() as txn:
            latest = txn.get("sales", "a")
        assert latest is not None
        assert latest.row == SALE


def test_without_waiting_a_row_of_a_new_stream_is_checked_before_anything_is_sent(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with (
            motet.aio.open(tmp_path) as db,
            motet.aio.connect(await db.endpoint()) as late,
        ):
            await db.create_stream("known")
            await db.create_stream("sales", schema=SALES)
            with pytest.raises(BadSchema, match="'qty'"):  # noqa: PT012
                async with late.transaction() as txn:
                    txn.change("known", key="k", op="insert", row={})
                    txn.change("sales", key="a", op="insert", row=SALE | {"qty": "2"})
            with pytest.raises(NoSuchStream):  # noqa: PT012
                async with late.transaction() as txn:
                    txn.change("known", key="k", op="insert", row={})
                    txn.change("nothing", key="a", op="insert", row={})
            assert (await db.changes("known", "sales")).changes == []

    asyncio.run(run())


def test_what_waits_for_its_stream_keeps_its_place_and_its_values(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            motet.aio.open(tmp_path) as db,
            motet.aio.connect(await db.endpoint()) as late,
        ):
            await db.create_stream("sales", schema=SALES, shards=1)
            await db.create_stream("notes", shards=1)
            row = SALE | {"items": [{"qty": 1}]}
            async with late.transaction() as txn:
                txn.change("sales", key="a", op="insert", row=row)
                txn.change("notes", key="n", op="insert", row={})
                row["items"][0]["qty"] = 7
                row["sku"] = "later"
                own = await txn.get("sales", "a")
                assert own is not None
                assert own.row == SALE | {"items": [{"qty": 1}]}
                txn.change("sales", key="a", op="delete", before=own.row)
                latest = await txn.get("sales", "a")
                assert latest is not None
                assert latest.op == "delete"
            found = [(c.stream, c.op) for c in await db.changes("notes", "sales")]
            assert found == [("sales", "insert"), ("notes", "insert"), ("sales", "delete")]

    asyncio.run(run())


def test_what_waits_for_its_stream_is_bounded_too(tmp_path: Path) -> None:
    async def run() -> None:
        async with (
            motet.aio.open(tmp_path) as db,
            motet.aio.connect(await db.endpoint()) as late,
        ):
            await db.create_stream("notes")
            large = {"x": "a" * (row_bytes_max - 10)}
            with pytest.raises(TooLarge):  # noqa: PT012
                async with late.transaction() as txn:
                    for i in range(1 + transaction_bytes_max // row_bytes_max):
                        txn.change("notes", key=f"{i}", op="insert", row=large)
            endless: dict[str, Any] = {}
            endless["me"] = endless
            with pytest.raises(BadInput):  # noqa: PT012
                async with await motet.aio.connect(await db.endpoint()) as later:
                    await db.create_stream("more")
                    async with later.transaction() as txn:
                        txn.change("more", key="k", op="insert", row=endless)
            assert (await db.changes("notes")).changes == []

    asyncio.run(run())


def test_raw_entries_are_taken_as_they_are(db: motet.Database) -> None:
    stream = db.create_stream("stock", schema=STOCK, shards=1)
    stream.append("a", b"\xff")
    stream.append("b", b'{"left":7}')
    assert [entry.row for entry in stream.read()] == [b"\xff", b'{"left":7}']
    assert db.changes("stock").to_arrow()["row"].to_pylist() == [None, {"left": 7}]


def test_a_page_is_arrow_with_typed_rows(db: motet.Database) -> None:
    db.create_stream("sales", schema=SALES)
    db.create_stream("stock", schema=STOCK)
    db.create_stream("notes")
    with db.transaction() as txn:
        txn.change("sales", key="a", op="insert", row=SALE)
        txn.change("stock", key="s", op="update", row={"left": 7}, before={"left": 9})
        txn.change("notes", key="n", op="insert", row={"b": 1})
    (sale,) = db.changes("sales").to_arrow().to_pylist()
    assert (sale["row"], sale["before"], sale["transaction"]) == (SALE, None, txn.id)
    both = db.changes("stock", "sales").to_arrow()
    assert both["row"].to_pylist() == [
        {"sales": SALE, "stock": None},
        {"sales": None, "stock": {"left": 7}},
    ]
    assert both["before"].to_pylist() == [None, {"sales": None, "stock": {"left": 9}}]
    text = db.changes("stock", "notes").to_arrow()
    assert text["row"].to_pylist() == ['{"left":7}', '{"b":1}']
    assert "value" not in text.column_names
    assert pa.table(db.changes("stock", "sales")).equals(both)


def test_changes_and_pages_travel_between_processes(db: motet.Database) -> None:
    db.create_stream("sales", schema=SALES)
    sell(db, "a", SALE)
    page = db.changes("sales")
    again = pickle.loads(pickle.dumps(page))
    assert again.changes == page.changes
    assert isinstance(again.changes[0], Change)
    assert again.changes[0].row == SALE
    assert again.to_arrow() == page.to_arrow()


def test_without_pyarrow_streams_of_json_work_and_typed_ones_say_what_is_missing(
    db: motet.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = pa.schema([("seen_by_no_other_test", pa.int8())])
    db.create_stream("typed", schema=schema)
    db.create_stream("notes")
    with db.transaction() as txn:
        txn.change("typed", key="a", op="insert", row={"seen_by_no_other_test": 1})
    from motet.client.rows import _codec

    _codec.cache_clear()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with db.transaction() as txn:
        txn.change("notes", key="n", op="insert", row={"a": 1})
        with pytest.raises(MissingLibrary, match="pyarrow"):
            txn.change("typed", key="a", op="insert", row={"seen_by_no_other_test": 1})
        with pytest.raises(MissingLibrary, match="pyarrow"):
            _ = db.changes("typed").changes[0].row
    assert [change.row for change in db.changes("notes")] == [{"a": 1}]
    with pytest.raises(MissingLibrary, match="pyarrow"):
        db.create_stream("another", schema=schema)
