"""The clock demo: three real nodes, three writers, one ``kill -9``, and a drawing of what happened."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import time
from collections.abc import Iterable

import typer

from motet.client.clock import ClockClient
from motet.core.clock.hlc import Clock
from motet.errors import MotetError
from motet.ids import NodeId
from motet.sim.dice import Dice
from motet.testing import LocalCluster

BEFORE_SECONDS, DOWN_SECONDS = 1.5, 1.0
"""How long all goes well before a node is killed, and how long it then stays down."""

TICKS_AFTER = 150
"""The demo ends when the node that was killed has handed out so many values again."""

BACK_SECONDS_MAX = 60.0

COLUMNS = 60
BLOCKS = "▁▂▃▄▅▆▇█"
VICTIM_NUMBER = 1
VICTIM = NodeId(f"n{VICTIM_NUMBER}")
WRITERS = 3


class Tally:
    """What the writers saw: every tick of every node, every transaction of every writer."""

    def __init__(self, nodes: list[NodeId]) -> None:
        self.began = time.monotonic()
        #: node -> (seconds since the beginning, clock) in the order of hand-out as far as we can tell
        self.ticks: dict[NodeId, list[tuple[float, Clock]]] = {node: [] for node in nodes}
        self.transactions: dict[int, list[Clock]] = {writer: [] for writer in range(WRITERS)}
        self.failed = 0
        self.killed_at = self.back_at = 0.0
        #: how many ticks the node that was killed has to reach for the demo to end
        self.enough: int | None = None

    def age(self) -> float:
        return time.monotonic() - self.began

    @property
    def over(self) -> bool:
        if self.enough is None:
            return False
        return len(self.ticks[VICTIM]) >= self.enough or self.age() > BACK_SECONDS_MAX


def show() -> dict[str, object]:
    """Run it, draw it, and report."""
    with tempfile.TemporaryDirectory(prefix="motet-demo-") as folder:
        typer.echo("starting three nodes …")
        with LocalCluster(3, folder, roles=()) as cluster:
            tally = asyncio.run(_run(cluster))
    _draw(tally)
    return _report(tally)


async def _run(cluster: LocalCluster) -> Tally:
    endpoints = {NodeId(f"n{i}"): cluster.endpoint(i) for i in range(len(cluster))}
    tally = Tally(list(endpoints))
    async with ClockClient(endpoints) as client, asyncio.TaskGroup() as tasks:
        for writer in range(WRITERS):
            tasks.create_task(_write(client, tally, writer))
        for node in endpoints:
            tasks.create_task(_tick(client, tally, node))
        tasks.create_task(_kill_and_restart(cluster, tally))
    return tally


async def _kill_and_restart(cluster: LocalCluster, tally: Tally) -> None:
    await asyncio.sleep(BEFORE_SECONDS)
    await asyncio.to_thread(cluster.kill, VICTIM_NUMBER)
    tally.killed_at, ticks_before = tally.age(), len(tally.ticks[VICTIM])
    await asyncio.sleep(DOWN_SECONDS)
    await asyncio.to_thread(cluster.restart, VICTIM_NUMBER)
    tally.back_at = tally.age()
    tally.enough = ticks_before + TICKS_AFTER


async def _write(client: ClockClient, tally: Tally, writer: int) -> None:
    """Transactions one after the other, each over two or three nodes."""
    dice, nodes = Dice(writer, "demo"), list(tally.ticks)
    while not tally.over:
        participants = dice.shuffled(nodes)[: dice.between(2, 3)]
        try:
            tally.transactions[writer].append(await client.transaction(participants, seconds=0.5))
        except MotetError:
            tally.failed += 1
        await asyncio.sleep(0.002)


async def _tick(client: ClockClient, tally: Tally, node: NodeId) -> None:
    """The ticks of one node, asked for one after the other."""
    while not tally.over:
        try:
            clock = await client.tick(node, seconds=0.5)
        except MotetError:
            tally.failed += 1
        else:
            tally.ticks[node].append((tally.age(), clock))
        await asyncio.sleep(0.005)


def _draw(tally: Tally) -> None:
    """Ticks over time, one lane per node."""
    length = max(at for ticks in tally.ticks.values() for at, _ in ticks)
    lanes = {node: _lane([at for at, _ in ticks], length) for node, ticks in tally.ticks.items()}
    for node, lane in lanes.items():
        if node == VICTIM:
            column = min(int(tally.killed_at / length * COLUMNS), COLUMNS - 1)
            lane[column] = "×"
        typer.echo(f"  {node} {''.join(lane)}  {len(tally.ticks[node])} ticks")
    typer.echo(f"  {'':>2} {'time →':<{COLUMNS}}  × kill -9, then a restart\n")


def _lane(times: list[float], length: float) -> list[str]:
    counts = [0] * COLUMNS
    for at in times:
        counts[min(int(at / length * COLUMNS), COLUMNS - 1)] += 1
    most = max([*counts, 1])
    return [BLOCKS[count * (len(BLOCKS) - 1) // most] if count else " " for count in counts]


def _report(tally: Tally) -> dict[str, object]:
    ticks = {node: [clock for _, clock in found] for node, found in tally.ticks.items()}
    repeated = sum(len(clocks) - len(set(clocks)) for clocks in ticks.values())
    went_back = _falls(ticks.values()) + _falls(tally.transactions.values())
    after_restart = [at for at, _ in tally.ticks[VICTIM] if at > tally.back_at]
    report: dict[str, object] = {
        "nodes": len(ticks),
        "ticks": sum(map(len, ticks.values())),
        "ticks_after_restart": len(after_restart),
        "transactions": sum(map(len, tally.transactions.values())),
        "refused_or_unknown_while_down": tally.failed,
        "repeated": repeated,
        "went_back": went_back,
        "seconds": round(tally.age(), 2),
        "ok": not repeated and not went_back and len(after_restart) >= TICKS_AFTER // 2,
    }
    for name, value in report.items():
        typer.echo(f"  {name.replace('_', ' '):<30} {value}")
    return report


def _falls(series: Iterable[list[Clock]]) -> int:
    """How often a clock was not above the one before it."""
    return sum(
        later <= earlier for clocks in series for earlier, later in itertools.pairwise(clocks)
    )
