"""``clock.enabled`` of a cluster: a new leader knows it, and the command line sets it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import msgspec
import pytest

import motet
import motet.aio
from motet.client.cluster.database import AsyncClusterDatabase
from motet.testing.local_cluster import LocalCluster


@pytest.fixture(autouse=True)
def on_again(db: motet.Database) -> Iterator[None]:
    """The cluster is for other tests, too."""
    yield
    db.enable_clock()


def test_a_new_leader_knows_it_from_the_log(cluster: LocalCluster, db: motet.Database) -> None:
    async def elect() -> tuple[str | None, str | None]:
        async with await motet.aio.connect(cluster.endpoints) as other:
            assert isinstance(other, AsyncClusterDatabase)
            (before,) = (await other.describe_shards("inherited")).shards
            follower = next(node for node in before.ensemble if node != before.leader)
            await other.elect("inherited", 0, follower)
            (after,) = (await other.describe_shards("inherited")).shards
            return before.leader, after.leader

    db.create_stream("inherited", shards=1)
    db.enable_clock(False)
    old, new = asyncio.run(elect())
    assert old != new
    with pytest.warns(motet.ClockOff), db.transaction() as txn:
        txn.change("inherited", "k", "insert", row={"n": 1})
    assert txn.clock is None


def test_on_the_command_line(cluster: LocalCluster) -> None:
    def run(*words: str) -> tuple[object, str]:
        done = subprocess.run(
            [sys.executable, "-m", "motet", *words, "--endpoint", cluster.endpoints, "-o", "json"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return msgspec.json.decode(done.stdout), done.stderr

    run("stream", "create", "typed")
    told, _ = run("clock", "disable")
    assert told[0]["enabled"] is False  # type: ignore[index]
    told, warned = run("stream", "change", "typed", "k", "insert", '{"n": 1}')
    assert told[0]["clock"] is None  # type: ignore[index]
    assert warned.startswith("warning: clock.enabled is off")
    told, _ = run("clock")
    assert told[0]["enabled"] is False  # type: ignore[index]
    told, _ = run("clock", "enable")
    assert told[0]["enabled"] is True  # type: ignore[index]
    told, _ = run("stream", "change", "typed", "k", "update", '{"n": 2}')
    assert told[0]["clock"] is not None  # type: ignore[index]
