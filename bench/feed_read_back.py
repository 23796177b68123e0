"""Reading a long feed back: as Arrow, as Python objects, and a page from its middle.

A cluster of three nodes has a stream of JSON rows in two shards, written by transactions of many changes, and
beside it smaller streams: of one change per transaction, with a schema, and of transactions over both shards
of a stream. One client reads them in pages of any replica.

arrow     page.to_arrow() of all pages: at least 300,000 changes for each second of the reading process's
          CPU; ``with_nodes`` counts the CPU of the nodes as well, ``rate`` is by the clock on the wall
objects   key, op and row of every change, in Python: at least 80,000
pages     a page in the middle, by a client that has read nothing before, takes at most 1.5 times as long
          as a page at the end

    python bench/feed_read_back.py [--quick] [--json] [--changes N]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

import motet.aio
from motet.core.clock.hlc import Clock
from motet.limits import page_changes_max
from motet.node.config import ROLES
from motet.real.process import run as run_loop
from motet.testing.local_cluster import LocalCluster

SCHEMA = pa.schema([("sku", pa.string()), ("qty", pa.int64()), ("note", pa.string())])
ROW = {"sku": "s-9", "qty": 2, "note": "x" * 32}
REQUIRED = {"arrow": 300_000, "objects": 80_000, "pages": 1 / 1.5}
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
PAGES = 30
LANES = 16
SHARED = 1_000_000


class Kind(msgspec.Struct, frozen=True):
    """A stream, and how it is written."""

    name: str
    together: int
    #: of the changes of the longest stream, or of a million of them
    share: float = 1.0
    schema: pa.Schema | None = None
    is_spread: bool = False


KINDS = (
    Kind("long", 100),
    Kind("single", 1, 0.01),
    Kind("typed", 100, 0.1, SCHEMA),
    Kind("spread", 10, 0.05, is_spread=True),
)


async def fill(endpoints: str, kind: Kind, changes: int) -> list[Clock]:
    """Write a stream; the clocks of some of its transactions, as they rose."""
    clocks: list[Clock] = []
    left = changes // kind.together
    async with await motet.aio.connect(endpoints) as db:
        await db.create_stream(kind.name, schema=kind.schema, shards=2)

        async def lane(number: int) -> None:
            nonlocal left
            while left > 0:
                left -= 1
                async with db.transaction() as txn:
                    for place in range(kind.together):
                        wanted = place % 2 if kind.is_spread else number % 2
                        row = {**ROW, "qty": place}
                        txn.change(
                            kind.name,
                            by_shard[wanted][number * kind.together + place],
                            "update",
                            row=row,
                        )
                assert txn.clock is not None
                clocks.append(txn.clock)

        by_shard = keys_by_shard(LANES * kind.together)
        await asyncio.gather(*(lane(number) for number in range(LANES)))
        await db.visible_clock(kind.name, wait=True)
    return sorted(clocks)


def keys_by_shard(count: int) -> list[list[str]]:
    """Keys of each of two shards."""
    from motet.core.metadata.definitions import shard_of

    found: list[list[str]] = [[], []]
    number = 0
    while min(map(len, found)) < count:
        key = f"order-{number}"
        found[shard_of(key.encode(), 2)].append(key)
        number += 1
    return found


def cpu_seconds(pids: list[int]) -> float:
    """What these processes have used up to now."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS_PER_SECOND


async def read(
    endpoints: str, name: str, pids: list[int], *, as_arrow: bool, most: int
) -> dict[str, Any]:
    """All of a stream, or so many changes of it."""
    count, after, more = 0, None, True
    async with await motet.aio.connect(endpoints) as db:
        began, own, nodes = time.perf_counter(), time.process_time(), cpu_seconds(pids)
        while more and count < most:
            page = await db.changes(name, after=after, limit=page_changes_max)
            after, more = page.cursor, page.more
            if as_arrow:
                count += page.to_arrow().num_rows
            else:
                for change in page.changes:
                    count += change.key != b"" and change.op == "update" and "sku" in change.row
        seconds, own = time.perf_counter() - began, time.process_time() - own
        nodes = cpu_seconds(pids) - nodes
    return {
        "changes": count,
        "rate": round(count / seconds),
        "per_core": round(count / own),
        "with_nodes": round(count / (own + nodes)),
    }


async def pages(endpoints: str, name: str, clocks: list[Clock]) -> dict[str, Any]:
    """Pages of a thousand changes from the middle and from the end, in turns, each by a new client."""
    took: dict[str, list[float]] = {"middle": [], "end": []}
    reach = max(len(clocks) // 20, 1)
    for number in range(PAGES):
        step = reach * number // PAGES
        places = {"middle": len(clocks) // 2 + step, "end": len(clocks) - 1 - reach + step // 2}
        for where, place in places.items():
            async with await motet.aio.connect(endpoints) as db:
                await db.visible_clock(name)  # the way to its nodes is not what is measured
                began = time.perf_counter()
                page = await db.changes(name, after=clocks[place], limit=1000)
                took[where].append(time.perf_counter() - began)
                assert len(page) > 0
    return {f"{where}_ms": round(statistics.median(each) * 1e3, 2) for where, each in took.items()}


def measure(folder: Path, changes: int) -> dict[str, Any]:
    quiet = {"MOTET_LOG__LEVEL": "warning"}
    figures: dict[str, Any] = {"bench": "feed_read_back", "changes": changes}
    with LocalCluster(3, folder, roles=ROLES, environment=quiet) as cluster:
        pids = [cluster.pid(number) for number in range(3)]
        began = time.perf_counter()
        clocks = {}
        for kind in KINDS:
            count = changes if kind.share == 1.0 else int(min(changes, SHARED) * kind.share)
            clocks[kind.name] = run_loop(fill(cluster.endpoints, kind, count))
        figures["fill_seconds"] = round(time.perf_counter() - began, 1)
        few = max(changes // 10, min(changes, 100_000))
        for how, most in (("arrow", changes), ("objects", few)):
            figures[how] = {
                kind.name: run_loop(
                    read(cluster.endpoints, kind.name, pids, as_arrow=how == "arrow", most=most)
                )
                for kind in KINDS
            }
        figures["pages"] = run_loop(pages(cluster.endpoints, "long", clocks["long"]))
    return figures


def judge(figures: dict[str, Any]) -> dict[str, Any]:
    found = {
        "arrow": figures["arrow"]["long"]["per_core"],
        "objects": figures["objects"]["long"]["per_core"],
        "pages": figures["pages"]["end_ms"] / figures["pages"]["middle_ms"],
    }
    missed = [name for name, figure in found.items() if figure < REQUIRED[name]]
    return {**figures, "missed": missed, "ok": not missed}


def show(figures: dict[str, Any]) -> None:
    print(f"{figures['changes']} changes, written in {figures['fill_seconds']} s")
    for how in ("arrow", "objects"):
        for name, values in figures[how].items():
            print(f"{how:>8} {name:>8}  " + "  ".join(f"{k} {v:,}" for k, v in values.items()))
    print(f"   pages  {figures['pages']}")
    print(f"required {REQUIRED}, missed {figures['missed']}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a shorter feed")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument("--changes", type=int, help="of the longest stream")
    options = parser.parse_args()
    changes = options.changes or (300_000 if options.quick else 10_000_000)
    with tempfile.TemporaryDirectory(prefix="motet-bench-") as folder:
        figures = judge(measure(Path(folder), changes))
    if options.json:
        print(json.dumps(figures))
    else:
        show(figures)
    return 0 if figures["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
