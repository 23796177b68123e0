"""Streams: created, listed, described, typed, deleted, and what cannot be a stream."""

from __future__ import annotations

import asyncio
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.behaviour.face import covers
from tests.behaviour.places import Place, fresh

import motet.aio
from motet.aio import Database
from motet.core.clock.hlc import ZERO
from motet.core.onelog.messages import StreamInfo
from motet.errors import BadInput, BadSchema, NoSuchStream, StreamExists
from motet.errors.operator import NoNodeToPlaceOn
from motet.limits import name_length_max

STOCK = pa.schema([("left", pa.int64())])
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
SALE: dict[str, Any] = {
    "sku": "s-1",
    "qty": 2,
    "price": Decimal("1.50"),
    "at": datetime(2024, 2, 29, 12, tzinfo=UTC),
    "day": date(2024, 2, 29),
    "photo": b"\xff",
    "items": [{"qty": 1}, None],
}


async def info_of(db: Database, name: str) -> StreamInfo | None:
    """What a listing says of a stream."""
    return next((each for each in await db.streams() if each.name == name), None)


async def insert(db: Database, stream: str, row: dict[str, Any], **more: Any) -> None:
    async with db.transaction() as txn:
        txn.change(stream, key="k", op="insert", row=row, **more)


# Creating and listing


@covers("Database.create_stream", "Database.stream", "Database.streams")
async def test_a_stream_is_listed_with_its_shards_and_entries(db: Database) -> None:
    before = await db.clock()
    b, a = fresh("listed_b"), fresh("listed_a")
    stream = await db.create_stream(b)
    assert stream.name == b
    assert repr(stream).startswith(f"<Stream {b} of ")
    await db.create_stream(a, schema=STOCK, shards=2)
    for n in range(5):
        await stream.append(f"k-{n}", b"v")
    await insert(db, a, {"left": 1})
    listed = {str(info.name): info for info in await db.streams()}
    assert list(listed) == sorted(listed)
    assert (listed[a].shards, listed[b].shards) == (2, 4)
    assert (len(listed[a].entries), sum(listed[a].entries)) == (2, 1)
    assert (len(listed[b].entries), sum(listed[b].entries)) == (4, 5)
    assert (listed[a].schema is None, listed[b].schema) == (False, None)
    assert listed[b].created > before
    assert db.stream(a).name == a


@covers("Database.create_stream")
async def test_the_same_once_more_is_fine_and_another_of_that_name_is_not(db: Database) -> None:
    plain, typed = fresh("same_plain"), fresh("same_typed")
    stream = await db.create_stream(plain, shards=3)
    await stream.append("k", b"v")
    await db.create_stream(plain, shards=3)
    await db.create_stream(typed, schema=STOCK, shards=1)
    await db.create_stream(typed, schema=STOCK.with_metadata({"note": "the same"}), shards=1)
    others: list[tuple[str, dict[str, Any]]] = [
        (plain, {"shards": 4}),
        (plain, {"shards": 3, "schema": STOCK}),
        (typed, {"shards": 1}),
        (typed, {"shards": 1, "schema": SALES}),
    ]
    for name, other in others:
        with pytest.raises(StreamExists, match=name):
            await db.create_stream(name, **other)
    async with motet.aio.connect(await db.endpoint()) as client:
        await client.create_stream(plain, shards=3)
        with pytest.raises(StreamExists, match=plain):
            await client.create_stream(plain, shards=4)
    info = await info_of(db, plain)
    assert info is not None
    assert (info.shards, sum(info.entries)) == (3, 1)


@covers("Database.create_stream")
async def test_the_replicas_that_it_has_anyway_may_be_asked_for(place: Place, db: Database) -> None:
    name = fresh("asked_for")
    await db.create_stream(name, shards=1)
    await db.create_stream(name, shards=1, replicas=place.nodes)


@covers("Database.create_stream")
async def test_many_who_create_the_same_at_once_get_one(db: Database) -> None:
    name = fresh("rivals")
    streams = await asyncio.gather(*(db.create_stream(name, shards=2) for _ in range(8)))
    positions = [await stream.append("k", b"v") for stream in streams]
    assert [position.offset for position in positions] == list(range(8))


