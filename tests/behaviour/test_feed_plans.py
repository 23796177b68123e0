"""Plans: the feed cut between transactions, for readers side by side or bit by bit."""

from __future__ import annotations

from tests.behaviour.face import covers
from tests.behaviour.feeds import filled, write
from tests.behaviour.places import fresh, keys_of_shards

from motet.aio import Database
from motet.client.change import Change
from motet.core.clock.hlc import ZERO, Clock


@covers("Database.split_feed")
async def test_the_splits_of_a_split_are_the_whole_slice(db: Database) -> None:
    streams = await filled(db)
    whole = (await db.changes(*streams)).changes
    for splits in (1, 3, 50):
        split = await db.split_feed(*streams, splits=splits)
        assert 1 <= len(split.bounds) <= splits
        assert list(split.bounds) == sorted(split.bounds)
        assert split.visible >= split.bounds[-1]
        assert (split.changes_after, split.database) == (0, db.database_id)
        found: list[Change] = []
        after = None
        for bound in split.bounds:
            found += (await db.changes(*streams, after=after, up_to=bound)).changes
            after = bound
        assert found == whole
    first = await db.changes(*streams, limit=10)
    split = await db.split_feed(*streams, after=first.cursor, changes_max=8)
    (bound,) = split.bounds
    found = (await db.changes(*streams, after=first.cursor, up_to=bound)).changes
    assert 0 < len(found) <= 8
    assert found == whole[len(first) : len(first) + len(found)]
    assert split.changes_after > 0


@covers("Database.feed_plan")
async def test_a_plan_cuts_the_feed_between_transactions(db: Database) -> None:
    name = fresh("planned")
    await db.create_stream(name, shards=3)
    keys = keys_of_shards(3)
    begin = await db.visible_clock(name, wait=True)
    for number in range(12):
        await write(db, name, *keys[: number % 3 + 1])
    end = await db.visible_clock(name, wait=True)
    whole = [(c.clock, c.key) for c in await db.changes(name, up_to=end)]
    plan = await db.feed_plan([name], begin, splits=4, up_to=end)
    assert plan.splits[0][0] == begin
    read = [
        (change.clock, change.key)
        for after, up_to in plan.splits
        for change in await db.changes(name, after=after, up_to=up_to)
    ]
    assert read == whole
    assert plan.visible >= plan.up_to
    after = begin
    found: list[tuple[Clock | None, bytes]] = []
    while len(found) < len(whole):
        plan = await db.feed_plan([name], after, max_changes=5, up_to=end)
        assert plan.up_to > after
        part = (await db.changes(name, after=after, up_to=plan.up_to)).changes
        assert len(part) <= 5
        found += [(change.clock, change.key) for change in part]
        after = plan.up_to
    assert found == whole


@covers("Database.feed_plan")
async def test_a_plan_counts_the_changes_of_its_streams(db: Database) -> None:
    name, other = fresh("counted"), fresh("not_counted")
    await db.create_stream(name, shards=2)
    await db.create_stream(other, shards=1)
    for _ in range(5):
        await write(db, name, "a", "b")
        await write(db, other, "c")
    end = await db.visible_clock(name, other, wait=True)
    plan = await db.feed_plan([name], up_to=end)
    assert (plan.changes, plan.changes_after) == (10, 0)
    plan = await db.feed_plan([name], max_changes=4, up_to=end)
    assert (plan.changes, plan.changes_after) == (4, 6)
    plan = await db.feed_plan([name], after=end, up_to=end)
    assert (plan.changes, plan.up_to) == (0, end)


@covers("Database.oldest", "Database.feed_begins", "Database.low_watermark")
async def test_a_feed_of_which_nothing_is_pruned_is_there_from_the_beginning(db: Database) -> None:
    a, b, _ = await filled(db, 3)
    assert await db.oldest(a, b) == ZERO
    assert await db.low_watermark(a, b) == ZERO
    assert await db.feed_begins(a, b) == {a: ZERO, b: ZERO}
    whole = (await db.changes(a, b)).changes
    assert (await db.changes(a, b, after="oldest")).changes == whole
    assert (await db.changes(a, b, after=ZERO)).changes == whole
