"""A clock that is too far ahead drags nobody along: it is refused, and everybody can see that it was."""

from __future__ import annotations

import asyncio
import time
import urllib.request

import pytest

import motet.aio
from motet.client.cluster.database import AsyncClusterDatabase
from motet.core.clock.hlc import Clock
from motet.errors import ClockDrift
from motet.testing.local_cluster import LocalCluster

hour_ms = 3_600_000


def metrics(cluster: LocalCluster) -> list[str]:
    """The lines of all nodes."""
    lines: list[str] = []
    for node in range(3):
        with urllib.request.urlopen(f"{cluster.http(node)}/metrics", timeout=10) as answer:
            lines += answer.read().decode().splitlines()
    return lines


def test_who_comes_with_a_clock_that_is_too_far_ahead_is_refused_and_reported(
    cluster: LocalCluster,
) -> None:
    async def tale() -> None:
        async with await motet.aio.connect(cluster.endpoints) as db:
            assert isinstance(db, AsyncClusterDatabase)
            await db.create_stream("ahead", shards=2)
            # As if an answer of a node with a wrong wall clock had been seen.
            wrong = Clock(int(time.time() * 1000) + hour_ms, 0)
            db.router.see(wrong)
            with pytest.raises(ClockDrift, match="ahead of the cluster"):
                async with db.transaction() as txn:
                    txn.change("ahead", "k", "insert", row={"n": 1})
            status = await db.feed_status("ahead")
            assert status.last is not None
            assert "ahead of the cluster" in status.last.error
        async with await motet.aio.connect(cluster.endpoints) as db:
            now = await db.visible_clock("ahead", wait=True)
            assert now < wrong, "nobody has gone along"

    asyncio.run(tale())
    refused = [line for line in metrics(cluster) if 'what="data_clock_drift"' in line]
    assert refused
    assert sum(float(line.rsplit(" ", 1)[1]) for line in refused) > 0
    drifts = [line for line in metrics(cluster) if line.startswith("motet_clock_drift_milli")]
    assert len(drifts) == 3
    assert all(float(line.rsplit(" ", 1)[1]) < hour_ms for line in drifts)