BAD: dict[str, dict[str, Any]] = {
    "blank in its name": {"name": "no name"},
    "empty name": {"name": ""},
    "name that begins with a digit": {"name": "1st"},
    "slash in its name": {"name": "a/b"},
    "name that is too long": {"name": "x" * (name_length_max + 1)},
    "name of another type": {"name": 7},
    "no shards": {"shards": 0},
    "fewer shards": {"shards": -1},
    "too many shards": {"shards": 1 << 20},
    "shards of another type": {"shards": 2.0},
    "shards that are a truth": {"shards": True},
    "schema that is none": {"schema": "a text"},
    "no replicas": {"replicas": 0},
    "replicas of another type": {"replicas": "3"},
}


@covers("Database.create_stream", "Database.stream")
async def test_what_cannot_be_a_stream_is_refused_and_nothing_is_created(db: Database) -> None:
    before = await db.streams()
    good = fresh("never")
    for what, wrong in BAD.items():
        with pytest.raises(BadInput) as told:
            await db.create_stream(**{"name": good, **wrong})
        assert told.value.code == "BAD_INPUT" or "schema" in wrong, what
    with pytest.raises(BadSchema, match="'sizes'"):
        await db.create_stream(good, schema=pa.schema([("sizes", pa.uint8())]))
    with pytest.raises(BadInput, match="not a name"):
        db.stream("no name")
    assert [info.name for info in await db.streams()] == [info.name for info in before]


@covers("Database.create_stream")
async def test_the_longest_name_is_a_name(db: Database) -> None:
    name = fresh("long").ljust(name_length_max, "x")
    stream = await db.create_stream(name, shards=1)
    await stream.append("k", b"v")
    assert len((await db.changes(name)).changes) <= 1
    assert await info_of(db, name) is not None


@covers("Database.create_stream")
async def test_more_replicas_than_there_are_nodes_are_refused(place: Place, db: Database) -> None:
    name = fresh("copies")
    with pytest.raises(NoNodeToPlaceOn):
        await db.create_stream(name, replicas=place.nodes + 1)
    assert await info_of(db, name) is None
    await db.create_stream(name, replicas=place.nodes)


@covers("Database.stream", "Stream.append", "Stream.read", "Stream.stats", "Database.changes")
async def test_a_stream_that_is_not_there_is_named(db: Database) -> None:
    there, name = fresh("there"), fresh("nowhere")
    await db.create_stream(there, shards=1)
    stream = db.stream(name)
    uses: dict[str, Any] = {
        "append": stream.append("k", b"v"),
        "append with a token": stream.append("k", b"v", token=("p", 1)),
        "read": stream.read(),
        "stats": stream.stats(),
        "batch": stream.append_batch(pa.table({"key": ["k"], "value": [b"v"]})),
        "arrow": stream.read_arrow(),
        "changes": db.changes(there, name),
        "split": db.split_feed(there, name),
        "plan": db.feed_plan([there, name]),
        "visible": db.visible_clock(name),
        "status": db.feed_status(name),
        "low watermark": db.low_watermark(name),
        "oldest": db.oldest(there, name),
        "prune": db.prune(name, up_to=ZERO),
        "tail": anext(db.tail(there, name)),
        "tail of a shard": anext(stream.tail()),
        "transaction": insert(db, name, {}),
        "get": db.transact(lambda txn: txn.get(name, "k")),
    }
    told = {}
    for what, use in uses.items():
        try:
            told[what] = f"answered with {await use}"
        except NoSuchStream as error:
            told[what] = error.what
    assert {what: text for what, text in told.items() if repr(name) not in text} == {}
    assert (await db.changes(there)).changes == []


# Deleting


@covers("Database.delete_stream")
async def test_a_deleted_stream_is_gone_and_its_name_is_free(db: Database) -> None:
    name = fresh("gone")
    stream = await db.create_stream(name, shards=1)
    await stream.append("k", b"old", token=("p", 1))
    await db.delete_stream(name)
    assert await info_of(db, name) is None
    for use in (stream.append("k", b"v"), stream.read(), db.changes(name), insert(db, name, {})):
        with pytest.raises(NoSuchStream, match=name):
            await use
    await db.create_stream(name, shards=2)
    position = await stream.append("k", b"new", token=("p", 1))
    assert not position.duplicate
    assert [entry.value for entry in await stream.read(position.shard)] == [b"new"]


