"""The feed: every change of some streams once, in causal order, whatever the size of the pages."""

from __future__ import annotations

import asyncio
import pickle
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.behaviour.face import covers
from tests.behaviour.feeds import filled, write
from tests.behaviour.places import fresh, keys_of_shards

import motet.aio
from motet.aio import Database
from motet.client.change import Change
from motet.client.feed import Page
from motet.core.clock.hlc import ZERO, Clock
from motet.errors import BadCursor, BadInput, NoSuchStream
from motet.limits import row_bytes_max


async def pages(db: Database, *streams: str, limit: int, **options: Any) -> list[Page]:
    """All that is visible, page by page."""
    found: list[Page] = []
    cursor = None
    while not found or found[-1].more:
        found.append(await db.changes(*streams, after=cursor, limit=limit, **options))
        assert found[-1].changes or not found[-1].more
        cursor = found[-1].cursor
    return found


# Pages


@covers("Database.changes", "Page.changes", "Page.visible")
async def test_pages_of_any_size_give_the_same_changes(db: Database) -> None:
    a, b, c = await filled(db)
    for streams in ((a,), (b, a), (c, b, a)):
        whole = (await db.changes(*streams)).changes
        order = [(each.raw.clock, each.transaction, each.index) for each in whole]
        assert order == sorted(set(order))
        assert {each.stream for each in whole} == set(streams)
        for limit in (1, 3, 7, 1000):
            found = await pages(db, *streams, limit=limit)
            assert [change for page in found for change in page] == whole
            for page in filter(len, found):
                assert len(page) <= max(limit, page.changes[0].count)
                assert page.visible >= page.changes[-1].raw.clock
    for page in filter(len, await pages(db, a, b, c, limit=2)):
        last = [each for each in page if each.transaction == page.changes[-1].transaction]
        assert len(last) == last[0].count, "a transaction is not split"


@covers("Database.changes")
async def test_pages_stay_the_same_while_somebody_writes(db: Database) -> None:
    name = fresh("busy")
    await db.create_stream(name, shards=3)
    keys = keys_of_shards(3)
    for number in range(10):
        await write(db, name, *keys[: number % 3 + 1])
    end = await db.visible_clock(name, wait=True)
    wanted = [(c.clock, c.index) for c in await db.changes(name, up_to=end)]
    assert len(wanted) == 19
    cursor, found, more = None, [], True
    while more:
        page = await db.changes(name, after=cursor, limit=2, up_to=end)
        cursor, more = page.cursor, page.more
        found += [(change.clock, change.index) for change in page]
        await write(db, name, keys[0])
    assert found == wanted


@covers("Database.changes", "Page.cursor")
async def test_a_cursor_stands_for_what_was_read(db: Database) -> None:
    a, b, _ = await filled(db, 6)
    page = await db.changes(a, b)
    assert (await db.changes(b, a, after=page.cursor)).changes == []
    await db.stream(b).append("new", b"1")
    await db.visible_clock(a, b, wait=True)
    (new,) = await db.changes(a, b, after=page.cursor)
    assert (new.key, new.op, new.row) == (b"new", "append", b"1")
    async with motet.aio.connect(await db.endpoint()) as other:
        await other.visible_clock(a, b, wait=True)
        assert (await other.changes(a, b, after=page.cursor)).changes == [new]


@covers("Database.changes")
async def test_a_page_is_chosen_by_clocks_by_key_and_by_time(db: Database) -> None:
    name = fresh("chosen")
    await db.create_stream(name, shards=3)
    left, middle, right = keys_of_shards(3)
    clocks = [
        await write(db, name, left, middle),
        await write(db, name, right),
        await write(db, name, left),
    ]
    await db.visible_clock(name, wait=True)

    async def found(**options: Any) -> list[tuple[Clock | None, str]]:
        page = await db.changes(name, **options)
        return [(change.clock, change.key.decode()) for change in page]

    whole = [(clocks[0], left), (clocks[0], middle), (clocks[1], right), (clocks[2], left)]
    assert await found() == whole
    assert await found(key=left) == [whole[0], whole[3]]
    assert await found(key=left.encode(), limit=1) == [whole[0]]
    assert await found(key="never") == []
    assert await found(after=clocks[0], up_to=clocks[1]) == [whole[2]]
    assert await found(up_to=ZERO) == []
    assert await found(last=timedelta(hours=1)) == whole
    assert await found(last=timedelta(hours=1), key=right) == [whole[2]]
    assert [c.key.decode() async for c in db.tail(name, key=left, stop_after=2)] == [left] * 2


