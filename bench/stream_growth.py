"""What an append and a read cost as a shard grows from a thousand records to ten million.

Three nodes, one shard, records of 40 bytes, put in by batches of a thousand. At each power of ten:

append   one append at a time, the median latency
batch    batches of a thousand, time per record
read     a thousand records after an offset chosen at random, the median latency
memory   of the largest node, resident
restart  a follower is killed: until it serves what was appended before, by itself

The last should cost what the first did: at most twice as much, which is how far two measurements of the same
differ on a shared machine.

    python bench/stream_growth.py [--records 10000000] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

import motet.aio
from motet.client.cluster.stream import ClusterStream
from motet.core.streams.messages import ReadRecords, RecordsRead
from motet.errors import MotetError
from motet.ids import NodeId, Offset
from motet.node.config import ROLES
from motet.real.process import run as run_loop
from motet.testing.local_cluster import LocalCluster

BATCH = 1000
VALUE = b"forty bytes of a value, not one byte less"
TABLE = pa.table({"key": [b"k%d" % (n % 100) for n in range(BATCH)], "value": [VALUE] * BATCH})
PROBES = 200
LANES = 4
REQUIRED = 2.0
COSTS = ("append_ms", "batch_us", "read_ms", "restart_s")


async def timed(work: Any) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


async def fill(stream: ClusterStream, batches: int) -> None:
    """So many batches, four at a time."""
    left = batches

    async def lane() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await stream.append_batch(TABLE)

    await asyncio.gather(*(lane() for _ in range(LANES)))


async def size_of(stream: ClusterStream) -> int:
    (row,) = await stream.stats()
    count: int = row["next_offset"]
    return count


async def look(
    stream: ClusterStream, cluster: LocalCluster, chance: random.Random
) -> dict[str, Any]:
    """What things cost now."""
    size = await size_of(stream)
    appends = [await timed(stream.append("one", VALUE)) for _ in range(PROBES)]
    batches = await timed(fill(stream, min(100, max(10, size // BATCH))))
    places = [chance.randrange(max(1, size - BATCH)) for _ in range(PROBES)]
    reads = [await timed(stream.read_arrow(0, place, BATCH)) for place in places]
    count = min(100, max(10, size // BATCH)) * BATCH
    return {
        "records": size,
        "append_ms": round(statistics.median(appends) * 1e3, 3),
        "batch_us": round(batches / count * 1e6, 2),
        "read_ms": round(statistics.median(reads) * 1e3, 3),
        "memory_mib": max(resident_mib(cluster.pid(node)) for node in range(3)),
        "restart_s": round(await restart(stream, cluster), 2),
    }


async def restart(stream: ClusterStream, cluster: LocalCluster) -> float:
    """Kill a follower; until it shows all records again, as a replica, the process started anew."""
    (row,) = await stream.stats()
    follower = next(node for node in row["ensemble"] if node != row["leader"])
    place = (await stream._shard(0)).shard
    number = int(follower.removeprefix("n"))
    last = Offset(row["next_offset"] - 2)
    cluster.kill(number)
    began = time.perf_counter()
    await asyncio.to_thread(cluster.restart, number)
    while True:
        try:
            shown = await stream._router.ask_node(
                NodeId(follower),
                lambda request, clock: ReadRecords(request, clock, place, last, 1, 1, "replica"),
                RecordsRead,
                1.0,
            )
            if shown.next_offset >= row["next_offset"]:
                return time.perf_counter() - began
        except MotetError:
            pass  # it is not there yet
        await asyncio.sleep(0.02)


def resident_mib(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096 >> 20


async def grow(cluster: LocalCluster, records: int) -> list[dict[str, Any]]:
    chance, found = random.Random(7), []
    async with await motet.aio.connect(cluster.endpoints) as db:
        await db.create_stream("growth", shards=1, replicas=3)
        stream = db.stream("growth")
        assert isinstance(stream, ClusterStream)
        wanted = 1000
        while wanted <= records:
            size = await size_of(stream)
            await fill(stream, max(0, wanted - size) // BATCH)
            found.append(await look(stream, cluster, chance))
            print(json.dumps(found[-1]), file=sys.stderr)
            wanted *= 10
    return found


def judge(found: list[dict[str, Any]]) -> dict[str, Any]:
    """What the last costs in terms of the second: at the first everything is new."""
    first, last = found[min(1, len(found) - 1)], found[-1]
    ratios = {cost: round(last[cost] / first[cost], 2) for cost in COSTS}
    missed = [cost for cost, ratio in ratios.items() if ratio > REQUIRED]
    return {
        "bench": "stream_growth",
        "found": found,
        "ratios": ratios,
        "missed": missed,
        "ok": not missed,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--records", type=int, default=10_000_000, help="up to so many")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    options = parser.parse_args()
    quiet = {"MOTET_LOG__LEVEL": "warning"}
    with tempfile.TemporaryDirectory(prefix="motet-bench-") as folder:
        nodes = LocalCluster(3, Path(folder), roles=ROLES, environment=quiet)
        with nodes as cluster:
            figures = judge(run_loop(grow(cluster, options.records)))
    if options.json:
        print(json.dumps(figures))
    else:
        print(f"ratios {figures['ratios']}, at most {REQUIRED}, missed {figures['missed']}")
    return 0 if figures["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
