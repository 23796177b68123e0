"""The clock demo: three real nodes, three writers, one ``kill -9``, and a drawing of what happened.

Each node holds one shard of a stream, so every commit in that shard has a clock of that node. A writer per
node commits there alone; three more commit over two or three nodes at once. One node is killed and started
again. No clock of a node comes twice, and none is below the one before it, also over the kill; nor is a
transaction of a writer below the one that it did before.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from collections.abc import Iterable, Sequence

from motet.client.cluster.database import AsyncClusterDatabase
from motet.client.connect import connect
from motet.core.clock.hlc import Clock
from motet.core.metadata.definitions import shard_of
from motet.demos import Report, Tell, report_lines
from motet.errors import MotetError, NodeError
from motet.ids import NodeId, ShardId
from motet.sim.dice import Dice
from motet.testing.local_cluster import LocalCluster

NODES = 3
WRITERS = 3
STREAM = "events"

SETTINGS = {
    "MOTET_LOG__LEVEL": "warning",
    "MOTET_KEEPER__LOG_SLOTS": "256",  # 18 MB a node: little is kept there
    "MOTET_KEEPER__CHECKPOINT_OPS": "64",
}

VICTIM_NUMBER = 1
VICTIM = NodeId(f"n{VICTIM_NUMBER}")

before_s, down_s = 1.5, 1.0
"""How long all goes well before a node is killed, and how long it then stays down."""

ticks_after = 40
"""The demo ends when the node that was killed has handed out so many clocks again."""

back_s_max = 60.0
commit_s_max = 2.0
"""Who has waited so long for a commit does not know what became of it, and goes on."""

COLUMNS = 60
BLOCKS = "▁▂▃▄▅▆▇█"


class Tally:
    """What the writers saw: the clock of every commit, by node and by writer."""

    def __init__(self, nodes: Iterable[NodeId]) -> None:
        self.began = time.monotonic()
        #: node -> (seconds since the beginning, clock) of the commits in its shard alone
        self.ticks: dict[NodeId, list[tuple[float, Clock]]] = {node: [] for node in nodes}
        self.transactions: dict[int, list[Clock]] = {writer: [] for writer in range(WRITERS)}
        self.failed = 0
        self.killed_at = self.back_at = self.ended_at = 0.0
        #: how many clocks the node that was killed has to reach for the demo to end
        self.enough: int | None = None

    def age(self) -> float:
        return time.monotonic() - self.began

    @property
    def over(self) -> bool:
        if self.enough is None:
            return False
        is_late = self.age() > self.back_at + back_s_max
        return len(self.ticks[VICTIM]) >= self.enough or is_late


class Committer:
    """Commits changes to chosen shards, each to keys of its own: nobody waits for another's locks."""

    def __init__(self, db: AsyncClusterDatabase, tally: Tally, name: str) -> None:
        self._db, self._tally, self._name = db, tally, name
        self._numbers = itertools.count()

    async def commit(self, shards: Sequence[ShardId]) -> Clock | None:
        """The clock of the transaction; None if it was refused, or is unknown."""
        try:
            async with asyncio.timeout(commit_s_max), self._db.transaction() as txn:
                for shard in shards:
                    txn.change(STREAM, key=self._key(shard), op="insert", row={})
        except (MotetError, TimeoutError):
            self._tally.failed += 1
            return None
        return txn.clock

    def _key(self, shard: ShardId) -> str:
        keys = (f"{self._name}-{number}" for number in self._numbers)
        return next(key for key in keys if shard_of(key.encode(), NODES) == shard)


def show(tell: Tell) -> Report:
    """Run it, draw it, and report."""
    tell("starting three nodes …")
    with (
        tempfile.TemporaryDirectory(prefix="motet-demo-") as folder,
        LocalCluster(NODES, folder, environment=SETTINGS) as cluster,
    ):
        tally = asyncio.run(_run(cluster))
    _draw(tally, tell)
    return _report(tally, tell)


async def _run(cluster: LocalCluster) -> Tally:
    db = await connect(cluster.endpoints)
    assert isinstance(db, AsyncClusterDatabase)
    async with db:
        await db.create_stream(STREAM, shards=NODES, replicas=1)
        shards = await _shard_of_each_node(db)
        tally = Tally(shards)
        async with asyncio.TaskGroup() as tasks:
            for writer in range(WRITERS):
                tasks.create_task(_write(db, tally, writer, list(shards.values())))
            for node, shard in shards.items():
                tasks.create_task(_tick(db, tally, node, shard))
            tasks.create_task(_kill_and_restart(cluster, tally))
        tally.ended_at = tally.age()
    return tally


