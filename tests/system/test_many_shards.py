"""Many shards on few nodes, and more readers than they can serve: the keeper goes on, and it ends with them.

Every tail follows all streams: each of its looks concerns every shard. Meanwhile somebody writes to a keeper,
which shares the processes of the data nodes. The figures are printed (``pytest -rP``).
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

import motet.aio
from motet.client.cluster.database import AsyncClusterDatabase
from motet.client.keeper.client import KeeperClient
from motet.node.config import ROLES
from motet.testing.local_cluster import LocalCluster

QUIET = {"MOTET_LOG__LEVEL": "warning"}
NODES = 3
SHARDS = 4
PATH = "/overload"
created_at_once = 4
patience_s = 90.0


@asynccontextmanager
async def connected(cluster: LocalCluster) -> AsyncIterator[AsyncClusterDatabase]:
    async with motet.aio.connect(cluster.endpoints) as db:
        assert isinstance(db, AsyncClusterDatabase)
        yield db


async def create_streams(db: AsyncClusterDatabase, names: list[str]) -> None:
    gate = asyncio.Semaphore(created_at_once)

    async def create(name: str) -> None:
        async with gate:
            await db.create_stream(name, shards=SHARDS)

    await asyncio.gather(*map(create, names))


TAILS = """
import asyncio, sys
import motet.aio
from motet.errors import MotetError

async def follow(endpoints, names):
    async with motet.aio.connect(endpoints) as db:
        while True:
            try:
                async for _ in db.tail(*names):
                    print("seen", flush=True)
            except MotetError:
                await asyncio.sleep(0.1)

async def main(endpoints, streams, tails):
    names = [f"s{number}" for number in range(int(streams))]
    await asyncio.gather(*(follow(endpoints, names) for _ in range(int(tails))))

asyncio.run(main(*sys.argv[1:]))
"""
"""Tails over all streams, each over a connection of its own; in a process of their own until it is killed."""


async def all_have_seen(process: asyncio.subprocess.Process, tails: int) -> None:
    assert process.stdout is not None
    for _ in range(tails):
        assert await process.stdout.readline() == b"seen\n"


async def write_to_keeper(keeper: KeeperClient, took_s: list[float]) -> None:
    """One small write after the other; each has to succeed."""
    while True:
        began = time.monotonic()
        await keeper.set(PATH, b"%d" % len(took_s), seconds=30.0)
        took_s.append(time.monotonic() - began)
        await asyncio.sleep(0.05)


def views(cluster: LocalCluster) -> list[int]:
    """The view that each keeper is in."""
    found = []
    for i in range(NODES):
        status = cluster.status(i)
        assert status is not None
        found.append(int(status["keeper"]["detail"]["view"]))
    return found


def waiting(cluster: LocalCluster) -> int:
    """Requests of clients that wait at some node; 1 if one does not say."""
    found = [cluster.status(i) for i in range(NODES)]
    return sum(1 if each is None else int(each["data"]["detail"]["waiting"]) for each in found)


async def overload(
    folder: Path, streams: int, tails: int, seconds: float, *, are_served: bool
) -> None:
    """Prints the keeper's slow writes meanwhile, and how long it was until everything was normal again.

    ``are_served``: each tail is waited for until it has seen something, however long that takes.
    """
    names = [f"s{number}" for number in range(streams)]
    took_s: list[float] = []
    with LocalCluster(NODES, folder, roles=ROLES, environment=QUIET) as cluster:
        async with AsyncExitStack() as opened:
            keepers = ",".join(cluster.zookeeper(i) for i in range(NODES))
            keeper = await opened.enter_async_context(KeeperClient(keepers))
            db = await opened.enter_async_context(connected(cluster))
            await keeper.create(PATH, b"")
            await create_streams(db, names)
            await db.stream(names[0]).append(key=b"k", value=b"before")
            before = await asyncio.to_thread(views, cluster)
            writer = asyncio.create_task(write_to_keeper(keeper, took_s))
            following = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                TAILS,
                cluster.endpoints,
                str(streams),
                str(tails),
                stdout=asyncio.subprocess.PIPE,
            )
            await asyncio.sleep(seconds)
            if are_served:
                async with asyncio.timeout(patience_s):
                    await all_have_seen(following, tails)
            assert following.returncode is None
            following.kill()
            await following.wait()
            assert not writer.done(), "every write to the keeper succeeds"
            writer.cancel()
            began = time.monotonic()
            assert await asyncio.to_thread(views, cluster) == before, "no keeper was given up"
            async with asyncio.timeout(patience_s):  # nothing that was asked outlives who asked
                while await asyncio.to_thread(waiting, cluster):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            async with connected(cluster) as fresh:
                await fresh.create_stream("after", shards=SHARDS)
                await fresh.stream("after").append(key=b"k", value=b"after")
                await fresh.visible_clock(wait=True)
                page = await fresh.changes("after", names[0])
                assert [change.row for change in page] == [b"before", b"after"]
            normal_s = time.monotonic() - began
    took_s.sort()
    p99_s = took_s[len(took_s) * 99 // 100]
    print(
        f"{streams * SHARDS} logs, {tails} tails: {len(took_s)} keeper writes, "
        f"median {took_s[len(took_s) // 2]:.3f} s, p99 {p99_s:.3f} s; normal after {normal_s:.2f} s"
    )


def test_more_tails_than_nodes_can_serve_hurt_neither_the_keeper_nor_what_comes_after(
    tmp_path: Path,
) -> None:
    asyncio.run(overload(tmp_path, streams=30, tails=10, seconds=3.0, are_served=True))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_fifty_tails_over_six_hundred_logs(tmp_path: Path) -> None:
    """On a machine of its own the p99 should be below one second, and all be normal after five."""
    asyncio.run(overload(tmp_path, streams=150, tails=50, seconds=10.0, are_served=False))
