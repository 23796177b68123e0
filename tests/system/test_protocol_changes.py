"""What real nodes and operators do when the ensemble of a shard changes is what the model does."""

from __future__ import annotations

import asyncio
import contextlib
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import motet.aio
from motet.cli import app as root
from motet.client.cluster.database import AsyncClusterDatabase
from motet.demos.log import Moves
from motet.demos.log_load import Load
from motet.errors import MotetError
from motet.node.config import ROLES
from motet.testing.local_cluster import LocalCluster

NODES = 5
STREAM = "orders"
patience_s = 90.0
look_every_s = 0.02
skew_ns = 20 * 10**9


def lines_of(trace: Path) -> list[dict[str, Any]]:
    """All lines about the shard and its metadata, in their order in the file."""
    lines = [json.loads(line) for line in trace.read_text().splitlines()]
    return [line for line in lines if "shard" in line]


def verdict(capsys: pytest.CaptureFixture[str], *files: Path) -> dict[str, Any]:
    with pytest.raises(SystemExit):
        root.main(["verify", "trace", *map(str, files), "--output", "json"])
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def versions(trace: Path) -> list[dict[str, Any]]:
    """What operators have told of the metadata, by version."""
    told = {line["version"]: line["metadata"] for line in lines_of(trace) if "metadata" in line}
    return [told[version] for version in sorted(told)]


def undone(trace: Path) -> tuple[int, int]:
    """How many changes were called off, and how many an election has dropped."""
    called_off = dropped = 0
    for before, after in pairwise(versions(trace)):
        change = before["reconfiguration"]
        if change is None or change["phase"] != "prepare" or after["reconfiguration"] is not None:
            continue
        called_off += after["epoch"] == before["epoch"]
        dropped += after["epoch"] > before["epoch"]
    return called_off, dropped


async def operator_of(cluster: LocalCluster) -> int:
    async with asyncio.timeout(patience_s):
        while not (active := await asyncio.to_thread(cluster.active_operators)):  # noqa: ASYNC110
            await asyncio.sleep(look_every_s)
    return active[0]


async def kill_operator(cluster: LocalCluster, load: Load) -> None:
    """kill -9; it is started again when the others have gone on without it."""
    victim = await operator_of(cluster)
    await asyncio.to_thread(cluster.kill, victim)
    await load.until_acknowledged(10, patience_s)
    await asyncio.to_thread(cluster.restart, victim)


class Scene:
    """A cluster under writes, whose ensemble is changed."""

    def __init__(self, cluster: LocalCluster, trace: Path, db: AsyncClusterDatabase) -> None:
        self.cluster, self.trace, self.db = cluster, trace, db
        self.moves = Moves(db, STREAM, patience_s)

    async def stall(self, *, kills: bool) -> None:
        """Ask for a swap with a new node that is silent; perhaps the operator dies meanwhile."""
        operator = await operator_of(self.cluster)
        meta = (await self.moves.shards())[0]
        taken = {*meta.ensemble, f"n{operator}"}
        silent = next(i for i in range(NODES) if f"n{i}" not in taken)
        old = next(n for n in meta.ensemble if n not in (meta.leader, f"n{operator}"))
        before = len(versions(self.trace))
        await asyncio.to_thread(self.cluster.stop, silent)
        try:
            swapping = asyncio.create_task(self._swap(old, f"n{silent}"))
            while len(versions(self.trace)) == before and not swapping.done():  # noqa: ASYNC110
                await asyncio.sleep(look_every_s)
            if kills:
                await asyncio.to_thread(self.cluster.kill, operator)
            await swapping
            await self._until_settled()
        finally:
            await asyncio.to_thread(self.cluster.cont, silent)
        if kills:
            await asyncio.to_thread(self.cluster.restart, operator)

    async def _swap(self, old: str, new: str) -> None:
        with contextlib.suppress(MotetError):
            await self.db.swap(STREAM, 0, old, new)

    async def _until_settled(self) -> None:
        async with asyncio.timeout(patience_s):
            while (await self.moves.shards())[0].reconfiguration is not None:  # noqa: ASYNC110
                await asyncio.sleep(look_every_s)

    async def play(self, load: Load) -> None:
        """Swap, expand and contract; changes that come to nothing; operators that die."""
        moves = self.moves
        await moves.swap(0)
        while undone(self.trace)[0] == 0:
            await self.stall(kills=False)
        while undone(self.trace)[1] == 0:
            await self.stall(kills=True)
        await moves.resize(0, 4)
        async with asyncio.TaskGroup() as meanwhile:
            meanwhile.create_task(moves.swap(0))
            await kill_operator(self.cluster, load)
        await moves.resize(0, 3)
        await load.until_acknowledged(10, patience_s)


async def rearrange(cluster: LocalCluster, trace: Path) -> None:
    async with (
        await motet.aio.connect(cluster.endpoints) as writers,
        await motet.aio.connect(cluster.endpoints) as readers,
    ):
        assert isinstance(writers, AsyncClusterDatabase)
        assert isinstance(readers, AsyncClusterDatabase)
        await writers.create_stream(STREAM, shards=1, replicas=3)
        load = Load(writers, readers, STREAM, 1)
        working = asyncio.create_task(load.run())
        try:
            await load.until_acknowledged(10, patience_s)
            await Scene(cluster, trace, writers).play(load)
        finally:
            load.stop()
            async with asyncio.timeout(patience_s):
                await working


@pytest.mark.long
@pytest.mark.timeout(600)
def test_changes_of_an_ensemble_and_the_death_of_an_operator_are_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "protocol.ndjson"
    environment = {"MOTET_LOG__LEVEL": "warning", "MOTET_DEBUG__PROTOCOL": str(trace)}
    folder = tmp_path / "data"
    with LocalCluster(NODES, folder, roles=ROLES, environment=environment) as cluster:
        asyncio.run(rearrange(cluster, trace))
    lines = lines_of(trace)
    changes = [line["metadata"]["reconfiguration"] for line in lines if "metadata" in line]
    assert {each["op"] for each in changes if each} >= {"node_swap", "expand", "contract"}
    assert min(undone(trace)) >= 1
    assert len({line["node"] for line in lines if "metadata" in line}) >= 2, "operators"
    actions = [line.get("action") for line in lines]
    assert actions.count("CommitChange") >= 3
    result = verdict(capsys, trace)
    assert (result["model"], result["verdict"]) == ("shard-log-changes", "explained"), result

    skewed = [line | {"at": line["at"] + skew_ns * (int(line["node"][1:]) % 3)} for line in lines]
    trace.write_text("\n".join(map(json.dumps, skewed)))
    assert verdict(capsys, trace)["verdict"] == "explained", "clocks do not matter"

    last = max(at for at, line in enumerate(lines) if line.get("action") == "Commit")
    lines[last]["with"]["upto"] += 1  # more than anybody has
    trace.write_text("\n".join(map(json.dumps, lines)))
    result = verdict(capsys, trace)
    assert (result["verdict"], result["line"]) == ("unexplained", last + 1)