@covers("Database.delete_stream")
async def test_a_name_is_used_again_by_a_stream_of_another_type(db: Database) -> None:
    name = fresh("retyped")
    await db.create_stream(name, schema=STOCK, shards=1)
    await insert(db, name, {"left": 1})
    async with motet.aio.connect(await db.endpoint()) as other:
        assert await info_of(other, name) is not None
        await db.delete_stream(name)
        await db.create_stream(name, schema=SALES, shards=1)
        await insert(db, name, SALE)
        await insert(other, name, SALE)
        await other.visible_clock(name, wait=True)
        assert [change.row for change in await other.changes(name)] == [SALE, SALE]


@covers("Database.delete_stream")
async def test_what_is_not_there_cannot_be_deleted(db: Database) -> None:
    with pytest.raises(NoSuchStream, match="nowhere"):
        await db.delete_stream("nowhere")
    with pytest.raises(BadInput, match="not a name"):
        await db.delete_stream("no name")


# Types


@covers("Database.create_stream", "Transaction.change", "Transaction.get")
async def test_typed_rows_come_back_as_the_values_they_were(db: Database) -> None:
    name = fresh("sales")
    stream = await db.create_stream(name, schema=SALES, shards=1)
    await insert(db, name, SALE, before=SALE | {"qty": None})
    await db.visible_clock(name, wait=True)
    (change,) = await db.changes(name)
    assert (change.row, change.before) == (SALE, SALE | {"qty": None})
    assert [entry.row for entry in await stream.read()] == [SALE]
    async with db.transaction() as txn:
        latest = await txn.get(name, "k")
        txn.change(name, key="k", op="update", row={"sku": "s-2"}, before=SALE)
        own = await txn.get(name, "k")
    assert latest is not None
    assert latest.row == SALE
    assert own is not None
    assert (own.row["sku"], own.row["qty"], own.before) == ("s-2", None, SALE)


WRONG: dict[str, dict[str, Any]] = {
    "'qty'": {"qty": "2"},
    "'sku'": {"sku": None},
    "'price'": {"price": Decimal("1.505")},
    "'items.qty'": {"items": [{"qty": 300}]},
    "'colour'": {"colour": "red"},
}


@covers("Transaction.change")
async def test_a_row_that_does_not_fit_is_refused_by_its_column(db: Database) -> None:
    name = fresh("checked")
    await db.create_stream(name, schema=SALES, shards=1)
    for column, wrong in WRONG.items():
        for row, before in [(SALE | wrong, None), (SALE, SALE | wrong)]:
            with pytest.raises(BadSchema, match=column) as told:
                await insert(db, name, row, before=before)
            assert name in told.value.what
    async with db.transaction() as txn:
        with pytest.raises(BadSchema):
            txn.change(name, key="k", op="insert", row=SALE | {"qty": "2"})
        txn.change(name, key="k", op="insert", row=SALE)
    await db.visible_clock(name, wait=True)
    assert [change.row for change in await db.changes(name)] == [SALE]


async def test_a_client_learns_of_streams_that_others_create(db: Database) -> None:
    typed, plain = fresh("learned"), fresh("learned")
    async with motet.aio.connect(await db.endpoint()) as other:
        await db.create_stream(typed, schema=SALES, shards=1)
        await db.create_stream(plain, shards=1)
        with pytest.raises(BadSchema, match="'qty'"):
            await insert(other, typed, SALE | {"qty": "2"})
        async with other.transaction() as txn:
            txn.change(typed, key="a", op="insert", row=SALE)
            txn.change(plain, key="n", op="insert", row={"any": [1, "thing"]})
        assert [entry.row for entry in await other.stream(typed).read()] == [SALE]
    await db.visible_clock(typed, plain, wait=True)
    found = [(change.stream, change.row) for change in await db.changes(plain, typed)]
    assert found == [(typed, SALE), (plain, {"any": [1, "thing"]})]


async def test_raw_entries_of_a_typed_stream_are_taken_as_they_are(db: Database) -> None:
    name = fresh("raw")
    stream = await db.create_stream(name, schema=STOCK, shards=1)
    await stream.append("a", b"\xff")
    await stream.append("b", b'{"left":7}')
    assert [entry.row for entry in await stream.read()] == [b"\xff", b'{"left":7}']
    await db.visible_clock(name, wait=True)
    rows = (await db.changes(name)).to_arrow()["row"].to_pylist()
    assert rows == [None, {"left": 7}]
