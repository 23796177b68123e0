"""Pruning that a leader has not heard of yet."""

from __future__ import annotations

import time

import msgspec
import pytest

import motet
from motet.client.cluster.feed import ClusterFeed, Places
from motet.core.clock.hlc import ZERO
from motet.core.streams.messages import ShardClosed
from motet.errors.shards import CursorExpired
from motet.testing.local_cluster import LocalCluster

patience_seconds = 20.0


def rows(page: motet.client.feed.Page) -> list[object]:
    return [change.row["n"] for change in page]


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


def test_a_beginning_that_is_no_longer_there_is_not_read_from(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
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
