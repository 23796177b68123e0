"""The next operator notices that the one before it is gone, and does not while it answers."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest

from motet.errors import BadInput
from motet.node.hosts import gone_seconds, late_seconds, silent_seconds, until_silent
from motet.testing.fault_proxy import FaultProxy
from motet.testing.local_cluster import LocalCluster, roles_of_nodes


def test_who_answers_is_there_and_who_is_killed_is_not(tmp_path: Path) -> None:
    with LocalCluster(1, tmp_path, roles=["keeper", "operator"]) as cluster:

        async def watch() -> None:
            # Even one whose silence does not count yet, since it was removed a moment ago.
            watching = asyncio.create_task(
                until_silent(cluster.endpoint(0), "motet", counts_at=math.inf)
            )
            done, _ = await asyncio.wait([watching], timeout=3 * gone_seconds)
            assert not done
            await asyncio.to_thread(cluster.kill, 0)
            async with asyncio.timeout(60):
                await watching

        asyncio.run(watch())


def test_who_is_stopped_is_silent(tmp_path: Path) -> None:
    with LocalCluster(1, tmp_path, roles=["keeper", "operator"]) as cluster:

        async def watch() -> None:
            endpoint = cluster.endpoint(0)
            watching = asyncio.create_task(until_silent(endpoint, "motet"))
            later = asyncio.create_task(until_silent(endpoint, "motet", counts_at=math.inf))
            cluster.stop(0)
            try:
                async with asyncio.timeout(60):
                    await watching
                done, _ = await asyncio.wait([later], timeout=silent_seconds)
                assert not done, "its silence does not count yet"
            finally:
                later.cancel()
                cluster.cont(0)

        asyncio.run(watch())


def test_who_answers_late_again_and_again_is_silent(tmp_path: Path) -> None:
    with (
        LocalCluster(1, tmp_path, roles=["keeper", "operator"]) as cluster,
        FaultProxy(cluster.endpoint(0)) as between,
    ):

        async def watch() -> None:
            watching = asyncio.create_task(until_silent(between.endpoint, "motet"))
            later = asyncio.create_task(until_silent(between.endpoint, "motet", counts_at=math.inf))
            between.delay(int(late_seconds * 1000))
            async with asyncio.timeout(60):
                await watching
            assert not later.done(), "that it is late does not count yet"
            later.cancel()

        asyncio.run(watch())


def test_of_many_nodes_only_a_few_keep_the_tree() -> None:
    roles = roles_of_nodes(8, ["keeper", "data", "operator"], {7: ["data"]})
    assert [i for i, own in enumerate(roles) if "keeper" in own] == [0, 1, 2, 3, 4]
    assert (roles[6], roles[7]) == (("data", "operator"), ("data",))
    assert roles_of_nodes(6, ["keeper"], {}) == [("keeper",)] * 6
    with pytest.raises(BadInput, match="7 nodes"):
        roles_of_nodes(7, ["keeper"], {})
