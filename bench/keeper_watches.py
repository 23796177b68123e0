"""How soon an entry that was written through one node of the keeper is known at another, on a quiet cluster.

Three nodes on this machine. One client appends an entry to a log, a sequential node, through its node.
Another, at another node, watches the log; when it is told, it reads the entry and watches again, in one
packet. All is quiet in between, so nothing but the keeper says what is committed. For each pair of nodes, the
primary's and the backups', in turns; milliseconds from the call of the writer:

acknowledged   the writer has its answer
told           the event is at the other client
known          the other client has read the entry
after          from acknowledged to known: the goal is a median below 5 ms

    python bench/keeper_watches.py [--quick] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import tempfile
import time
from pathlib import Path

from motet.client.keeper.client import KeeperClient
from motet.client.keeper.watches import Watch
from motet.real.process import run as run_loop
from motet.testing.local_cluster import LocalCluster

NODES = 3
ROUNDS, ROUNDS_QUICK = 50, 10
QUIET_SECONDS = 0.03
VALUE = bytes(200)
STEPS = ("acknowledged", "told", "known", "after")

Times = dict[str, list[float]]


async def measure(cluster: LocalCluster, rounds: int) -> dict[str, Times]:
    """Milliseconds by pair of nodes and step."""
    found: dict[str, Times] = {}
    keepers = [KeeperClient(cluster.zookeeper(number), seconds=30) for number in range(NODES)]
    for keeper in keepers:
        await keeper.__aenter__()
    pairs = list(itertools.permutations(range(NODES), 2))
    for at in pairs:
        await keepers[0].ensure_path(f"/logs/{at[0]}-{at[1]}")
    for number in range(rounds):  # in turns, so that a noisy moment hits all of them
        for writer, reader in pairs:
            times = found.setdefault(f"{writer} to {reader}", {step: [] for step in STEPS})
            log = f"/logs/{writer}-{reader}"
            await one_round(keepers[writer], keepers[reader], log, number, times)
    for keeper in keepers:
        await keeper.close()
    return found


async def one_round(
    writer: KeeperClient, reader: KeeperClient, log: str, number: int, times: Times
) -> None:
    watch = Watch()
    await reader.children(log, watch)
    known = asyncio.create_task(until_known(reader, watch, f"{log}/log-{number:010}"))
    await asyncio.sleep(QUIET_SECONDS)
    began = time.perf_counter()
    await writer.create(f"{log}/log-", VALUE, sequential=True)
    acknowledged = time.perf_counter()
    told, read = await known
    spans = (acknowledged - began, told - began, read - began, read - acknowledged)
    for step, span in zip(STEPS, spans, strict=True):
        times[step].append(span * 1e3)


async def until_known(reader: KeeperClient, watch: Watch, entry: str) -> tuple[float, float]:
    await watch
    told = time.perf_counter()
    await asyncio.gather(reader.get(entry), reader.exists(entry.rpartition("/")[0], Watch()))
    return told, time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    options = parser.parse_args()
    rounds = ROUNDS_QUICK if options.quick else ROUNDS
    with tempfile.TemporaryDirectory(prefix="motet-bench-") as folder:
        cluster = LocalCluster(NODES, Path(folder), roles=["keeper"])
        try:
            cluster.start()
            found = run_loop(measure(cluster, rounds))
        finally:
            cluster.close()
    median = {
        step: round(statistics.median(itertools.chain(*(each[step] for each in found.values()))), 2)
        for step in STEPS
    }
    pairs = {
        pair: {step: round(statistics.median(times[step]), 2) for step in STEPS}
        for pair, times in found.items()
    }
    if options.json:
        print(json.dumps({"bench": "keeper_watches", "median_ms": median, "pairs_ms": pairs}))
        return
    for name, told in (*pairs.items(), ("all", median)):
        print(f"{name:<8}" + "".join(f"{step:>14} {told[step]:6.2f} ms" for step in STEPS))


if __name__ == "__main__":
    main()