async def test_a_long_stretch_of_other_streams_is_skipped(db: Database) -> None:
    a, b = fresh("few"), fresh("large")
    await db.create_stream(a, shards=1)
    await db.create_stream(b, shards=1)
    for number in range(3):
        await db.stream(b).append(f"{number}", bytes(row_bytes_max))
    await db.stream(a).append("k", b"v")
    await db.visible_clock(a, b, wait=True)
    page = await db.changes(a)
    assert ([change.key for change in page], page.more) == ([b"k"], False)
    assert len([c for page in await pages(db, a, b, limit=1000) for c in page]) == 4


# Order


async def test_what_was_caused_comes_after_its_cause_over_streams_and_clients(
    db: Database,
) -> None:
    """Each client reads what the one before has written, by any way, and writes to another stream."""
    streams = [fresh(f"caused_{n}") for n in range(3)]
    for name in streams:
        await db.create_stream(name, shards=2)
    endpoint = await db.endpoint()
    async with motet.aio.connect(endpoint) as second, motet.aio.connect(endpoint) as third:
        clients = [db, second, third]
        clocks = []
        for number in range(9):
            here, there = streams[number % 3], streams[(number + 1) % 3]
            writer, reader = clients[number % 3], clients[(number + 1) % 3]
            position = await writer.stream(here).append(f"n-{number}", b"%d" % number)
            clocks.append(position.clock)
            if number % 2:
                assert (await reader.stream(here).read(position.shard))[-1].value == b"%d" % number
            else:
                async with reader.transaction() as txn:
                    found = await txn.get(here, f"n-{number}")
                    assert found is not None
                    txn.change(there, f"t-{number}", "insert", row={"n": number})
                assert txn.clock is not None
                clocks.append(txn.clock)
        assert clocks == sorted(set(clocks))
        for client in clients:
            await client.visible_clock(*streams, wait=True)
            assert [c.clock for c in await client.changes(*streams)] == clocks


@covers("Database.tail")
async def test_a_tail_gives_each_change_of_many_writers_once_and_in_order(db: Database) -> None:
    a, b = fresh("written_a"), fresh("written_b")
    await db.create_stream(a, shards=2)
    await db.create_stream(b, shards=2)

    async def work(number: int) -> None:
        for n in range(10):
            async with db.transaction() as txn:
                txn.change(a, f"{number}-{n}", "insert", row={"n": n})
                txn.change(b, f"{number}-{n}", "insert", row={"n": n})

    async def follow() -> list[Change]:
        return [change async for change in db.tail(a, b, limit=7, stop_after=80)]

    async with asyncio.timeout(120):
        follower = asyncio.create_task(follow())
        await asyncio.gather(*(work(number) for number in range(4)))
        found = await follower
    order = [(c.raw.clock, c.transaction, c.index) for c in found]
    assert order == sorted(set(order))
    assert len(order) == 80
    for pair in zip(found[::2], found[1::2], strict=True):
        assert len({change.transaction for change in pair}) == 1
    for number in range(4):
        mine = [c.row["n"] for c in found if c.stream == a and c.key.startswith(b"%d-" % number)]
        assert mine == list(range(10))


@covers("Database.tail")
async def test_a_tail_goes_on_after_a_cursor_and_waits_for_what_comes(db: Database) -> None:
    streams = await filled(db, 8)
    whole = (await db.changes(*streams)).changes
    first = await db.changes(*streams, limit=6)
    count = len(first)
    rest = [c async for c in db.tail(*streams, after=first.cursor, stop_after=5)]
    assert rest == whole[count : count + 5]
    assert [c async for c in db.tail(*streams, stop_after=0)] == []
    recent = [c async for c in db.tail(*streams, last=timedelta(hours=1), stop_after=len(whole))]
    assert recent == whole
    end = (await db.changes(*streams)).cursor
    async with asyncio.timeout(60):
        coming = asyncio.ensure_future(anext(db.tail(*streams, after=end)))
        await db.stream(streams[1]).append("new", b"1")
        assert (await coming).key == b"new"


# What a page is


@covers("Page.changes", "Page.to_arrow", "Page.more")
async def test_a_page_says_what_it_is_and_travels(db: Database) -> None:
    streams = await filled(db, 6)
    page = await db.changes(*streams, limit=3)
    assert len(page) == len(list(page)) == len(page.changes)
    assert f"{len(page)} changes" in repr(page)
    assert "more" in repr(page)
    assert f"insert {page.changes[0].stream} 0-0" in repr(page.changes[0])
    again = pickle.loads(pickle.dumps(page))
    assert (again.changes, again.cursor, again.more) == (page.changes, page.cursor, True)
    assert again.to_arrow() == page.to_arrow()


