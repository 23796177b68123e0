"""Clocks, bookmarks, and ``clock.enabled``."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.behaviour.face import covers
from tests.behaviour.feeds import put
from tests.behaviour.places import Place, fresh, keys_of_shards

import motet
import motet.aio
from motet.aio import Database
from motet.client.cursors import Bookmark, bookmark_text, parse_bookmark
from motet.core.clock.hlc import END, ZERO, Clock
from motet.errors import BadBookmark, BadInput


@covers("Database.clock")
async def test_the_clock_is_at_or_above_all_that_was_handed_out_and_rises(db: Database) -> None:
    name = fresh("clocks")
    stream = await db.create_stream(name, shards=3)
    clocks = [await db.clock()]
    for number in range(3):
        clocks += [await put(db, name, "k", number), (await stream.append("k", b"")).clock]
        assert await db.clock() >= clocks[-1]
    assert clocks == sorted(set(clocks))
    assert str(clocks[1]) == f"({clocks[1].logical},{clocks[1].counter})"
    assert Clock.parse(str(clocks[1])) == clocks[1]


@covers("Database.visible_clock")
async def test_the_visible_clock_covers_what_was_committed_and_nothing_appears_below_it(
    db: Database,
) -> None:
    name = fresh("visible")
    await db.create_stream(name, shards=3)
    first = await db.visible_clock(name, wait=True)
    clock = await put(db, name, "k", 1)
    assert await db.visible_clock(name) < clock or clock <= await db.visible_clock(name, wait=True)
    second = await db.visible_clock(name, wait=True)
    assert first < clock <= second
    assert await db.visible_clock(name) >= second, "it never falls"
    assert await db.visible_clock(wait=True) >= clock, "of all streams"
    assert [c.key for c in await db.changes(name, after=first)] == [b"k"]
    assert (await db.changes(name, up_to=first)).changes == []
    assert await put(db, name, "k", 2) > second


# Bookmarks


@covers("Database.bookmark", "aio.connect")
async def test_who_connects_after_a_bookmark_sees_all_of_it_at_once(db: Database) -> None:
    name = fresh("marked")
    stream = await db.create_stream(name, shards=3)
    for number in range(3):
        async with db.transaction() as txn:
            for key in keys_of_shards(3):
                txn.change(name, key, "update", row={"n": number})
        position = await stream.append("raw", b"x")
        mark = await db.bookmark()
        async with motet.aio.connect(await db.endpoint(), after=mark) as other:
            # Nothing is waited for but what the bookmark says.
            shown = [change.clock for change in await other.changes(name)]
            assert shown[-1] == position.clock
            assert shown.count(txn.clock) == 3
            found = await other.stream(name).read(position.shard, source="replica")
            assert found[-1].clock == position.clock
            assert await put(other, name, "k", number) > position.clock
            assert parse_bookmark(await other.bookmark()).clock > position.clock
            await db.resume_after(await other.bookmark())


@covers("Database.resume_after", "Database.bookmark")
async def test_a_client_goes_on_after_the_bookmark_of_another(db: Database) -> None:
    name = fresh("followed")
    await db.create_stream(name, shards=2)
    async with motet.aio.connect(await db.endpoint()) as other:
        for number in range(5):
            clock = await put(db, name, f"k-{number}", number)
            await other.resume_after(await db.bookmark())
            assert (await other.changes(name)).changes[-1].clock == clock
            clock = await put(other, name, f"l-{number}", number)
            await db.resume_after(await other.bookmark())
            assert (await db.changes(name)).changes[-1].clock == clock


@covers("aio.connect", "Database.resume_after")
async def test_a_bookmark_of_another_database_or_none_is_refused(
    db: Database, tmp_path: Path
) -> None:
    endpoint = await db.endpoint()
    async with motet.aio.open(tmp_path / "another") as another:
        foreign = await another.bookmark()
    with pytest.raises(BadBookmark, match="another database"):
        await motet.aio.connect(endpoint, after=foreign)
    with pytest.raises(BadBookmark, match="another database"):
        await db.resume_after(foreign)
    mark = await db.bookmark()
    for bad in ("garbled", "", mark[:-1], 7):
        with pytest.raises(BadBookmark):
            await motet.aio.connect("127.0.0.1:1", after=bad)  # type: ignore[arg-type]
        with pytest.raises(BadBookmark):
            await db.resume_after(bad)  # type: ignore[arg-type]


@covers("aio.connect")
async def test_a_bookmark_ahead_of_the_database_is_refused(db: Database) -> None:
    ahead = bookmark_text(Bookmark(db.database_id, END))
    endpoint = await db.endpoint()
    with pytest.raises(BadBookmark, match="ahead"):
        async with motet.aio.connect(endpoint, after=ahead):
            pass


# The setting


@asynccontextmanager
async def clock_off(db: Database) -> AsyncIterator[None]:
    """For the length of a block: the database is for other cases, too."""
    await db.enable_clock(False)
    try:
        yield
    finally:
        await db.enable_clock()


async def moved(db: Database, stream: str, number: int) -> Clock | None:
    """A transaction over two shards that reads what it changes; its clock."""
    async with db.transaction() as txn:
        for key in keys_of_shards(2):
            found = await txn.get(stream, key)
            assert (0 if found is None else found.row["n"]) == number - 1
            txn.change(stream, key, "update", row={"n": number})
    return txn.clock


@covers("Database.enable_clock", "Database.clock_enabled")
async def test_c15_no_clock_while_it_is_off_and_above_everything_before_when_it_is_on_again(
    place: Place, db: Database
) -> None:
    name = fresh("clock_visibility")
    await db.create_stream(name, shards=2)
    before = await moved(db, name, 1)
    assert before is not None
    assert await db.clock_enabled()
    async with clock_off(db):
        await db.enable_clock(False)
        assert not await db.clock_enabled()
        assert not (await db.feed_status(name)).clock_enabled
        with pytest.warns(motet.ClockOff, match="clock.enabled is off"):
            assert await moved(db, name, 2) is None
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # once per connection
            await db.stream(name).append("raw", b"value")
            async with db.transaction() as txn:
                txn.change(name, "x", "insert", row={"n": 0})
                assert await txn.commit_clock() is None
            status = await db.transaction_status(txn.id)
        assert (txn.clock, status.standing, status.clock) == (None, "committed", None)
        visible = await db.visible_clock(name, wait=True)
        assert await db.clock() >= visible > before, "the clock itself goes on"
        assert [c.key for c in await db.transaction_changes(txn.id)] == [b"x"]
    assert await db.clock_enabled()
    after = await moved(db, name, 3)
    assert after is not None
    assert after > visible
    await db.visible_clock(name, wait=True)
    async with motet.aio.connect(await db.endpoint()) as other:
        await other.visible_clock(name, wait=True)
        with pytest.warns(motet.ClockOff):
            first = await other.changes(name, limit=4)
        rest = await other.changes(name, after=first.cursor)
        found = [*first.changes, *rest.changes]
        assert [c.clock for c in found] == [before] * 2 + [None] * 4 + [after] * 2
        numbers = [c.row["n"] for c in found if c.op == "update"]
        assert numbers == [1, 1, 2, 2, 3, 3], "the order is not concerned"
        assert "without a clock" in repr(found[2])
        assert (await other.changes(name)).to_arrow()["clock"].null_count == 4
        found_clocks = await other.sql(
            "select count(*) as many, count(cc.commit_clock) as clocks from system.changes tt, "
            "system.transaction_commit_clock cc where tt.stream = ? and "
            "tt.transaction = cc.transaction",
            [name],
        )
        assert found_clocks.to_pylist() == [{"many": 8, "clocks": 4}]
        entries = [entry for shard in (0, 1) for entry in await other.stream(name).read(shard)]
        assert sum(entry.clock is None for entry in entries) == 4


@covers("Database.enable_clock")
async def test_the_setting_is_there_when_it_is_opened_again(place: Place) -> None:
    async with place.open() as db:
        await db.enable_clock(False)
    async with place.open() as db, clock_off(db):
        assert not await db.clock_enabled()
    async with place.open() as db:
        assert await db.clock_enabled()


async def test_a_stream_that_is_created_while_it_is_off_has_no_clocks(db: Database) -> None:
    name = fresh("newborn")
    async with clock_off(db):
        await db.create_stream(name, shards=2)
        with pytest.warns(motet.ClockOff):
            assert await moved(db, name, 1) is None
    assert await moved(db, name, 2) is not None


@covers("Database.enable_clock")
async def test_what_is_neither_on_nor_off_is_refused(db: Database) -> None:
    for bad in ("off", 0, None):
        with pytest.raises(BadInput, match="True or False"):
            await db.enable_clock(bad)  # type: ignore[arg-type]
    assert await db.clock_enabled()
    assert await db.clock() > ZERO
