"""Named cursors and pruning, the same for an embedded database and a cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

import motet
from motet.client.cluster.feed import ClusterFeed, Places
from motet.core.clock.hlc import ZERO, Clock
from motet.core.transaction.messages import ShardClosed
from motet.errors import BadCursor, BadInput
from motet.errors.shards import CursorExpired, CursorInTheWay
from motet.testing.dev_cluster import DevCluster

patience_seconds = 20.0


@pytest.fixture(params=["embedded", "cluster"])
def db(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[motet.Database]:
    if request.param == "embedded":
        opened = motet.open(tmp_path / "data")
    else:
        opened = motet.connect(request.getfixturevalue("cluster").endpoints)
    with opened as database:
        yield database


def rows(page: motet.client.feed.Page) -> list[object]:
    return [change.row["n"] for change in page]


def filled(db: motet.Database, stream: str) -> list[Clock]:
    """Three transactions over all shards; their clocks."""
    db.create_stream(stream, shards=2)
    clocks = []
    for number in range(3):
        with db.transaction() as txn:
            for key in ("a", "b", "c"):
                txn.change(stream, key, "update", row={"n": number})
        assert txn.clock is not None
        clocks.append(txn.clock)
    db.visible_clock(stream, wait=True)
    return clocks


def until_expired(db: motet.Database, *streams: str, cursor: str) -> str:
    """What somebody is told who reads on from there, once every replica has heard of the pruning."""
    deadline = time.monotonic() + patience_seconds
    while time.monotonic() < deadline:
        with motet.connect(db.endpoint) as other:
            try:
                other.changes(*streams, after=cursor)
            except CursorExpired as error:
                return str(error)
    raise AssertionError("it is still shown")


def test_pruning_stops_at_a_named_cursor_and_goes_on_by_force(db: motet.Database) -> None:
    clocks = filled(db, "kept")
    assert db.horizon("kept") == ZERO
    first = db.changes("kept", limit=3)
    db.save_cursor("reader", first.cursor)
    named = next(each for each in db.cursors() if each.name == "reader")
    assert (named.streams, named.is_expired) == (("kept",), False)
    assert clocks[0] <= named.clock < clocks[1]
    with pytest.raises(CursorInTheWay, match="reader"):
        db.prune("kept", up_to=clocks[1])
    assert db.horizon("kept") == ZERO, "nothing was pruned"
    assert db.prune("kept", up_to=clocks[0]) == clocks[0]
    assert rows(db.changes("kept", after=first.cursor)) == [1] * 3 + [2] * 3
    assert db.prune("kept", up_to=clocks[1], force=True) == clocks[1]
    assert next(each for each in db.cursors() if each.name == "reader").is_expired
    assert f"read on after {clocks[1]}" in until_expired(db, "kept", cursor=first.cursor)
    assert rows(db.changes("kept", after=clocks[1])) == [2] * 3
    with pytest.raises(CursorExpired):
        db.save_cursor("late", first.cursor)
    db.drop_cursor("reader")
    db.drop_cursor("reader")
    assert "reader" not in [each.name for each in db.cursors()]


def test_an_expired_cursor_can_go_on_where_all_shards_have_the_feed(db: motet.Database) -> None:
    """One of two streams was pruned, and then the other one further: the higher horizon is told."""
    db.create_stream("left", shards=2)
    db.create_stream("right", shards=1)
    clocks = []
    for number in range(4):
        with db.transaction() as txn:
            for key in ("a", "b", "c"):
                txn.change("left", key, "update", row={"n": number})
            txn.change("right", "a", "update", row={"n": number})
        assert txn.clock is not None
        clocks.append(txn.clock)
    db.visible_clock("left", "right", wait=True)
    cursor = db.changes("left", "right", limit=4).cursor
    db.prune("left", up_to=clocks[1])
    db.prune("right", up_to=clocks[2])
    told = until_expired(db, "left", "right", cursor=cursor)
    assert f"read on after {clocks[2]}" in told
    assert rows(db.changes("left", "right", after=clocks[2])) == [3] * 4
    with motet.connect(db.endpoint) as other:
        found = other.changes("left", "right", after="oldest").changes
    assert [change.row["n"] for change in found] == [3] * 4, (
        "transactions are whole from the beginning"
    )


def test_pruning_by_age_counts_back_from_the_clock(db: motet.Database) -> None:
    clocks = filled(db, "aged")
    horizon = db.prune("aged", older_than=timedelta(hours=1))
    assert horizon < clocks[0]
    assert len(db.changes("aged").changes) == 9
    db.visible_clock("aged", wait=True)
    with db.transaction() as txn:
        found = txn.get("aged", "a")
    assert found is not None


def test_streams_that_are_pruned_up_to_different_clocks_are_read_together_when_told_to(
    db: motet.Database,
) -> None:
    """From the last horizon on: below it a part of a transaction would be missing."""
    db.create_stream("left", shards=2)
    db.create_stream("right", shards=1)
    clocks = []
    for number in range(4):
        with db.transaction() as txn:
            for stream, key in (("left", "a"), ("left", "b"), ("right", "a")):
                txn.change(stream, key, "update", row={"n": number})
        assert txn.clock is not None
        clocks.append(txn.clock)
    db.visible_clock("left", "right", wait=True)
    assert db.prune("left", up_to=clocks[0]) == clocks[0]
    assert db.prune("right", up_to=clocks[2]) == clocks[2]
    assert db.horizon("left", "right") == db.oldest("left", "right") == clocks[2]
    assert db.oldest("left") == clocks[0]
    for after in (None, ZERO):
        for read in (db.changes, db.split_feed):
            with pytest.raises(CursorExpired) as caught:
                read("left", "right", after=after)
            for said in (f"left is kept after {clocks[0]}", f"right is kept after {clocks[2]}"):
                assert said in caught.value.what
            assert f"begin after 'oldest' to read all of them after {clocks[2]}" in str(
                caught.value
            )
    with pytest.raises(CursorExpired):
        next(db.tail("left", "right"))
    first = db.changes("left", "right", after="oldest", limit=1)
    assert rows(first) == [3] * 3, "a whole transaction"
    assert [each.row["n"] for each in db.tail("right", "left", after="oldest", stop_after=3)] == [
        3
    ] * 3
    assert rows(db.changes("left")) == [1, 1, 2, 2, 3, 3]
    assert rows(db.changes("left", after="oldest")) == [1, 1, 2, 2, 3, 3]
    plan = db.feed_plan(["left", "right"], after="oldest", stretches=4)
    with motet.connect(db.endpoint) as other:
        assert rows(other.changes("left", "right", after=first.cursor)) == []
        found = [
            change
            for after, up_to in plan.stretches
            for change in other.changes("left", "right", after=after, up_to=up_to)
        ]
    assert [change.row["n"] for change in found] == [3] * 3


def test_a_stream_that_came_after_the_pruning_is_read_with_the_others(db: motet.Database) -> None:
    """Nothing of it can be missing, so nobody has to say where to begin."""
    clocks = filled(db, "early")
    db.prune("early", up_to=clocks[1])
    db.create_stream("late", shards=2)
    with db.transaction() as txn:
        txn.change("early", "a", "update", row={"n": 8})
        txn.change("late", "a", "update", row={"n": 9})
    db.visible_clock("early", "late", wait=True)
    assert rows(db.changes("early", "late")) == [2, 2, 2, 8, 9]
    assert rows(db.changes("early", "late", after="oldest")) == [2, 2, 2, 8, 9]


def test_sql_shows_all_that_is_kept_and_each_transaction_once(db: motet.Database) -> None:
    clocks = filled(db, "one")
    db.create_stream("other", shards=1)
    with db.transaction() as txn:
        txn.change("one", "a", "update", row={"n": 3})
        txn.change("other", "a", "update", row={"n": 3})
    db.visible_clock("one", "other", wait=True)
    db.prune("one", up_to=clocks[1])
    shown = db.sql("""
        select c.stream, count(*) as n from system.changes c
        join system.transaction_commit_clock t using (transaction)
        where c.stream in ('one', 'other') group by 1 order by 1
    """)
    assert shown.to_pylist() == [{"stream": "one", "n": 4}, {"stream": "other", "n": 1}]


def test_what_cannot_be_meant_is_told(db: motet.Database) -> None:
    clocks = filled(db, "told")
    with pytest.raises(BadInput, match="either"):
        db.prune("told")
    with pytest.raises(BadInput, match="visible"):
        db.prune("told", up_to=Clock(clocks[-1].logical + 3_600_000, 0))
    with pytest.raises(BadInput, match="future"):
        db.prune("told", older_than=timedelta(seconds=-1))
    with pytest.raises(BadCursor):
        db.save_cursor("x", "garbled")
    with pytest.raises(BadInput, match="name of a cursor"):
        db.save_cursor("", db.changes("told").cursor)


def test_a_beginning_that_is_no_longer_there_is_not_read_from(
    cluster: DevCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever led a shard when it was pruned, and does not know, says that it begins where it began."""
    close_all = ClusterFeed._close_all
    liars = 0

    async def as_before_pruning(self: ClusterFeed, places: Places) -> list[ShardClosed]:
        nonlocal liars
        told = await close_all(self, places)
        if not liars:
            return told
        liars -= 1
        return [msgspec.structs.replace(each, begins=ZERO) for each in told]

    monkeypatch.setattr(ClusterFeed, "_close_all", as_before_pruning)
    with motet.connect(cluster.endpoints) as db:
        for stream in ("pruned", "whole"):
            db.create_stream(stream, shards=1)
        clocks = []
        for number in range(3):
            with db.transaction() as txn:
                for stream in ("pruned", "whole"):
                    txn.change(stream, "a", "update", row={"n": number})
            assert txn.clock is not None
            clocks.append(txn.clock)
        db.visible_clock("pruned", "whole", wait=True)
        first = db.changes("pruned", limit=1).cursor
        assert db.prune("pruned", up_to=clocks[1]) == clocks[1]
        until_expired(db, "pruned", cursor=first)
    with motet.connect(cluster.endpoints) as db:
        liars = 1
        with pytest.raises(CursorExpired) as caught:
            db.changes("pruned", "whole")  # not the half of a transaction that is still there
        assert f"pruned is kept after {clocks[1]}" in caught.value.what
        liars = 1
        assert rows(db.changes("pruned")) == [2]
        liars = 100
        with pytest.raises(CursorExpired) as caught:
            db.changes("pruned", "whole")
        assert f"read on after {clocks[1]}" in str(caught.value)
        liars = 0
        assert rows(db.changes("whole")) == [0, 1, 2]
