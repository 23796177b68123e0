"""The demo of the replicated log: a stream on five nodes loses leaders and an operator, and moves meanwhile.

1. A leader is killed with ``kill -9``: its shards get new leaders, and go on.
2. Shard 0 grows from three replicas to four and shrinks again, a replica of it moves to another node, and it
   grows and shrinks once more. In the middle of that the active operator is killed; another one takes over.
3. Both are started again.

Meanwhile writers and readers write down what they are told (``log_load``). In the end it has to be so.

What an ensemble is like is asked of the operator before each attempt to change it, and a change whose outcome
is unknown is looked at before it is made again, however often an operator dies in the middle.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from motet.client.cluster.database import AsyncClusterDatabase
from motet.client.connect import connect
from motet.core.streams.cluster_messages import ShardMetadata
from motet.demos import Report, Tell, report_lines
from motet.demos.log_load import Findings, Load
from motet.errors import MotetError, NodeError
from motet.node.config import ROLES
from motet.testing.local_cluster import LocalCluster

again_s = 0.2


class Moves:
    """What can be done to the shards of one stream."""

    def __init__(self, db: AsyncClusterDatabase, stream: str, patience_s: float = 90.0) -> None:
        self._db = db
        self._stream = stream
        self._patience_s = patience_s
        #: what was done, in order: ``expand 3 n0,n1,n2 -> n0,n1,n2,n4``
        self.done: list[str] = []
        #: why an attempt did not go through, by code
        self.refusals: dict[str, int] = {}

    async def shards(self) -> list[ShardMetadata]:
        """How the shards stand, in order; asks until an operator answers."""
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                found = await self._db.describe_shards(self._stream)
            except MotetError as error:
                if time.monotonic() > deadline:
                    raise
                self._refused(error)
                await asyncio.sleep(again_s)
            else:
                return sorted(found.shards, key=lambda meta: int(meta.shard.rpartition(".")[2]))

    async def resize(self, shard: int, replicas: int) -> None:
        """Expand or contract until the shard has so many replicas."""

        async def step(meta: ShardMetadata) -> None:
            if len(meta.ensemble) < replicas:
                await self._db.expand(self._stream, shard)
            else:
                await self._db.contract(self._stream, shard)

        await self._until(
            shard, f"{replicas} replicas", lambda m: len(m.ensemble) == replicas, step
        )

    async def swap(self, shard: int) -> None:
        """Replace a follower by a node that has no replica."""
        followers = [n for n in await self._ensemble(shard) if n != await self._leader(shard)]
        old = followers[0]

        async def step(meta: ShardMetadata) -> None:
            if meta.leader == old:  # elected in the meantime
                await self._db.elect(self._stream, shard)
            else:
                await self._db.swap(self._stream, shard, old, None)

        await self._until(shard, f"a swap of {old}", lambda meta: old not in meta.ensemble, step)

    async def _ensemble(self, shard: int) -> tuple[str, ...]:
        return (await self.shards())[shard].ensemble

    async def _leader(self, shard: int) -> str | None:
        return (await self.shards())[shard].leader

    async def _until(
        self,
        shard: int,
        what: str,
        is_done: Callable[[ShardMetadata], bool],
        step: Callable[[ShardMetadata], Awaitable[None]],
    ) -> None:
        deadline = time.monotonic() + self._patience_s
        before: tuple[str, ...] | None = None
        while True:
            meta = (await self.shards())[shard]
            before = before or meta.ensemble
            if is_done(meta) and meta.reconfiguration is None:
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what} of shard {shard}: {meta}, refused: {self.refusals}")
            try:
                await step(meta)
            except MotetError as error:
                self._refused(error)
                await asyncio.sleep(again_s)
        self.done.append(f"{what}, shard {shard}: {','.join(before)} -> {','.join(meta.ensemble)}")

    def _refused(self, error: MotetError) -> None:
        self.refusals[error.code] = self.refusals.get(error.code, 0) + 1


NODES = 5
SHARDS = 4
STREAM = "orders"
patience_s = 60.0
look_every_s = 0.05
after_death_s = 10.0
promise_s = 3.0
"""A shard whose leader dies can be written to again within this time."""


@dataclass
class Story:
    """What was done to them."""

    #: when a node died, and the shards that it led
    deaths: list[tuple[int, list[int]]] = field(default_factory=list)
    epochs: int = 0


def show(tell: Tell) -> Report:
    """Run it, and report."""
    began = time.monotonic()
    tell("starting five nodes …")
    quiet = {"MOTET_LOG__LEVEL": "warning"}
    with (
        tempfile.TemporaryDirectory(prefix="motet-log-") as folder,
        LocalCluster(NODES, Path(folder), roles=ROLES, environment=quiet) as cluster,
    ):
        report = asyncio.run(_run(cluster, tell))
    report["seconds"] = round(time.monotonic() - began, 2)
    tell("")
    for line in report_lines(report):
        tell(line)
    return report


async def _run(cluster: LocalCluster, tell: Tell) -> Report:
    writers, readers = await _connect(cluster), await _connect(cluster)
    async with writers, readers:
        stream = await writers.create_stream(STREAM, shards=SHARDS)
        load, moves = Load(writers, readers, STREAM, SHARDS), Moves(writers, STREAM)
        story = Story()
        working = asyncio.create_task(load.run())
        try:
            await load.until_acknowledged(20, patience_s)
            await _kill_a_leader(cluster, load, moves, story, tell)
            await _move_and_kill_the_operator(cluster, load, moves, story, tell)
            story.epochs = sum(meta.epoch for meta in await moves.shards())
            await load.until_acknowledged(20, patience_s)
        finally:
            load.stop()
            await working
        return _report(load, await load.findings(stream), moves, story)


async def _connect(cluster: LocalCluster) -> AsyncClusterDatabase:
    db = await connect(cluster.endpoints)
    assert isinstance(db, AsyncClusterDatabase)
    return db


async def _leader_alone(cluster: LocalCluster, moves: Moves) -> int | None:
    leaders = [meta.leader for meta in await moves.shards()]
    operator = f"n{await _operator(cluster)}"
    found = [int(node.removeprefix("n")) for node in leaders if node not in (None, operator)]
    return found[0] if found else None


async def _kill_a_leader(
    cluster: LocalCluster, load: Load, moves: Moves, story: Story, tell: Tell
) -> None:
    """A leader that is not the operator, whose turn comes later."""
    deadline = time.monotonic() + patience_s
    while (victim := await _leader_alone(cluster, moves)) is None:
        if time.monotonic() > deadline:
            raise NodeError("only the operator's node leads", hint="read the logs of the nodes")
        await asyncio.sleep(look_every_s)
    led = await _kill(cluster, moves, story, victim)
    tell(f"kill -9 of n{victim}, which leads {_shards(led)}")
    await load.until_acknowledged(10, patience_s)
    tell("all shards have leaders and go on; it is started again")
    await asyncio.to_thread(cluster.restart, victim)


async def _move_and_kill_the_operator(
    cluster: LocalCluster, load: Load, moves: Moves, story: Story, tell: Tell
) -> None:
    await moves.resize(0, 4)
    tell(f"shard 0 is expanded: {moves.done[-1].rpartition(': ')[2]}")
    operator = await _operator(cluster)
    rest = asyncio.create_task(_move_on(moves, tell))
    try:
        led = await _kill(cluster, moves, story, operator)
        tell(f"kill -9 of n{operator}, the active operator, which leads {_shards(led)}")
        await rest
    finally:
        rest.cancel()
    await load.until_acknowledged(10, patience_s)
    await asyncio.to_thread(cluster.restart, operator)
    tell("and it is started again")


async def _move_on(moves: Moves, tell: Tell) -> None:
    """What can be done with a node missing: four nodes are left."""
    await moves.resize(0, 3)
    tell(f"shard 0 is contracted: {moves.done[-1].rpartition(': ')[2]}")
    await moves.swap(0)
    tell(f"a replica of it moves: {moves.done[-1].rpartition(': ')[2]}")
    await moves.resize(0, 4)
    tell(f"it is expanded: {moves.done[-1].rpartition(': ')[2]}")
    await moves.resize(0, 3)
    tell(f"and contracted: {moves.done[-1].rpartition(': ')[2]}")


async def _kill(cluster: LocalCluster, moves: Moves, story: Story, victim: int) -> list[int]:
    led = [n for n, meta in enumerate(await moves.shards()) if meta.leader == f"n{victim}"]
    await asyncio.to_thread(cluster.kill, victim)
    story.deaths.append((time.monotonic_ns(), led))
    return led


async def _operator(cluster: LocalCluster) -> int:
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        if active := await asyncio.to_thread(cluster.active_operators):
            return active[0]
        await asyncio.sleep(look_every_s)
    raise NodeError("no operator is active", hint="read the logs of the nodes")


def _shards(numbers: list[int]) -> str:
    if not numbers:
        return "no shard"
    return f"shard {' and '.join(map(str, numbers))}"


def _report(load: Load, found: Findings, moves: Moves, story: Story) -> Report:
    outages = [
        load.tallies[shard].outage_ms(at, at + int(after_death_s * 1e9))
        for at, shards in story.deaths
        for shard in shards
    ]
    return {
        "acknowledged": found.acknowledged,
        "lost": found.lost,
        "doubled": found.doubled,
        "out_of_order": found.out_of_order + found.foreign,
        "readers_saw_the_same": found.seen_differently == 0,
        "unknown_outcomes": found.unknown,
        "kills": len(story.deaths),
        "changes_of_the_ensemble": len(moves.done),
        "epochs": story.epochs,
        "longest_outage_ms": max(outages, default=0),
        "outages_within_3_s": max(outages, default=0) <= promise_s * 1000,
        "ok": found.is_good and found.acknowledged > 0 and len(moves.done) == len(PLAN),
    }


PLAN = ("expand", "contract", "swap", "expand", "contract")
"""The changes of shard 0's ensemble that have to come about."""
