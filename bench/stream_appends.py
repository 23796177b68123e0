"""Appends to a replicated stream and reading them back, against NATS JetStream and PySyncObj in the same run.

Three nodes of each on this machine, one shard, 1 KiB records. JetStream is loaded by a C program
(``jetstream_load.c``), ours by our client in Python. JetStream acknowledges before it syncs, we do after the
disks of a majority have it. PySyncObj, a Raft in Python, is loaded by its own leader, and made to sync; there
is no target for it.

1       one append at a time: the median latency, at most 1.5 times JetStream's
256     256 in flight, one caller each, no batches: at least twice its rate
4x256   the same by four processes; no target
batch   four callers with batches of 256 records: at least four times its rate at 256, or 70 % of three raw
        writers that sync, whichever is lower
read    the whole shard in pages, checksums verified and every value touched: at least 0.7 of its consume rate

The two are asked in turns, and a ratio is the median over neighbouring rounds.

Needs a C compiler; without nats-server and libnats-dev (Debian) or pysyncobj (PyPI) there is nothing to
compare with, which is said.

    python bench/stream_appends.py [--quick] [--json]

How it goes on as a shard grows is ``stream_growth.py``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

import motet.aio
from motet.client.cluster.stream import ClusterStream
from motet.columnar.raw_records import block_columns
from motet.core.streams.entries import decode_records
from motet.ids import Offset
from motet.node.config import ROLES
from motet.real.process import run as run_loop
from motet.testing.local_cluster import LocalCluster
from peers import jetstream, syncobj

VALUE = bytes(range(256)) * 4
VALUE_SUM = sum(VALUE)
BATCH = 256
CASES = {"1": (1, 1), "256": (1, 256), "4x256": (4, 256)}
"""Client processes, and appends that each has in flight."""

REQUIRED = {"1": 1 / 1.5, "256": 2.0, "batch": 1.0, "read": 0.7}


class Load(msgspec.Struct):
    """What a client process of ours is to do."""

    endpoints: str
    lanes: int
    batch: int
    seconds: float
    start_at: float


async def append_for_a_while(load: Load) -> dict[str, Any]:
    """Appends by many coroutines, each waiting for its own answer; one second before is not counted."""
    latencies: list[float] = []
    table = pa.table({"key": ["key"] * load.batch, "value": [VALUE] * load.batch})
    async with await motet.aio.connect(load.endpoints) as db:
        stream = db.stream("bench")
        await asyncio.sleep(max(0.0, load.start_at - time.time()))
        begin = time.perf_counter() + 1.0
        end = begin + load.seconds
        counted = 0

        async def lane() -> None:
            nonlocal counted
            while (before := time.perf_counter()) < end:
                if load.batch > 1:
                    await stream.append_batch(table)
                else:
                    await stream.append("key", VALUE)
                after = time.perf_counter()
                if before >= begin and after <= end:
                    counted += load.batch
                    latencies.append(after - before)

        await asyncio.gather(*(lane() for _ in range(load.lanes)))
    return {"rate": counted / load.seconds, "p50_ms": statistics.median(latencies) * 1e3}


async def read_back(endpoints: str) -> dict[str, Any]:
    """The whole shard, page by page; every byte of every value is summed, every offset is in its place."""
    async with await motet.aio.connect(endpoints) as db:
        stream = db.stream("bench")
        assert isinstance(stream, ClusterStream)
        count, began = 0, time.perf_counter()
        async for page in stream.pages(0, Offset(-1)):
            for entry in page:
                records = decode_records(entry.body)
                assert records.first_offset == count, "a gap"
                for chunk in records.chunks:
                    _, values = block_columns(chunk.block)
                    body = np.frombuffer(values.buffers()[2], np.uint8)
                    assert int(body.sum(dtype=np.uint64)) == VALUE_SUM * chunk.count
                count += records.count
        return {"rate": round(count / (time.perf_counter() - began)), "count": count}


def clients(
    endpoints: str, processes: int, lanes: int, batch: int, seconds: float
) -> dict[str, Any]:
    start_at = time.time() + 2.0
    load = msgspec.json.encode(Load(endpoints, lanes, batch, seconds, start_at)).decode()
    command = [sys.executable, __file__, "--client", load]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(processes)]
    results = []
    for process in running:
        out, _ = process.communicate(timeout=240)
        assert process.returncode == 0, "a client failed"
        results.append(json.loads(out))
    return {
        "rate": round(sum(result["rate"] for result in results)),
        "p50_ms": round(statistics.median(result["p50_ms"] for result in results), 3),
    }


async def make_stream(endpoints: str) -> None:
    async with await motet.aio.connect(endpoints) as db:
        await db.create_stream("bench", shards=1, replicas=3)


def case_of(endpoints: str, case: str, seconds: float) -> dict[str, Any]:
    """One case, by clients of ours."""
    os.sync()  # JetStream leaves its writing for later: not for our turn
    if case == "batch":
        return clients(endpoints, 1, 4, BATCH, seconds)
    processes, lanes = CASES[case]
    return clients(endpoints, processes, lanes, 1, seconds)


def raw_writers(folder: Path, seconds: float) -> dict[str, Any]:
    """Three files at once, batches of the same size, each synced before the next: the disk's own limit."""
    counts = [0, 0, 0]
    data = VALUE * BATCH
    end = time.perf_counter() + seconds

    def write(number: int) -> None:
        file = os.open(folder / f"raw-{number}", os.O_WRONLY | os.O_CREAT)
        os.posix_fallocate(file, 0, 1 << 30)
        place = 0
        while time.perf_counter() < end:
            os.pwrite(file, data, place)
            os.fdatasync(file)
            place = (place + len(data)) % ((1 << 30) - len(data))
            counts[number] += BATCH
        os.close(file)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"rate": round(min(counts) / seconds)}