async def _shard_of_each_node(db: AsyncClusterDatabase) -> dict[NodeId, ShardId]:
    shards = (await db.describe_shards(STREAM)).shards
    held = {node: ShardId(number) for number, each in enumerate(shards) for node in each.ensemble}
    if len(held) < NODES:
        raise NodeError(f"{len(held)} nodes hold the shards of {STREAM}", hint="try again")
    return dict(sorted(held.items()))


async def _kill_and_restart(cluster: LocalCluster, tally: Tally) -> None:
    await asyncio.sleep(before_s)
    await asyncio.to_thread(cluster.kill, VICTIM_NUMBER)
    tally.killed_at, ticks_before = tally.age(), len(tally.ticks[VICTIM])
    await asyncio.sleep(down_s)
    await asyncio.to_thread(cluster.restart, VICTIM_NUMBER)
    tally.back_at = tally.age()
    tally.enough = ticks_before + ticks_after


async def _write(
    db: AsyncClusterDatabase, tally: Tally, writer: int, shards: list[ShardId]
) -> None:
    """Transactions one after the other, each over two or three nodes."""
    committer, dice = Committer(db, tally, f"w{writer}"), Dice(writer)
    while not tally.over:
        clock = await committer.commit(dice.shuffled(shards)[: dice.between(2, NODES)])
        if clock is not None:
            tally.transactions[writer].append(clock)
        await asyncio.sleep(0.01)


async def _tick(db: AsyncClusterDatabase, tally: Tally, node: NodeId, shard: ShardId) -> None:
    """Commits in the shard of one node, one after the other."""
    committer = Committer(db, tally, node)
    while not tally.over:
        clock = await committer.commit([shard])
        if clock is not None:
            tally.ticks[node].append((tally.age(), clock))
        await asyncio.sleep(0.01)


def _draw(tally: Tally, tell: Tell) -> None:
    """Commits over time, one lane per node."""
    length = max(at for ticks in tally.ticks.values() for at, _ in ticks)
    lanes = {node: _lane([at for at, _ in ticks], length) for node, ticks in tally.ticks.items()}
    for node, lane in lanes.items():
        if node == VICTIM:
            column = min(int(tally.killed_at / length * COLUMNS), COLUMNS - 1)
            lane[column] = "×"
        last = tally.ticks[node][-1][1] if tally.ticks[node] else "none"
        tell(f"  {node} {''.join(lane)}  {len(tally.ticks[node])} commits, the last at {last}")
    tell(f"  {'':>2} {'time →':<{COLUMNS}}  × kill -9, then a restart\n")


def _lane(times: list[float], length: float) -> list[str]:
    counts = [0] * COLUMNS
    for at in times:
        counts[min(int(at / length * COLUMNS), COLUMNS - 1)] += 1
    most = max([*counts, 1])
    return [BLOCKS[count * (len(BLOCKS) - 1) // most] if count else " " for count in counts]


def _report(tally: Tally, tell: Tell) -> Report:
    ticks = {node: [clock for _, clock in found] for node, found in tally.ticks.items()}
    repeated = sum(len(clocks) - len(set(clocks)) for clocks in ticks.values())
    went_back = _falls(ticks.values()) + _falls(tally.transactions.values())
    after_restart = [at for at, _ in tally.ticks[VICTIM] if at > tally.back_at]
    transactions = sum(map(len, tally.transactions.values()))
    report: Report = {
        "nodes": len(ticks),
        "ticks": sum(map(len, ticks.values())),
        "ticks_after_restart": len(after_restart),
        "transactions": transactions,
        "refused_or_unknown_while_down": tally.failed,
        "repeated": repeated,
        "went_back": went_back,
        "seconds": round(tally.ended_at, 2),
        "ok": not repeated and not went_back and transactions > 0 and len(after_restart) > 0,
    }
    for line in report_lines(report):
        tell(line)
    return report


def _falls(series: Iterable[list[Clock]]) -> int:
    """How often a clock was not above the one before it."""
    return sum(
        later <= earlier for clocks in series for earlier, later in itertools.pairwise(clocks)
    )
