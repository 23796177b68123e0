"""Puts per second of a consensus cluster, against etcd in the same run.

Three replicas of each on this machine, every write synced before it is acknowledged, 256 bytes a value. Each
put has an acknowledgement of its own; puts that are in flight at once share requests. etcd is asked by a load
generator written in C (h2load), ours by Python processes that wait for 64 acknowledgements at a time, as a
front end does, so that both measure the cluster more than the client.

1x1       one put at a time, by a load generator that waits on its socket (``one_by_one``): the median
          latency, which must not be above etcd's
          ("program": the same by our client in a program's loop, for what that adds)
4x64      four client processes with 64 puts in flight each: at least four times etcd's rate
          ("coroutines": each put awaited by a coroutine of its own, for what that costs the client)
dead      the same with one backup killed: at least 70 % of the healthy rate
stall     a million keys, a thousand of them changed, and a checkpoint: the longest gap between two
          acknowledgements while it is taken, in milliseconds, which must be below 50; and for comparison
          the longest one while none is, which is what the disk does by itself

The two are asked in turns, and a ratio is the median over neighbouring rounds. At the end of each a sample of
what was acknowledged is read back. Without etcd and h2load (Debian: etcd-server,
etcd-client, nghttp2-client) only ours is measured, and said so.

    python bench/consensus_puts.py [--quick] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from motet.client.consensus import ConsensusClient
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.key_value import Found, Get, Put, Result, Stored
from motet.ids import Address
from motet.node.replica_files import Sizes
from motet.real.loop import run as run_loop
from motet.testing.consensus_cluster import ConsensusCluster
from one_by_one import OneByOne
from peers import etcd

VALUE = bytes(range(256))
KEYS = 960
CASES = {"1x1": (1, 1), "4x64": (4, 64)}
"""Client processes, and puts that each has in flight."""

REQUIRED = {"4x64": 4.0, "1x1": 1.0, "dead": 0.7}
STALL_MS_MAX = 50.0


# Ours


class Load(msgspec.Struct):
    """What a client process is to do."""

    config: VsrConfig
    endpoints: dict[Address, str]
    number: int
    lanes: int
    #: puts of one lane that wait for their acknowledgements together
    together: int
    sessions: int
    seconds: float
    start_at: float
    #: one put at a time, without a loop
    is_bare: bool = False


def _puts(load: Load, lane: int) -> list[list[Put]]:
    """What a lane puts, again and again: keys that are its own, each with two values in turn.

    Made beforehand, as the body that h2load sends is: what is measured is the cluster.
    """
    rounds = 2 * KEYS // (load.lanes * load.together)
    starts = [(number * load.lanes + lane) * load.together for number in range(rounds)]
    return [[_put(load.number, start + n) for n in range(load.together)] for start in starts]


def _put(client: int, place: int) -> Put:
    return Put(b"bench/%d/%06d" % (client, place % KEYS), b"%016d" % place + VALUE[16:])


def put_one_by_one(load: Load) -> dict[str, Any]:
    """One put at a time, without a loop; all is read back at the end."""
    rounds = _puts(load, 0)
    client = OneByOne(load.config, load.endpoints)
    time.sleep(max(0.0, load.start_at - time.time()))
    begin = time.perf_counter() + 1.0
    end = begin + load.seconds
    latencies: list[float] = []
    done = 0
    while (before := time.perf_counter()) < end:
        (result,) = client.call(rounds[done % len(rounds)])
        after = time.perf_counter()
        assert type(result) is Stored
        done += 1
        if begin <= before and after <= end:
            latencies.append(after - before)
    acknowledged = {
        put.key: put.value
        for number in range(max(0, done - len(rounds)), done)
        for put in rounds[number % len(rounds)]
    }
    sample = random.Random(1).sample(sorted(acknowledged), min(100, len(acknowledged)))
    found = client.call([Get(key) for key in sample])
    _check_found(sample, found, acknowledged)
    client.close()
    return _figures(latencies, load.seconds)


async def put_for_a_while(load: Load) -> dict[str, Any]:
    """Puts of many lanes, each waiting for its own acknowledgement; a sample is read back."""
    acknowledged: dict[bytes, bytes] = {}
    latencies: list[float] = []
    lanes = [_puts(load, number) for number in range(load.lanes)]
    async with ConsensusClient(
        load.config, load.endpoints, sessions=load.sessions, seconds=30
    ) as client:
        await client.call([Put(b"warm", b"up")])
        await asyncio.sleep(max(0.0, load.start_at - time.time()))
        begin = time.perf_counter() + 1.0
        end = begin + load.seconds

        async def lane(rounds: list[list[Put]]) -> None:
            done = 0
            while time.perf_counter() < end:
                puts = rounds[done % len(rounds)]
                before = time.perf_counter()
                results = await client.call(puts)
                after = time.perf_counter()
                assert len(results) == len(puts)
                assert set(map(type, results)) == {Stored}
                done += 1
                if begin <= before and after <= end:
                    latencies.extend([after - before] * load.together)
            for earlier in range(max(0, done - len(rounds)), done):
                puts = rounds[earlier % len(rounds)]
                acknowledged.update((put.key, put.value) for put in puts)

        await asyncio.gather(*map(lane, lanes))
        sample = random.Random(1).sample(sorted(acknowledged), min(100, len(acknowledged)))
        _check_found(sample, await client.call([Get(key) for key in sample]), acknowledged)
    return _figures(latencies, load.seconds)


def _check_found(
    sample: list[bytes], found: list[Result], acknowledged: dict[bytes, bytes]
) -> None:
    for key, result in zip(sample, found, strict=True):
        assert isinstance(result, Found)
        assert result.value == acknowledged[key], f"{key!r} was acknowledged and is not there"


def _figures(latencies: list[float], seconds: float) -> dict[str, Any]:
    latencies.sort()
    return {
        "rate": len(latencies) / seconds,
        "p50_ms": 1e3 * statistics.median(latencies),
        "p99_ms": 1e3 * latencies[int(0.99 * len(latencies))],
    }


def ours(
    cluster: ConsensusCluster,
    processes: int,
    lanes: int,
    together: int,
    seconds: float,
    *,
    is_bare: bool = False,
) -> dict[str, Any]:
    """What some client processes get done together."""
    start_at = time.time() + 1.5
    running = []
    for number in range(processes):
        load = Load(
            config=cluster.config,
            endpoints=cluster.endpoints,
            number=number,
            lanes=lanes,
            together=together,
            sessions=min(lanes, 2),
            seconds=seconds,
            start_at=start_at,
            is_bare=is_bare,
        )
        text = msgspec.json.encode(load).decode()
        command = [sys.executable, __file__, "--client", text]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE))
    results = []
    for process in running:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, "a client failed"
        results.append(json.loads(out))
    return _together(results)


def _together(results: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "rate": round(sum(result["rate"] for result in results)),
        "p50_ms": round(statistics.median(result["p50_ms"] for result in results), 3),
        "p99_ms": round(max(result["p99_ms"] for result in results), 3),
    }


async def fill_and_stall(cluster: ConsensusCluster, keys: int, changed: int) -> dict[str, Any]:
    """The longest time without an acknowledgement while checkpoints of a large state are taken."""
    async with ConsensusClient(cluster.config, cluster.endpoints, sessions=4, seconds=60) as client:
        batch = 200

        async def fill(first: int) -> None:
            await client.call([Put(b"k%07d" % n, VALUE) for n in range(first, first + batch)])

        for start in range(0, keys, 16 * batch):
            await asyncio.gather(
                *(fill(f) for f in range(start, min(start + 16 * batch, keys), batch))
            )
        acknowledged: list[float] = []
        first_op = await client.read_barrier()
        # The first two checkpoints still have to do with the filling, and do not count.
        interval = cluster.config.checkpoint_ops
        ops = 5 * interval
        dice = random.Random(2)
        per_op = max(1, changed // interval)
        for _ in range(ops):
            await client.call([Put(b"k%07d" % dice.randrange(keys), VALUE) for _ in range(per_op)])
            acknowledged.append(time.perf_counter())
    at_checkpoints: list[float] = []
    elsewhere: list[float] = []
    for number, (a, b) in enumerate(pairwise(acknowledged)):
        if number >= 2 * interval:
            behind = (
                first_op + number
            ) % interval  # how many ops ago the last checkpoint was begun
            (at_checkpoints if behind < interval // 2 else elsewhere).append(1e3 * (b - a))
    return {
        "keys": keys,
        "stall_ms": round(max(at_checkpoints), 1),
        "elsewhere_ms": round(max(elsewhere), 1),
        "p50_ms": round(statistics.median(at_checkpoints + elsewhere), 2),
    }


# All of it


def measure(folder: Path, seconds: int, rounds: int, keys: int) -> dict[str, Any]:
    """Both clusters are up all the time and are asked in turns: a disk has good and bad minutes."""
    theirs: dict[str, list[dict[str, Any]]] = {case: [] for case in CASES}
    mine: dict[str, list[dict[str, Any]]] = {
        case: [] for case in (*CASES, "1x1 program", "4x64 coroutines", "dead")
    }
    with contextlib.ExitStack() as running:
        peer = None
        if etcd.is_there():
            (folder / "etcd").mkdir()
            peer = etcd.Etcd(folder / "etcd")
            running.callback(peer.stop)
        cluster = running.enter_context(ConsensusCluster(3, sizes=Sizes(), log_level="warning"))
        for _ in range(rounds):
            for case, (processes, together) in CASES.items():
                if peer is not None:
                    theirs[case].append(peer.puts(processes, together, seconds))
                mine[case].append(
                    ours(cluster, processes, 1, together, seconds, is_bare=together == 1)
                )
        mine["1x1 program"].append(ours(cluster, 1, 1, 1, seconds))
        mine["4x64 coroutines"].append(ours(cluster, 4, 64, 1, seconds))
        cluster.kill((cluster.primary() + 1) % 3)
        mine["dead"].append(ours(cluster, 4, 1, 64, seconds))
    figures: dict[str, Any] = {
        "bench": "consensus_puts",
        "etcd": theirs if peer is not None else None,
        "motet": mine,
    }
    if keys:
        with ConsensusCluster(3, sizes=Sizes(), log_level="warning") as cluster:
            figures["motet"]["stall"] = [run_loop(fill_and_stall(cluster, keys, 1_000))]
    return figures


def judge(figures: dict[str, Any]) -> dict[str, Any]:
    """The ratios, the median of those of the rounds, and whether each is what is required."""
    motet, etcd = figures["motet"], figures["etcd"]
    healthy = statistics.median(each["rate"] for each in motet["4x64"])
    ratios = {"dead": motet["dead"][0]["rate"] / healthy}
    if etcd is not None:
        rounds = list(zip(motet["4x64"], etcd["4x64"], strict=True))
        ratios["4x64"] = statistics.median(we["rate"] / they["rate"] for we, they in rounds)
        rounds = list(zip(motet["1x1"], etcd["1x1"], strict=True))
        ratios["1x1"] = statistics.median(they["p50_ms"] / we["p50_ms"] for we, they in rounds)
    is_ok = all(ratio >= REQUIRED[name] for name, ratio in ratios.items())
    if "stall" in motet:
        is_ok = is_ok and motet["stall"][0]["stall_ms"] < STALL_MS_MAX
    return {**figures, "ratios": {k: round(v, 2) for k, v in ratios.items()}, "ok": is_ok}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--quick", action="store_true", help="fewer rounds, and without the million keys"
    )
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument("--client", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client is not None:
        load = msgspec.json.decode(options.client, type=Load)
        figures = put_one_by_one(load) if load.is_bare else run_loop(put_for_a_while(load))
        print(json.dumps(figures))
        return 0
    with tempfile.TemporaryDirectory(prefix="motet-bench-") as folder:
        seconds, rounds, keys = (3, 2, 0) if options.quick else (4, 5, 1_000_000)
        figures = judge(measure(Path(folder), seconds, rounds, keys))
    if options.json:
        print(json.dumps(figures))
    else:
        for name in ("etcd", "motet"):
            for case, values in (
                (case, values) for case, each in (figures[name] or {}).items() for values in each
            ):
                print(f"{name:>6} {case:>6}  " + "  ".join(f"{k} {v}" for k, v in values.items()))
        print(f"ratios {figures['ratios']}, required {REQUIRED}, stall below {STALL_MS_MAX} ms")
        if figures["etcd"] is None:
            print("etcd or h2load is not installed: nothing to compare with")
    return 0 if figures["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
