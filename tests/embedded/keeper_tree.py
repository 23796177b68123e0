"""What the keeper of a database has, seen by a client of its own while the database is closed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from motet.client.keeper.client import KeeperClient
from motet.embedded import ADDRESS, CLUSTER
from motet.node.driver import Driver
from motet.node.embedded_keeper import EmbeddedKeeper
from motet.real.disk import RealDisk
from motet.real.in_process import InProcessNetwork
from motet.real.process import RealEntropy, RealTime


async def _tree(folder: Path) -> dict[str, bytes]:
    disk, time = RealDisk(folder / "keeper"), RealTime()
    keeper = EmbeddedKeeper(ADDRESS, CLUSTER, disk, time)
    keeper.prepare()
    driver = Driver([keeper.hosting()], time=time, entropy=RealEntropy())
    driver.start(InProcessNetwork(ADDRESS, cluster=CLUSTER, wake=driver.wake))
    keeper.start(driver)
    found: dict[str, bytes] = {}
    async with KeeperClient("embedded:1", connect=keeper.server.connect) as client:
        left = ["/"]
        while left:
            path = left.pop()
            found[path] = (await client.get(path))[0]
            names = await client.children(path)
            left += [f"{path.rstrip('/')}/{name}" for name in sorted(names, reverse=True)]
    await keeper.server.stop()
    driver.stop()
    disk.close()
    return found


def tree_of(folder: Path) -> dict[str, bytes]:
    """Every path, and the data of its node."""
    return asyncio.run(_tree(folder))
