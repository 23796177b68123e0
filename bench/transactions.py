"""Transactions of a cluster, against PostgreSQL in the same run.

Ours: three nodes on this machine, streams that all of them have, one client process with 64 coroutines that
each wait for their own commit. PostgreSQL: one node with its defaults, which sync a commit
before it is answered (``synchronous_commit`` on), 64 connections of pgbench, which is written in C, with
prepared statements. Both insert the same rows.

one     one row, ours in a stream of one shard: at least its rate
two     two rows, ours in two streams of one shard, PostgreSQL's in two tables: at least 0.4 of its rate
shards  the same two rows, ours in two streams of the default four shards; ``ratio_shards`` is its rate as a
        part of that of ``two`` in the same round

``from_python`` is PostgreSQL asked as ours are, by one Python program (asyncpg, if it is installed) with 64
connections: shown beside, since that is what a Python program gets of either.

The two are asked in turns, and a ratio is the median over neighbouring rounds. ``cpu_us`` is what the client
and the three nodes use of both cores for one transaction, together.

    python bench/transactions.py [--quick] [--json] [--lanes N]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import motet.aio
from motet.node.config import ROLES
from motet.real.process import run as run_loop
from motet.testing.local_cluster import LocalCluster
from peers import postgres, postgres_client

ROW = {"sku": "s-9", "qty": 2, "note": "x" * 64}
STREAMS = {"one": ("orders",), "two": ("orders", "stock"), "shards": ("wide-orders", "wide-stock")}
AS_OF_PEER = {"one": "one", "two": "two", "shards": "two"}
"""What PostgreSQL is asked in the same round."""

REQUIRED = {"one": 1.0, "two": 0.4}
LANES = 64
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pids: list[int]) -> float:
    """What these processes have used up to now."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS_PER_SECOND


async def commits(
    endpoints: str, case: str, lanes: int, seconds: float, pids: list[int]
) -> dict[str, Any]:
    """Transactions by many coroutines; one second before is not counted."""
    latencies: list[float] = []
    names = STREAMS[case]
    async with await motet.aio.connect(endpoints) as db:
        begin = time.perf_counter() + 1.0
        end = begin + seconds
        run = f"{time.time_ns():x}"

        async def lane(number: int) -> None:
            count = 0
            while (before := time.perf_counter()) < end:
                async with db.transaction() as txn:
                    for name in names:
                        txn.change(name, f"o-{run}-{number}-{count}", "insert", row=ROW)
                count += 1
                if before >= begin:
                    latencies.append(time.perf_counter() - before)

        async def used() -> float:
            await asyncio.sleep(begin - time.perf_counter())
            before = cpu_seconds(pids)
            await asyncio.sleep(end - time.perf_counter())
            return cpu_seconds(pids) - before

        measuring = asyncio.create_task(used())
        await asyncio.gather(*(lane(number) for number in range(lanes)))
        cpu = await measuring
    return {
        "rate": round(len(latencies) / seconds),
        "mean_ms": round(statistics.mean(latencies) * 1e3, 3),
        "p50_ms": round(statistics.median(latencies) * 1e3, 3),
        "cpu_us": round(cpu / len(latencies) * 1e6, 1),
    }


async def make_streams(endpoints: str) -> None:
    async with await motet.aio.connect(endpoints) as db:
        for name in STREAMS["two"]:
            await db.create_stream(name, shards=1, replicas=3)
        for name in STREAMS["shards"]:
            await db.create_stream(name, replicas=3)


def measure(folder: Path, lanes: int, seconds: int, rounds: int) -> dict[str, Any]:
    """PostgreSQL and ours are up all the time and are asked in turns: a disk has good and bad minutes."""
    mine: dict[str, list[dict[str, Any]]] = {case: [] for case in STREAMS}
    theirs: dict[str, list[dict[str, Any]]] = {case: [] for case in STREAMS}
    from_python: dict[str, list[dict[str, Any]]] = {case: [] for case in STREAMS}
    version = None
    quiet = {"MOTET_LOG__LEVEL": "warning"}
    with contextlib.ExitStack() as running:
        peer = None
        if postgres.is_there():
            peer = postgres.Postgres(folder / "postgres")
            running.callback(peer.stop)
            version = peer.version
        cluster = LocalCluster(3, folder / "motet", roles=ROLES, environment=quiet)
        endpoints = running.enter_context(cluster).endpoints
        pids = [os.getpid(), *(cluster.pid(number) for number in range(3))]
        asyncio.run(make_streams(endpoints))
        for _ in range(rounds):
            for case in STREAMS:
                if peer is not None:
                    theirs[case].append(peer.commits(AS_OF_PEER[case], lanes, seconds))
                    if postgres_client.is_there():
                        asked = postgres_client.commits(
                            peer.address, AS_OF_PEER[case], lanes, seconds, tuple(ROW.values())
                        )
                        from_python[case].append(run_loop(asked))
                    os.sync()  # what it has put off is not for our turn
                mine[case].append(run_loop(commits(endpoints, case, lanes, seconds, pids)))
    return {
        "bench": "transactions",
        "lanes": lanes,
        "postgres_version": version,
        "postgres": None if peer is None else theirs,
        "from_python": from_python,
        "motet": mine,
    }


def judge(figures: dict[str, Any]) -> dict[str, Any]:
    """The ratios, the median of those of the rounds, and whether each is what is required."""
    we, they = figures["motet"], figures["postgres"]
    ratios = {} if they is None else _ratios(we, they)
    missed = [name for name, ratio in ratios.items() if ratio < REQUIRED.get(name, 0)]
    pairs = zip(we["shards"], we["two"], strict=True)
    wide = round(statistics.median(a["rate"] / b["rate"] for a, b in pairs), 2)
    beside = _ratios(we, figures["from_python"])
    return {
        **figures,
        "ratios": ratios,
        "ratio_shards": wide,
        "ratios_from_python": beside,
        "missed": missed,
        "ok": not missed,
    }


def _ratios(we: dict[str, Any], they: dict[str, Any]) -> dict[str, float]:
    found = {}
    for case in STREAMS:
        if they[case]:
            pairs = zip(we[case], they[case], strict=True)
            found[case] = round(statistics.median(a["rate"] / b["rate"] for a, b in pairs), 2)
    return found


def show(figures: dict[str, Any]) -> None:
    for name in ("postgres", "from_python", "motet"):
        for case, rounds in (figures[name] or {}).items():
            for values in rounds:
                print(f"{name:>11} {case:>6}  " + "  ".join(f"{k} {v}" for k, v in values.items()))
        if figures[name] is None:
            print(f"{name:>10} is not installed: nothing to compare with")
    print(f"PostgreSQL {figures['postgres_version']}, {figures['lanes']} in flight")
    print(f"ratios {figures['ratios']}, required {REQUIRED}, missed {figures['missed']}")
    print(f"two streams of four shards each: {figures['ratio_shards']} of two of one shard")
    if figures["ratios_from_python"]:
        print(f"against what a Python program gets of it: {figures['ratios_from_python']}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="shorter, which says less")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument("--lanes", type=int, default=LANES, help="transactions in flight")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="motet-bench-") as folder:
        seconds, rounds = (3, 2) if options.quick else (5, 5)
        figures = judge(measure(Path(folder), options.lanes, seconds, rounds))
    if options.json:
        print(json.dumps(figures))
    else:
        show(figures)
    return 0 if figures["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