@covers("Page.to_arrow")
async def test_a_page_is_arrow_with_typed_rows(db: Database) -> None:
    sales, stock, notes = fresh("sales"), fresh("stock"), fresh("notes")
    await db.create_stream(sales, schema=pa.schema([("sku", pa.string())]), shards=1)
    await db.create_stream(stock, schema=pa.schema([("left", pa.int64())]), shards=1)
    await db.create_stream(notes, shards=1)
    async with db.transaction() as txn:
        txn.change(sales, key="a", op="insert", row={"sku": "s"})
        txn.change(stock, key="s", op="update", row={"left": 7}, before={"left": 9})
        txn.change(notes, key="n", op="insert", row={"b": 1})
    await db.visible_clock(sales, stock, notes, wait=True)
    (sale,) = (await db.changes(sales)).to_arrow().to_pylist()
    assert txn.clock is not None
    assert (sale["row"], sale["before"]) == ({"sku": "s"}, None)
    assert (sale["transaction"], sale["index"], sale["count"]) == (txn.id, 0, 3)
    assert (sale["stream"], sale["shard"], sale["key"], sale["op"]) == (sales, 0, b"a", "insert")
    assert Clock(**sale["clock"]) == txn.clock
    both = await db.changes(stock, sales)
    assert both.to_arrow()["row"].to_pylist() == [
        {sales: {"sku": "s"}, stock: None},
        {sales: None, stock: {"left": 7}},
    ]
    assert both.to_arrow()["before"].to_pylist() == [None, {sales: None, stock: {"left": 9}}]
    assert pa.table(both).equals(both.to_arrow())
    text = (await db.changes(stock, notes)).to_arrow()
    assert text["row"].to_pylist() == ['{"left":7}', '{"b":1}']


# What is refused


@covers("Database.changes", "Database.tail", "Database.split_feed")
async def test_a_cursor_of_others_is_refused(db: Database, tmp_path: Path) -> None:
    a, b, _ = await filled(db, 2)
    cursor = (await db.changes(a, b)).cursor
    garbled = cursor[:-2] + ("A" if cursor[-2] != "A" else "B") + cursor[-1]
    for bad in (cursor[:-2], garbled, "motet1.AAAA", "", "no cursor"):
        with pytest.raises(BadCursor):
            await db.changes(a, b, after=bad)
    with pytest.raises(BadCursor, match="of the streams"):
        await db.changes(a, after=cursor)
    with pytest.raises(BadCursor, match="of the streams"):
        await anext(db.tail(a, after=cursor))
    with pytest.raises(BadCursor, match="of the streams"):
        await db.split_feed(a, after=cursor)
    async with motet.aio.open(tmp_path / "another") as another:
        await another.create_stream(a, shards=2)
        foreign = (await another.changes(a)).cursor
    with pytest.raises(BadCursor, match="another database"):
        await db.changes(a, after=foreign)


@covers("Database.changes", "Database.tail", "Database.split_feed", "Database.feed_plan")
async def test_what_cannot_be_read_is_refused(db: Database) -> None:
    name = fresh("refused")
    await db.create_stream(name, shards=1)
    hour = timedelta(hours=1)
    bad: list[dict[str, Any]] = [
        {"limit": 0},
        {"limit": -1},
        {"limit": "1"},
        {"after": 7},
        {"up_to": 7},
        {"key": ""},
        {"key": 7},
        {"last": timedelta(0)},
        {"last": 3600},
        {"last": hour, "after": ZERO},
    ]
    for wrong in bad:
        with pytest.raises(BadInput):
            await db.changes(name, **wrong)
    bad = [{"stop_after": -1}, {"stop_after": "1"}, {"limit": 0}, {"key": ""}]
    for wrong in bad:
        with pytest.raises(BadInput):
            await anext(db.tail(name, **wrong))
    bad = [{"splits": 0}, {"changes_max": 0}, {"after": 7}, {"up_to": 7}]
    for wrong in bad:
        with pytest.raises(BadInput):
            await db.split_feed(name, **wrong)
    with pytest.raises(BadInput):
        await db.feed_plan([name], max_changes=0)
    for no_stream in (db.changes(), anext(db.tail()), db.split_feed(), db.feed_plan([])):
        with pytest.raises(BadInput, match="no stream is named"):
            await no_stream
    with pytest.raises(NoSuchStream, match="nowhere"):
        await db.changes(name, "nowhere")
