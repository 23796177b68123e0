"""Named cursors and pruning of a cluster's feed."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest

import motet
from motet.core.clock.hlc import ZERO, Clock
from motet.errors import BadCursor, BadInput
from motet.errors.shards import CursorExpired, CursorInTheWay
from motet.testing.dev_cluster import DevCluster

patience_seconds = 20.0


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


def until_expired(cluster: DevCluster, stream: str, cursor: str) -> str:
    """What somebody is told who reads on from there, once every replica has heard of the pruning."""
    deadline = time.monotonic() + patience_seconds
    while time.monotonic() < deadline:
        with motet.connect(cluster.endpoints) as other:
            try:
                other.changes(stream, after=cursor)
            except CursorExpired as error:
                return str(error)
    raise AssertionError("it is still shown")


def test_pruning_stops_at_a_named_cursor_and_goes_on_by_force(
    cluster: DevCluster, db: motet.Database
) -> None:
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
    assert f"read on after {clocks[1]}" in until_expired(cluster, "kept", first.cursor)
    assert rows(db.changes("kept", after=clocks[1])) == [2] * 3
    with pytest.raises(CursorExpired):
        db.save_cursor("late", first.cursor)
    db.drop_cursor("reader")
    db.drop_cursor("reader")
    assert "reader" not in [each.name for each in db.cursors()]


def test_pruning_by_age_counts_back_from_the_clock(db: motet.Database) -> None:
    clocks = filled(db, "aged")
    horizon = db.prune("aged", older_than=timedelta(hours=1))
    assert horizon < clocks[0]
    assert len(db.changes("aged").changes) == 9
    db.visible_clock("aged", wait=True)
    with db.transaction() as txn:
        found = txn.get("aged", "a")
    assert found is not None


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
