"""What tables cost the keeper of a folder: inserts one at a time, and opening the folder that they leave.

An insert is what a table replica asks of the keeper for one: a multi of two checks, the token, the part and
the sequential entry of the log, through the port that it uses, with the log watched as it watches it. Nothing
else of an insert is in it: no bytes of parts, no client. Each folder is opened and closed in a process of its
own. A disk and a busy machine have good and bad minutes, so what is to be kept are ratios within one run:

insert_growth     the median of the last thousand inserts to that of the hundred-and-first and those after it
many_per_empty    CPU time of opening the folder with all parts to that of an empty one

    python bench/folder_keeper.py [--quick] [--json] [--parts N]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import motet
from motet.client.keeper.client import OPEN
from motet.core.machine import Message
from motet.core.mergetree.paths import ROOTS, ShardPaths, layout
from motet.core.metadata.messages import (
    METADATA,
    Check,
    Create,
    MetadataAnswer,
    SessionBegun,
    Watch,
    Watching,
    WatchOf,
    Write,
    Written,
)
from motet.embedded import ADDRESS, CLUSTER
from motet.ids import NodeId, PartId, RequestId, SessionId, TableId
from motet.node.driver import Driver
from motet.node.embedded_keeper import EmbeddedKeeper
from motet.node.metadata_port import MetadataPort
from motet.real.disk import RealDisk
from motet.real.in_process import InProcessNetwork
from motet.real.process import RealEntropy, RealTime

PARTS, PARTS_QUICK = 10_000, 3_000
SPAN = 1_000
FIRST = 100
SHARD = ShardPaths(TableId("0123456789abcdef"), 0)
OWN = SHARD.replica(NodeId("embedded"))
OPENS = """
import sys, time
import motet
motet.open
began, cpu = time.perf_counter(), time.process_time()
motet.open(sys.argv[1]).close()
print(time.perf_counter() - began, time.process_time() - cpu)
"""


class Caller:
    """Asks the port one request after the other, as a core would."""

    def __init__(self, port: MetadataPort) -> None:
        self._port = port
        self._answers: asyncio.Queue[Message] = asyncio.Queue()
        self._session = SessionId(0)
        self._asked = 0

    async def start(self) -> None:
        self._port.start(self._answers.put_nowait)
        begun = await self._answers.get()
        assert isinstance(begun, SessionBegun)
        self._session = begun.session

    async def ask(self, kind: type[Write] | type[Watch], *fields: Any) -> MetadataAnswer:
        self._asked += 1
        self._port.send(METADATA, kind(RequestId(self._asked), self._session, *fields))
        self._port.flush()
        while True:
            answer = await self._answers.get()
            if isinstance(answer, MetadataAnswer) and answer.request == self._asked:
                return answer


async def insert(caller: Caller, number: int) -> None:
    part = PartId(f"{number * 7_919_000_000_000 % (1 << 64):016x}")
    header = b'{"id":"%s","rows":1000,"hash":"%s"}' % (part.encode(), part.encode() * 4)
    operations = (
        Check(OWN.host, 0),
        Check(SHARD.definition, 0),
        Create(SHARD.token(f"load-{number}"), header),
        Create(OWN.part(part), header.ljust(200)),
        Create(SHARD.new_entry, header.ljust(250), sequential=True),
    )
    assert isinstance(await caller.ask(Write, operations), Written)


async def fill(folder: Path, parts: int) -> dict[str, float]:
    """Insert so many; microseconds."""
    disk = RealDisk(folder / "keeper")
    keeper = EmbeddedKeeper(ADDRESS, CLUSTER, disk, RealTime())
    keeper.prepare()
    driver = Driver([keeper.hosting()], time=RealTime(), entropy=RealEntropy())
    driver.start(InProcessNetwork(ADDRESS, cluster=CLUSTER, wake=driver.wake))
    keeper.start(driver)
    port = MetadataPort(keeper.client, acl=OPEN, roots=ROOTS)
    caller = Caller(port)
    await caller.start()
    for path, data in (*layout(SHARD.table, 1, (NodeId("embedded"),)), (SHARD.definition, b"{}")):
        assert isinstance(await caller.ask(Write, (Create(path, data),)), Written)
    assert isinstance(await caller.ask(Watch, SHARD.log, WatchOf.CHILDREN), Watching)
    written, syncs, took = driver.counters.write_bytes, driver.counters.syncs, list[float]()
    for number in range(parts):
        began = time.perf_counter()
        await insert(caller, number)
        took.append(time.perf_counter() - began)
    counters = driver.counters
    await port.stop()
    await keeper.server.stop()
    driver.stop()
    disk.close()
    return {
        "insert_first_us": round(statistics.median(took[FIRST : FIRST + SPAN]) * 1e6, 1),
        "insert_last_us": round(statistics.median(took[-SPAN:]) * 1e6, 1),
        "insert_bytes": round((counters.write_bytes - written) / parts),
        "insert_syncs": round((counters.syncs - syncs) / parts, 2),
    }


def opened(folder: Path) -> tuple[float, float]:
    """Milliseconds, and those of CPU time, in a process of its own."""
    command = [sys.executable, "-c", OPENS, str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    wall, cpu = (float(each) * 1e3 for each in done.stdout.split())
    return wall, cpu


def measure(root: Path, parts: int, rounds: int) -> dict[str, Any]:
    folders = {"empty": root / "empty", "many": root / "many"}
    for folder in folders.values():
        motet.open(folder).close()
    inserts = asyncio.run(fill(folders["many"], parts))
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in folders}
    for _ in range(rounds):  # in turns, so that a noisy moment hits both
        for name, folder in folders.items():
            found[name].append(opened(folder))
    cpu = {name: statistics.median(each[1] for each in runs) for name, runs in found.items()}
    wall = {name: statistics.median(each[0] for each in runs) for name, runs in found.items()}
    return {
        "bench": "folder_keeper",
        "parts": parts,
        **inserts,
        "insert_growth": round(inserts["insert_last_us"] / inserts["insert_first_us"], 2),
        **{f"{name}_ms": round(each, 1) for name, each in wall.items()},
        **{f"{name}_cpu_ms": round(each, 1) for name, each in cpu.items()},
        "many_per_empty": round(cpu["many"] / cpu["empty"], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer parts and rounds")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument("--parts", type=int, help="how many, instead of ten thousand")
    options = parser.parse_args()
    parts = options.parts or (PARTS_QUICK if options.quick else PARTS)
    with tempfile.TemporaryDirectory(prefix="motet-bench-") as folder:
        figures = measure(Path(folder), parts, 3 if options.quick else 7)
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:<18} {value}")


if __name__ == "__main__":
    main()
