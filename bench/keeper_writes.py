"""The keeper over ZooKeeper's wire, against ZooKeeper and etcd in the same run.

Three nodes of each on this machine, every write synced before it is acknowledged, 256 bytes a node, distinct
nodes, each operation acknowledged on its own. ZooKeeper and ours are asked by the same load generator, a C
program that speaks the wire (``zookeeper_load.c``), etcd by h2load. The first client talks to the leader, the
others take turns over the nodes. After the writes the generator reads back what was acknowledged.

1x1 set   one write at a time: the median latency, which must not be above ZooKeeper's nor etcd's
4x64 set  four clients with 64 in flight each: at least three times ZooKeeper's rate
native    the same by our own client in Python, 64 in flight: at least three times the better of the two peers
4x64 get  linearizable reads: at least twice etcd's linearizable gets
dead      4x64 set with one backup killed: at least 70 % of the healthy rate
stall     300,000 nodes, a thousand of them changed between two checkpoints: the longest gap between two
          acknowledgements, in milliseconds, which must be below 50 (not with --quick)

Needs a C compiler; peers that are not installed (Debian: zookeeper, etcd-server, etcd-client, nghttp2-client)
are left out, and said so.

    python bench/keeper_writes.py [--quick] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from motet.client.keeper.client import OPEN, KeeperClient
from motet.format.zookeeper.messages import Create
from motet.real.process import run as run_loop
from motet.testing.local_cluster import LocalCluster
from peers import etcd, zookeeper
from peers.zookeeper import WireLoad

VALUE = bytes(range(256))
KEYS = 500
REQUIRED = {
    "1x1 set": 1.0,
    "1x1 set to etcd": 1.0,
    "4x64 set": 3.0,
    "native": 3.0,
    "4x64 get": 2.0,
    "dead": 0.7,
}
STALL_NODES = 300_000
STALL_MS_MAX = 50.0
CHECKPOINT_OPS = 1_000


class Load(msgspec.Struct):
    """What a client process of ours is to do."""

    endpoint: str
    number: int
    lanes: int
    seconds: float
    start_at: float


async def set_for_a_while(load: Load) -> dict[str, Any]:
    """Sets by many coroutines, each waiting for its own answer; what was acknowledged is read back."""
    latencies: list[float] = []
    last: dict[str, bytes] = {}
    async with KeeperClient(load.endpoint, seconds=60) as keeper:
        paths = [f"/native-{load.number}-{n}" for n in range(KEYS)]
        await asyncio.gather(*(keeper.create(path, VALUE) for path in paths))
        await asyncio.sleep(max(0.0, load.start_at - time.time()))
        begin = time.perf_counter() + 1.0
        end = begin + load.seconds

        async def lane(number: int) -> None:
            place = number
            while time.perf_counter() < end:
                path, value = paths[place % KEYS], b"%016d" % place + VALUE[16:]
                before = time.perf_counter()
                await keeper.set(path, value)
                after = time.perf_counter()
                last[path] = value
                if begin <= before and after <= end:
                    latencies.append(after - before)
                place += load.lanes

        await asyncio.gather(*map(lane, range(load.lanes)))
        found = await asyncio.gather(*map(keeper.get, last))
        for (path, value), (data, _) in zip(last.items(), found, strict=True):
            assert data == value, f"{path} was acknowledged and is not there"
    return {
        "rate": len(latencies) / load.seconds,
        "p50_ms": 1e3 * statistics.median(latencies),
    }


def native(endpoints: list[str], processes: int, lanes: int, seconds: int) -> dict[str, Any]:
    """What our own clients get done together, each in a process of its own."""
    start_at = time.time() + 2.5
    running = []
    for number in range(processes):
        load = Load(endpoints[number % 3], number, lanes, seconds, start_at)
        command = [sys.executable, __file__, "--client", msgspec.json.encode(load).decode()]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE))
    results = []
    for process in running:
        out, _ = process.communicate(timeout=120)
        assert process.returncode == 0, "a client failed"
        results.append(json.loads(out))
    return {
        "rate": round(sum(result["rate"] for result in results)),
        "p50_ms": round(statistics.median(result["p50_ms"] for result in results), 3),
    }


async def fill_and_stall(endpoint: str, nodes: int) -> dict[str, Any]:
    """The longest time without an acknowledgement while checkpoints of a large tree are taken."""
    async with KeeperClient(endpoint, seconds=60) as keeper:
        batch = 100

        async def fill(first: int) -> None:
            places = range(first, min(first + batch, nodes))
            await keeper.multi([Create(f"/n{n:07}", VALUE, OPEN, 0) for n in places])

        for start in range(0, nodes, 16 * batch):
            await asyncio.gather(
                *(fill(f) for f in range(start, min(start + 16 * batch, nodes), batch))
            )
        dice = random.Random(2)
        acknowledged: list[float] = []
        for _ in range(
            5 * CHECKPOINT_OPS
        ):  # those of the first two still have to do with the filling
            await keeper.set(f"/n{dice.randrange(nodes):07}", VALUE)
            acknowledged.append(time.perf_counter())
    gaps = [1e3 * (b - a) for a, b in pairwise(acknowledged[2 * CHECKPOINT_OPS :])]
    return {
        "nodes": nodes,
        "stall_ms": round(max(gaps), 1),
        "p50_ms": round(statistics.median(gaps), 2),
    }


def primary_first(cluster: LocalCluster) -> list[int]:
    """The nodes, the one that leads before the others."""
    leads = []
    for i in range(3):
        with urllib.request.urlopen(f"{cluster.http(i)}/api/status", timeout=5) as answer:
            leads.append(json.load(answer)["machines"]["keeper"]["detail"]["is_primary"])
    return sorted(range(3), key=lambda i: not leads[i])


def ours(folder: Path, load: WireLoad, seconds: int, stall_nodes: int) -> dict[str, Any]:
    quiet = {"MOTET_LOG__LEVEL": "warning"}
    with LocalCluster(3, folder, roles=["keeper"], environment=quiet) as cluster:
        order = primary_first(cluster)
        endpoints = [cluster.zookeeper(i) for i in order]
        ports = [int(endpoint.rpartition(":")[2]) for endpoint in endpoints]
        figures = {
            "1x1 set": load.run(ports, "set", 1, 1, seconds),
            "4x64 set": load.run(ports, "set", 4, 64, seconds),
            "4x64 get": load.run(ports, "get", 4, 64, seconds),
            "native": native(endpoints, 4, 64, seconds),
        }
        if stall_nodes:
            figures["stall"] = run_loop(fill_and_stall(endpoints[0], stall_nodes))
        cluster.kill(order[2])
        figures["dead"] = load.run(ports[:2], "set", 4, 64, seconds)
        return figures


def measure(folder: Path, seconds: int, stall_nodes: int) -> dict[str, Any]:
    load = WireLoad(folder)
    figures: dict[str, Any] = {"bench": "keeper_writes", "zookeeper": None, "etcd": None}
    if zookeeper.is_there():
        zk = zookeeper.ZooKeeper(folder / "zookeeper")
        try:
            figures["zookeeper"] = {
                "1x1 set": load.run(zk.leader_first, "set", 1, 1, seconds),
                "4x64 set": load.run(zk.leader_first, "set", 4, 64, seconds),
            }
        finally:
            zk.stop()
    if etcd.is_there():
        (folder / "etcd").mkdir()
        peer = etcd.Etcd(folder / "etcd")
        try:
            figures["etcd"] = {
                "1x1 set": peer.puts(1, 1, seconds),
                "4x64 set": peer.puts(4, 64, seconds),
                "4x64 get": peer.gets(4, 64, seconds),
            }
        finally:
            peer.stop()
    figures["motet"] = ours(folder / "motet", load, seconds, stall_nodes)
    return figures


def judge(figures: dict[str, Any]) -> dict[str, Any]:
    """The ratios, and whether each is what is required."""
    motet, zk, other = figures["motet"], figures["zookeeper"], figures["etcd"]
    ratios = {"dead": motet["dead"]["rate"] / motet["4x64 set"]["rate"]}
    if zk is not None:
        ratios["1x1 set"] = zk["1x1 set"]["p50_ms"] / motet["1x1 set"]["p50_ms"]
        ratios["4x64 set"] = motet["4x64 set"]["rate"] / zk["4x64 set"]["rate"]
    if other is not None:
        ratios["1x1 set to etcd"] = other["1x1 set"]["p50_ms"] / motet["1x1 set"]["p50_ms"]
        ratios["4x64 get"] = motet["4x64 get"]["rate"] / other["4x64 get"]["rate"]
    peers = [peer["4x64 set"]["rate"] for peer in (zk, other) if peer is not None]
    if peers:
        ratios["native"] = motet["native"]["rate"] / max(peers)
    is_ok = all(ratio >= REQUIRED[name] for name, ratio in ratios.items())
    if "stall" in motet:
        is_ok = is_ok and motet["stall"]["stall_ms"] < STALL_MS_MAX
    return {**figures, "ratios": {k: round(v, 2) for k, v in ratios.items()}, "ok": is_ok}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="shorter, which says less")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument("--client", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client is not None:
        load = msgspec.json.decode(options.client, type=Load)
        print(json.dumps(run_loop(set_for_a_while(load))))
        return 0
    with tempfile.TemporaryDirectory(prefix="motet-bench-") as folder:
        seconds, stall_nodes = (3, 0) if options.quick else (8, STALL_NODES)
        figures = judge(measure(Path(folder), seconds, stall_nodes))
    if options.json:
        print(json.dumps(figures))
        return 0 if figures["ok"] else 1
    for name in ("zookeeper", "etcd", "motet"):
        for case, values in (figures[name] or {}).items():
            print(f"{name:>10} {case:>9}  " + "  ".join(f"{k} {v}" for k, v in values.items()))
        if figures[name] is None:
            print(f"{name:>10} is not installed: nothing to compare with")
    print(f"ratios {figures['ratios']}, required {REQUIRED}, stall below {STALL_MS_MAX} ms")
    return 0 if figures["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
