"""What happens to the nodes of a cluster while its tables are written: kills, stalls, lost and damaged files.

Faults come one after the other, drawn by a seed. Each ends with a cluster that can be whole again, and the
next one waits for inserts that are acknowledged. Two nodes of three are killed at a time only for as long as
it takes to start them again.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.node.made_parts import spoil
from tests.system.table_load import Load

from motet.sim.dice import Dice
from motet.testing.local_cluster import LocalCluster

NODES = 3
KILLS = ("kill", "kill_two")
STALLS = ("stall", "end_session")
ALL_FAULTS = (*KILLS, "kill", "kill_all", *STALLS, "delete_replicas", "spoil", "fill_disk")
session_seconds = 4.0
FULL_DISK = Path(__file__).parent / "full_disk"
ENVIRONMENT = {"PYTHONPATH": os.pathsep.join([str(FULL_DISK), os.environ.get("PYTHONPATH", "")])}
"""Of nodes whose disks can be full."""


class Faults:
    """Does things to nodes, and remembers when it did what."""

    def __init__(self, cluster: LocalCluster, load: Load, seed: int) -> None:
        self._cluster, self._load = cluster, load
        self._dice = Dice(seed, "faults")
        #: what began when
        self.done: list[tuple[float, str]] = []
        self.kills = 0
        self.counts: Counter[str] = Counter()
        #: on which nodes which files were damaged
        self.spoiled: list[tuple[int, Path]] = []

    async def run(self, seconds: float, kinds: tuple[str, ...]) -> None:
        """Faults for so long, each kind about as often as the others."""
        until = time.monotonic() + seconds
        waiting: list[str] = []
        while time.monotonic() < until:
            await self._load.until_more(self._dice.between(5, 30))
            waiting = waiting or self._dice.shuffled(kinds)
            kind = waiting.pop()
            self.done.append((time.monotonic(), kind))
            self.counts[kind] += 1
            fault: Callable[[], Awaitable[None]] = getattr(self, f"_{kind}")
            await fault()
        await self._load.until_more(20)

    def cause_of(self, at: float) -> str:
        """The last fault that had begun."""
        return next(
            (
                f"{kind} {at - when:.1f} s before"
                for when, kind in reversed(self.done)
                if when <= at
            ),
            "none",
        )

    # Ends of processes

    async def _kill(self) -> None:
        node = self._any()
        await self._end(node)
        await self._while_down()
        await asyncio.to_thread(self._cluster.restart, node)

    async def _kill_two(self) -> None:
        nodes = self._dice.shuffled(range(NODES))[:2]
        await self._end(*nodes)
        await self._start(*nodes)

    async def _kill_all(self) -> None:
        """A power cut."""
        await self._end(*range(NODES))
        await self._start(*range(NODES))

    async def _end(self, *nodes: int) -> None:
        for node in nodes:
            await asyncio.to_thread(self._cluster.kill, node)
            self.kills += 1

    async def _start(self, *nodes: int) -> None:
        for node in nodes:
            await asyncio.to_thread(self._cluster.restart, node, wait=False)
        for node in nodes:
            await asyncio.to_thread(self._cluster.wait_ready, node)

    async def _while_down(self) -> None:
        """A while, or until those that are left have done something."""
        if self._dice.chance(0.5):
            await asyncio.sleep(self._dice.between(0, 2000) / 1000)
        else:
            await self._load.until_more(self._dice.between(1, 30))

    # Stalls

    async def _stall(self) -> None:
        await self._stop(self._dice.between(200, 3000) / 1000)

    async def _end_session(self) -> None:
        """Long enough for its session with the keeper to expire."""
        await self._stop(session_seconds + self._dice.between(1000, 3000) / 1000)

    async def _stop(self, seconds: float) -> None:
        node = self._any()
        await asyncio.to_thread(self._cluster.stop, node)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(self._cluster.cont, node)

    # Files

    async def _delete_replicas(self) -> None:
        """All replicas of a node lose their parts, and what they know of the log, while it is down."""
        node = self._any()
        await self._end(node)
        folder = self._cluster.folder / f"node-{node}"
        for table in (folder / "parts").iterdir():
            if not table.name.startswith(".") and not table.name.endswith("~"):
                await asyncio.to_thread(shutil.rmtree, table)
        if self._dice.chance(0.5):
            await asyncio.to_thread(shutil.rmtree, folder / "tables")
        await asyncio.to_thread(self._cluster.restart, node)

    async def _spoil(self) -> None:
        """One byte of a part changes on the disk of a node that runs; others have the part, too."""
        node = self._any()
        files = sorted(
            (self._cluster.folder / f"node-{node}" / "parts").glob("*/*/stored/*/part.parquet")
        )
        there = [file for file in files if self._is_on_others(file, node)]
        if there:
            file = self._dice.pick(there)
            await asyncio.to_thread(spoil, file)
            self.spoiled.append((node, file))

    def _is_on_others(self, file: Path, node: int) -> bool:
        root = self._cluster.folder
        path = file.relative_to(root / f"node-{node}")
        return all(
            (root / f"node-{other}" / path).exists() for other in range(NODES) if other != node
        )

    async def _fill_disk(self) -> None:
        """No file of a node can grow for a while."""
        full = self._cluster.folder / f"node-{self._any()}" / "full-disk"
        full.touch()
        await self._while_down()
        full.unlink()

    def _any(self) -> int:
        return self._dice.between(0, NODES - 1)
