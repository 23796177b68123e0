"""The same face for asyncio."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

import motet
import motet.aio
from motet.errors import Conflict, DatabaseLocked


def test_everything_in_one_event_loop(tmp_path: Path) -> None:
    async def run() -> None:
        async with motet.aio.open(tmp_path) as db:
            orders = await db.create_stream("orders", shards=1)
            await db.create_stream("stock")
            position = await orders.append("k", b"v")
            assert [entry.offset for entry in await orders.read()] == [position.offset]
            async with db.transaction() as txn:
                assert await txn.get("stock", "s") is None
                txn.change("stock", key="s", op="insert", row={"left": 3})
            page = await db.changes("orders", "stock")
            assert [change.op for change in page] == ["append", "insert"]
            assert await db.visible_clock(wait=True) == await db.clock() == txn.clock
            seen = [change async for change in db.tail("orders", "stock", stop_after=2)]
            assert seen == page.changes
            assert [info.name for info in await db.streams()] == ["orders", "stock"]

    before = threading.active_count()
    asyncio.run(run())
    assert threading.active_count() == before


def test_hundreds_of_appends_under_way_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with motet.aio.open(tmp_path) as db:
            stream = await db.create_stream("a")
            positions = await asyncio.gather(*(stream.append(f"{i}", b"v") for i in range(500)))
            assert len({position.clock for position in positions}) == 500

    asyncio.run(run())


def test_a_connection_is_awaited_and_closed(tmp_path: Path) -> None:
    async def run() -> None:
        db = await motet.aio.open(tmp_path)
        other = await motet.aio.connect(await db.endpoint())
        await other.create_stream("a")
        assert [info.name for info in await db.streams()] == ["a"]
        with pytest.raises(DatabaseLocked):
            await motet.aio.open(tmp_path)
        await other.close()
        await db.close()

    asyncio.run(run())


def test_transact_counts_exactly_among_rivals(tmp_path: Path) -> None:
    async def increment(txn: motet.aio.Transaction) -> None:
        latest = await txn.get("a", "counter")
        count = 0 if latest is None else latest.row["count"]
        txn.change("a", key="counter", op="update", row={"count": count + 1})

    async def late(txn: motet.aio.Transaction) -> None:
        raise Conflict("always")

    async def run() -> list[int]:
        async with motet.aio.open(tmp_path) as db:
            await db.create_stream("a")
            await asyncio.gather(*(db.transact(increment, attempts=1000) for _ in range(12)))
            with pytest.raises(Conflict):
                await db.transact(late, attempts=2)
            return [change.row["count"] for change in await db.changes("a")]

    assert asyncio.run(run()) == list(range(1, 13))


def test_a_tail_ends_when_the_database_is_closed(tmp_path: Path) -> None:
    async def run() -> None:
        async with motet.aio.open(tmp_path) as db:
            stream = await db.create_stream("a")
            caught_up = asyncio.Event()

            async def follow() -> list[bytes]:
                keys = []
                async for change in db.tail("a"):
                    keys.append(change.key)
                    caught_up.set()
                return keys

            follower = asyncio.create_task(follow())
            await stream.append("k", b"v")
            await caught_up.wait()
        assert await follower == [b"k"]

    asyncio.run(run())