def measure(folder: Path, seconds: int, rounds: int) -> dict[str, Any]:
    """JetStream and ours are up all the time and are asked in turns: a disk has good and bad minutes."""
    mine: dict[str, list[dict[str, Any]]] = {case: [] for case in (*CASES, "batch", "read")}
    theirs: dict[str, list[dict[str, Any]]] = {case: [] for case in (*CASES, "read")}
    raw = []
    quiet = {"MOTET_LOG__LEVEL": "warning"}
    with contextlib.ExitStack() as running:
        peer = None
        if jetstream.is_there():
            peer = jetstream.JetStream(folder / "jetstream")
            running.callback(peer.stop)
        nodes = LocalCluster(3, folder / "motet", roles=ROLES, environment=quiet)
        endpoints = running.enter_context(nodes).endpoints
        asyncio.run(make_stream(endpoints))
        for _ in range(rounds):
            for case, (processes, lanes) in CASES.items():
                if peer is not None:
                    theirs[case].append(peer.publish(processes, lanes, seconds))
                mine[case].append(case_of(endpoints, case, seconds))
            raw.append(raw_writers(folder, seconds))
            mine["batch"].append(case_of(endpoints, "batch", seconds))
        if peer is not None:
            theirs["read"].append(peer.consume(50_000))
        mine["read"].append(run_loop(read_back(endpoints)))
    return {
        "bench": "stream_appends",
        "raw": {"batch": raw},
        "jetstream": theirs if peer is not None else None,
        "pysyncobj": pysyncobj(folder, seconds),
        "motet": mine,
    }


def pysyncobj(folder: Path, seconds: int) -> dict[str, Any] | None:
    if not syncobj.is_there():
        return None
    nodes = syncobj.SyncObjs(folder / "pysyncobj")
    try:
        return {"1": [nodes.append(1, seconds)], "256": [nodes.append(256, seconds)]}
    finally:
        nodes.stop()


def judge(figures: dict[str, Any]) -> dict[str, Any]:
    """The ratios, the median of those of the rounds, and whether each is what is required."""
    we, they, ratios = figures["motet"], figures["jetstream"], {}

    def rounds(*sides: list[dict[str, Any]]) -> list[tuple[dict[str, Any], ...]]:
        return list(zip(*sides, strict=True))

    if they is not None:
        pairs = rounds(we["1"], they["1"])
        ratios["1"] = statistics.median(b["p50_ms"] / a["p50_ms"] for a, b in pairs)
        for case in ("256", "read"):
            pairs = rounds(we[case], they[case])
            ratios[case] = statistics.median(a["rate"] / b["rate"] for a, b in pairs)
        ratios["batch"] = statistics.median(
            a["rate"] / min(4 * b["rate"], 0.7 * c["rate"])
            for a, b, c in rounds(we["batch"], they["256"], figures["raw"]["batch"])
        )
    missed = [name for name, ratio in ratios.items() if ratio < REQUIRED[name]]
    shown = {name: round(ratio, 2) for name, ratio in ratios.items()}
    return {**figures, "ratios": shown, "missed": missed, "ok": not missed}


def show(figures: dict[str, Any]) -> None:
    for name in ("raw", "jetstream", "pysyncobj", "motet"):
        for case, rounds in (figures[name] or {}).items():
            for values in rounds:
                print(f"{name:>10} {case:>6}  " + "  ".join(f"{k} {v}" for k, v in values.items()))
        if figures[name] is None:
            print(f"{name:>10} is not installed: nothing to compare with")
    print(f"ratios {figures['ratios']}, required {REQUIRED}, missed {figures['missed']}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="shorter, which says less")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument("--client", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client is not None:
        load = msgspec.json.decode(options.client, type=Load)
        print(json.dumps(run_loop(append_for_a_while(load))))
        return 0
    with tempfile.TemporaryDirectory(prefix="motet-bench-") as folder:
        figures = judge(measure(Path(folder), *((3, 2) if options.quick else (4, 5))))
    if options.json:
        print(json.dumps(figures))
    else:
        show(figures)
    return 0 if figures["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
