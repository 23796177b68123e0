"""Named cursors, and pruning that stops at them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.behaviour.face import covers
from tests.behaviour.places import fresh

import motet.aio
from motet.aio import Database
from motet.client.cursors import NamedCursor
from motet.client.feed import Page
from motet.core.clock.hlc import ZERO, Clock
from motet.errors import BadCursor, BadInput
from motet.errors.shards import CursorExpired, CursorInTheWay

patience_seconds = 60.0


def rows(page: Page) -> list[object]:
    return [change.row["n"] for change in page]


async def filled(db: Database, *streams: str, transactions: int = 3) -> list[Clock]:
    """Transactions over all shards of all of these streams; their clocks."""
    for name in streams:
        await db.create_stream(name, shards=2)
    clocks = []
    for number in range(transactions):
        async with db.transaction() as txn:
            for name in streams:
                for key in ("a", "b", "c"):
                    txn.change(name, key, "update", row={"n": number})
        assert txn.clock is not None
        clocks.append(txn.clock)
    await db.visible_clock(*streams, wait=True)
    return clocks


async def named(db: Database, name: str) -> NamedCursor | None:
    return next((each for each in await db.cursors() if each.name == name), None)


async def until_expired(db: Database, *streams: str, cursor: str) -> str:
    """What somebody is told who reads on from there, once every replica has heard of the pruning."""
    async with asyncio.timeout(patience_seconds):
        while True:
            async with motet.aio.connect(await db.endpoint()) as other:
                try:
                    await other.changes(*streams, after=cursor)
                except CursorExpired as error:
                    return str(error)


@covers(
    "Database.save_cursor",
    "Database.cursors",
    "Database.prune",
    "Database.low_watermark",
    "Database.drop_cursor",
)
async def test_pruning_stops_at_a_named_cursor_and_goes_on_by_force(db: Database) -> None:
    name, reader = fresh("kept"), fresh("reader")
    clocks = await filled(db, name)
    assert await db.low_watermark(name) == ZERO
    first = await db.changes(name, limit=3)
    await db.save_cursor(reader, first.cursor)
    saved = await named(db, reader)
    assert saved is not None
    assert (saved.streams, saved.is_expired) == ((name,), False)
    assert saved.reader == f"the named cursor {reader!r}"
    assert clocks[0] <= saved.clock < clocks[1]
    with pytest.raises(CursorInTheWay, match=reader):
        await db.prune(name, up_to=clocks[1])
    assert await db.low_watermark(name) == ZERO, "nothing was pruned"
    assert await db.prune(name, up_to=clocks[0]) == clocks[0]
    assert rows(await db.changes(name, after=first.cursor)) == [1] * 3 + [2] * 3
    assert await db.prune(name, up_to=clocks[1], force=True) == clocks[1]
    assert await db.low_watermark(name) == clocks[1]
    saved = await named(db, reader)
    assert saved is not None
    assert saved.is_expired
    assert f"read on after {clocks[1]}" in await until_expired(db, name, cursor=first.cursor)
    assert rows(await db.changes(name, after=clocks[1])) == [2] * 3
    with pytest.raises(CursorExpired):
        await db.save_cursor(fresh("late"), first.cursor)
    await db.drop_cursor(reader)
    await db.drop_cursor(reader)
    assert await named(db, reader) is None


@covers("Database.save_cursor", "Database.cursors", "Database.prune")
async def test_a_named_cursor_that_is_saved_further_on_lets_more_be_pruned(db: Database) -> None:
    name, reader = fresh("moved"), fresh("reader")
    clocks = await filled(db, name)
    first = await db.changes(name, limit=3)
    await db.save_cursor(reader, first.cursor)
    async with motet.aio.connect(await db.endpoint()) as other:
        seen = await named(other, reader)
        assert seen is not None
        second = await other.changes(name, after=first.cursor, limit=3)
        await other.save_cursor(reader, second.cursor)
    with pytest.raises(CursorInTheWay, match=reader):
        await db.prune(name, up_to=clocks[2])
    assert await db.prune(name, up_to=clocks[1]) == clocks[1]
    assert rows(await db.changes(name, after=second.cursor)) == [2] * 3


@covers("Database.drop_cursor", "Database.save_cursor")
async def test_a_cursor_of_several_streams_is_dropped_of_one(db: Database) -> None:
    left, right, reader = fresh("left"), fresh("right"), fresh("reader")
    clocks = await filled(db, left, right)
    await db.save_cursor(reader, (await db.changes(left, right, limit=6)).cursor)
    await db.drop_cursor(reader, left)
    saved = await named(db, reader)
    assert saved is not None
    assert saved.streams == (right,)
    assert await db.prune(left, up_to=clocks[2]) == clocks[2]
    with pytest.raises(CursorInTheWay, match=reader):
        await db.prune(right, up_to=clocks[2])


@covers("Database.prune", "Database.oldest", "Database.feed_begins", "Database.low_watermark")
async def test_streams_that_are_pruned_up_to_different_clocks_are_read_together_when_told_to(
    db: Database,
) -> None:
    """From the last low watermark on: below it a part of a transaction would be missing."""
    left, right = fresh("left"), fresh("right")
    clocks = await filled(db, left, right, transactions=4)
    cursor = (await db.changes(left, right, limit=1)).cursor
    assert await db.prune(left, up_to=clocks[1]) == clocks[1]
    assert await db.prune(right, up_to=clocks[2]) == clocks[2]
    assert await db.low_watermark(left, right) == await db.oldest(left, right) == clocks[2]
    assert await db.oldest(left) == clocks[1]
    assert await db.feed_begins(left, right) == {left: clocks[1], right: clocks[2]}
    reads: list[Any] = [
        db.changes,
        db.split_feed,
        lambda *s, after: anext(db.tail(*s, after=after)),
    ]
    for after in (None, ZERO):
        for read in reads:
            with pytest.raises(CursorExpired) as told:
                await read(left, right, after=after)
            for said in (f"{left} is kept after {clocks[1]}", f"{right} is kept after {clocks[2]}"):
                assert said in told.value.what
            assert f"begin after 'oldest' to read all of them after {clocks[2]}" in str(told.value)
    assert f"read on after {clocks[2]}" in await until_expired(db, left, right, cursor=cursor)
    first = await db.changes(left, right, after="oldest", limit=1)
    assert rows(first) == [3] * 6, "a whole transaction"
    tail = db.tail(right, left, after="oldest", stop_after=6)
    assert [change.row["n"] async for change in tail] == [3] * 6
    assert rows(await db.changes(left)) == [2] * 3 + [3] * 3
    plan = await db.feed_plan([left, right], after="oldest", splits=4)
    async with motet.aio.connect(await db.endpoint()) as other:
        assert rows(await other.changes(left, right, after=first.cursor)) == []
        found = [
            change.row["n"]
            for after, up_to in plan.splits
            for change in await other.changes(left, right, after=after, up_to=up_to)
        ]
    assert found == [3] * 6


@covers("Database.prune")
async def test_a_pruned_key_has_its_latest_change_and_its_token_still(db: Database) -> None:
    name = fresh("latest")
    clocks = await filled(db, name)
    position = await db.stream(name).append("raw", b"v", token=("p", 1))
    end = await db.visible_clock(name, wait=True)
    assert await db.prune(name, up_to=end) == end
    assert (await db.changes(name)).changes == []
    async with db.transaction() as txn:
        latest = await txn.get(name, "a")
        assert latest is not None
        assert (latest.row, latest.clock) == ({"n": 2}, clocks[2])
        txn.change(name, "a", "update", row={"n": 3})
    again = await db.stream(name).append("raw", b"v", token=("p", 1))
    assert (again.duplicate, again.shard, again.offset) == (True, position.shard, position.offset)
    await db.visible_clock(name, wait=True)
    assert rows(await db.changes(name)) == [3]


@covers("Database.prune")
async def test_pruning_by_age_counts_back_from_the_clock(db: Database) -> None:
    name = fresh("aged")
    clocks = await filled(db, name)
    assert await db.prune(name, older_than=timedelta(hours=1)) < clocks[0]
    assert len((await db.changes(name)).changes) == 9
    low_watermark = await db.prune(name, older_than=timedelta(0))
    assert clocks[0].logical <= low_watermark.logical <= (await db.clock()).logical
    kept = [change.clock for change in await db.changes(name)]
    assert set(kept) == {clock for clock in clocks if clock > low_watermark}


async def test_a_stream_that_came_after_the_pruning_is_read_with_the_others(db: Database) -> None:
    """Nothing of it can be missing, so nobody has to say where to begin."""
    early, late = fresh("early"), fresh("late")
    clocks = await filled(db, early)
    await db.prune(early, up_to=clocks[1])
    await db.create_stream(late, shards=2)
    async with db.transaction() as txn:
        txn.change(early, "a", "update", row={"n": 8})
        txn.change(late, "a", "update", row={"n": 9})
    await db.visible_clock(early, late, wait=True)
    assert rows(await db.changes(early, late)) == [2, 2, 2, 8, 9]
    assert rows(await db.changes(early, late, after="oldest")) == [2, 2, 2, 8, 9]


@covers("Database.sql", "Database.prune")
@pytest.mark.filterwarnings(
    "ignore::motet.client.clock_visibility.ClockOff"
)  # other cases turn it off
async def test_sql_shows_all_that_is_kept_and_each_transaction_once(db: Database) -> None:
    one, other = fresh("one"), fresh("other")
    clocks = await filled(db, one)
    await db.create_stream(other, shards=1)
    async with db.transaction() as txn:
        txn.change(one, "a", "update", row={"n": 3})
        txn.change(other, "a", "update", row={"n": 3})
    await db.visible_clock(one, other, wait=True)
    await db.prune(one, up_to=clocks[1])
    shown = await db.sql(
        """
        select c.stream, count(*) as n from system.changes c
        join system.transaction_commit_clock t using (transaction)
        where c.stream in (?, ?) group by 1 order by 1
        """,
        [one, other],
    )
    assert shown.to_pylist() == [{"stream": one, "n": 4}, {"stream": other, "n": 1}]


@covers("Database.save_cursor", "Database.prune")
async def test_what_cannot_be_meant_is_refused(db: Database) -> None:
    name = fresh("told")
    clocks = await filled(db, name)
    with pytest.raises(BadInput, match="either"):
        await db.prune(name)
    with pytest.raises(BadInput, match="either"):
        await db.prune(name, up_to=clocks[0], older_than=timedelta(1))
    with pytest.raises(BadInput, match="visible"):
        await db.prune(name, up_to=Clock(clocks[-1].logical + 3_600_000, 0))
    with pytest.raises(BadInput, match="future"):
        await db.prune(name, older_than=timedelta(seconds=-1))
    with pytest.raises(BadInput, match="no stream is named"):
        await db.prune(up_to=clocks[0])
    cursor = (await db.changes(name)).cursor
    for bad in ("garbled", "", cursor[:-1]):
        with pytest.raises(BadCursor):
            await db.save_cursor("x", bad)
    for bad in ("", "x" * 193):
        with pytest.raises(BadInput, match="name of a cursor"):
            await db.save_cursor(bad, cursor)
    assert await db.low_watermark(name) == ZERO
