"""Inserts into replicated tables, against ClickHouse in the same run.

Ours are three nodes of this machine, and a table with two replicas, one shard and one partition, of which
both have a block before it is acknowledged (``quorum=2``); everything is synced first. ClickHouse has two
replicas and ``insert_quorum=2``, with three nodes of ZooKeeper; it does not sync its parts. Both run all the
time and are asked in turns by one client each, one block after the other. Rows have a 64-bit key, an integer,
a double, a string of 5,000 and a time; ours are Arrow, which the client encodes, those for ClickHouse are
encoded before.

100k       blocks of 100,000 rows: at least twice the rows a second of ClickHouse
1k         blocks of 1,000 rows: at least three times
writes     what the keeper commits for one insert, everything counted: at most five
growth     ten thousand small blocks into one table: the median of inserts 9,001 to 10,000 to that of 101 to
           1,100, on the cluster and in a folder, at most 1.25 (with --growth, or --growth cluster)
before     a folder with blocks of 1,000 rows: at least 0.8 of the rate of another checkout (with --before)

Needs ZooKeeper and ClickHouse (Debian: zookeeper, default-jre-headless, clickhouse-server); without them only
our figures are told.

    python bench/table_inserts.py [--quick] [--json] [--growth [WHERE]] [--before CHECKOUT]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import motet

if TYPE_CHECKING:
    from peers.clickhouse import ClickHouse

SIZES = {"100k": 100_000, "1k": 1_000}
COLUMNS = "k Int64, a Int64, x Float64, s String, t DateTime"
NAMES = [f"s{n:05d}" for n in range(5_000)]
REQUIRED = {"100k": 2.0, "1k": 3.0, "before": 0.8}
WRITES_MAX, GROWTH_MAX = 5.0, 1.25
SPAN, FIRST = 1_000, 100
GROWTH_ROWS = 100
Insert = Callable[[int], object]
"""Inserts the block of this number."""


def columns(rows: int, start: int) -> dict[str, Any]:
    dice = np.random.default_rng(start)
    key = np.arange(start, start + rows, dtype=np.int64)
    return {
        "k": key,
        "a": dice.integers(0, 1_000_000, rows),
        "x": dice.random(rows),
        "s": dice.integers(0, len(NAMES), rows),
        "t": 1_700_000_000 + key // 10,
    }


def arrow(rows: int, start: int) -> pa.Table:
    found = columns(rows, start)
    found["s"] = pa.array(NAMES).take(pa.array(found["s"]))
    found["t"] = pa.array(found["t"]).cast(pa.timestamp("s"))
    return pa.table(found)


def row_binary(rows: int, start: int) -> bytes:
    """The same as ClickHouse reads it fastest."""
    found = columns(rows, start)
    kinds = [("k", "<i8"), ("a", "<i8"), ("x", "<f8"), ("l", "u1"), ("s", "S6"), ("t", "<u4")]
    out = np.zeros(rows, np.dtype(kinds))
    out["l"], out["s"] = len(NAMES[0]), np.array(NAMES, dtype="S6")[found["s"]]
    for name in ("k", "a", "x", "t"):
        out[name] = found[name]
    return out.tobytes()


def timed(insert: Insert, blocks: int) -> list[float]:
    """Seconds of each insert, one after the other."""
    took = []
    for number in range(blocks):
        began = time.perf_counter()
        insert(number)
        took.append(time.perf_counter() - began)
    return took


def told(rows: int, took: list[float]) -> dict[str, float]:
    return {
        "rows_per_s": round(rows * len(took) / sum(took)),
        "p50_ms": round(1e3 * statistics.median(took), 2),
        "p90_ms": round(1e3 * sorted(took)[len(took) * 9 // 10], 2),
    }


# Ours


class Ours:
    """A cluster with a table, and a client."""

    def __init__(self, folder: Path, opened: ExitStack) -> None:
        from motet.testing.local_cluster import LocalCluster

        quiet = {"MOTET_LOG__LEVEL": "warning"}
        self.cluster = opened.enter_context(LocalCluster(3, folder, environment=quiet))
        self.db = opened.enter_context(motet.connect(self.cluster.endpoints))

    def table(self, name: str) -> Any:
        return self.db.create_table(name, arrow(1, 0).schema, ["k"], replicas=2)

    def processor_s(self) -> float:
        """CPU time of the nodes so far."""
        ticks = 0
        for i in range(len(self.cluster)):
            stat = Path(f"/proc/{self.cluster.pid(i)}/stat").read_text()
            ticks += sum(map(int, stat.rpartition(")")[2].split()[11:13]))
        return ticks / os.sysconf("SC_CLK_TCK")


def keeper_writes(publications: list[Any]) -> float:
    """Changes of the keeper for each insert but the first: whatever anybody had it commit meanwhile."""
    first, last = publications[0].version, publications[-1].version
    return float(last.zxid - first.zxid) / (len(publications) - 1)


def round_of_ours(ours: Ours, table: Any, size: int, blocks: int, start: int) -> dict[str, float]:
    data = [arrow(size, start + n * size) for n in range(blocks)]
    done: list[Any] = []
    cpu, own_cpu = ours.processor_s(), time.process_time()
    took = timed(lambda n: done.append(table.insert(data[n], quorum=2)), blocks)
    return {
        **told(size, took),
        "keeper_writes": round(keeper_writes(done), 2),
        "nodes_cpu_ms": round((ours.processor_s() - cpu) / blocks * 1e3, 1),
        "client_cpu_ms": round((time.process_time() - own_cpu) / blocks * 1e3, 1),
    }


def round_of_peer(peer: ClickHouse, size: int, blocks: int, start: int) -> dict[str, float]:
    data = [row_binary(size, start + n * size) for n in range(blocks)]
    return told(size, timed(lambda n: peer.insert("t", data[n]), blocks))


# Rounds


def measure(folder: Path, blocks: dict[str, int], rounds: int) -> dict[str, Any]:
    """Both in turns; every round is told."""
    from peers import clickhouse, zookeeper

    figures: dict[str, Any] = {"motet": {}, "clickhouse": None, "ratios": {}}
    with ExitStack() as opened:
        peer = None
        if zookeeper.is_there() and clickhouse.is_there():
            keepers = zookeeper.ZooKeeper(folder / "zookeeper")
            opened.callback(keepers.stop)
            peer = clickhouse.ClickHouse(folder / "clickhouse", keepers.client_ports)
            opened.callback(peer.stop)
            peer.create("t", COLUMNS, "k")
            figures["clickhouse"] = {}
        ours = Ours(folder / "motet", opened)
        table = ours.table("t")
        start = 0
        for name, size in SIZES.items():
            table.insert(arrow(size, 0), quorum=2)  # what is loaded when it is used first
            own, other = [], []
            for _ in range(rounds):
                own.append(round_of_ours(ours, table, size, blocks[name], start))
                if peer is not None:
                    other.append(round_of_peer(peer, size, blocks[name], start))
                start += size * blocks[name]
            figures["motet"][name] = own
            if peer is not None:
                figures["clickhouse"][name] = other
                pairs = zip(own, other, strict=True)
                figures["ratios"][name] = [
                    round(a["rows_per_s"] / b["rows_per_s"], 2) for a, b in pairs
                ]
    return figures


# Growth


def spans(took: list[float]) -> dict[str, float]:
    """The medians of the first and of the last inserts."""
    early = 1e3 * statistics.median(took[FIRST : FIRST + SPAN])
    late = 1e3 * statistics.median(took[-SPAN:])
    return {
        "inserts": len(took),
        "first_ms": round(early, 3),
        "last_ms": round(late, 3),
        "growth": round(late / early, 3),
    }


def growth(folder: Path, where: str, inserts: int) -> dict[str, float]:
    with ExitStack() as opened:
        if where == "cluster":
            table, quorum = Ours(folder, opened).table("t"), 2
        else:
            db = opened.enter_context(motet.open(folder))
            table, quorum = db.create_table("t", arrow(1, 0).schema, ["k"]), 1
        data = arrow(GROWTH_ROWS, 0)
        return spans(timed(lambda _: table.insert(data, quorum=quorum), inserts))


# Before


def in_folder(folder: Path, inserts: int) -> dict[str, float]:
    """Blocks of a thousand rows into a folder; runs with older checkouts, too."""
    size = SIZES["1k"]
    data = [arrow(size, n * size) for n in range(inserts)]
    with motet.open(folder) as db:
        table = db.create_table("t", data[0].schema, ["k"])
        timed(lambda n: table.insert(data[n]), 10)
        cpu = time.process_time()
        took = timed(lambda n: table.insert(data[n]), inserts)
        cpu = time.process_time() - cpu
    return {**told(size, took), "cpu_ms": round(cpu / inserts * 1e3, 2)}


def compared(folder: Path, before: Path | None, inserts: int, rounds: int) -> dict[str, Any]:
    """A folder by this checkout and by the other one, in turns."""
    checkouts = {"embedded": Path(__file__).parents[1]}
    if before is not None:
        checkouts["before"] = before
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in checkouts}
    for number in range(rounds):
        for name, checkout in checkouts.items():
            own = folder / f"{name}-{number}"
            command = [sys.executable, __file__, "--folder", str(own), str(inserts)]
            environment = os.environ | {"PYTHONPATH": str((checkout / "src").resolve())}
            done = subprocess.run(
                command, env=environment, check=True, capture_output=True, text=True
            )
            runs[name].append(json.loads(done.stdout))
    return runs


def judge(figures: dict[str, Any]) -> dict[str, Any]:
    """The median ratios, and whether each is what is required."""
    ratios = {name: statistics.median(each) for name, each in figures["ratios"].items()}
    if "before" in figures:
        pairs = zip(figures["embedded"], figures["before"], strict=True)
        ratios["before"] = statistics.median(a["rows_per_s"] / b["rows_per_s"] for a, b in pairs)
    is_ok = all(ratio >= REQUIRED[name] for name, ratio in ratios.items())
    writes = {
        name: statistics.median(each["keeper_writes"] for each in rounds)
        for name, rounds in figures.get("motet", {}).items()
    }
    grown = {where: each["growth"] for where, each in figures.get("growth", {}).items()}
    is_ok = is_ok and all(each <= WRITES_MAX for each in writes.values())
    is_ok = is_ok and all(each <= GROWTH_MAX for each in grown.values())
    ratios = {name: round(ratio, 2) for name, ratio in ratios.items()}
    return {**figures, "ratios": ratios, "writes": writes, "grown": grown, "ok": is_ok}


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    quick = options.quick
    blocks = {"100k": 8 if quick else 20, "1k": 40 if quick else 100}
    figures: dict[str, Any] = {"bench": "table_inserts", "load": os.getloadavg()[0], "ratios": {}}
    if "peer" not in options.skip:
        figures |= measure(folder / "peer", blocks, 3 if quick else 5)
    if "embedded" not in options.skip:
        inserts, rounds = (100, 3) if quick else (300, 5)
        figures |= compared(folder, options.before, inserts, rounds)
    inserts = 3_000 if quick else 10_000
    if options.growth is not None:
        places = ("embedded", "cluster") if options.growth == "both" else (options.growth,)
        figures["growth"] = {
            each: growth(folder / f"growth-{each}", each, inserts) for each in places
        }
    return judge({**figures, "load_after": os.getloadavg()[0]})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer blocks and rounds")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument(
        "--growth", nargs="?", const="both", choices=("both", "cluster", "embedded")
    )
    parser.add_argument("--before", type=Path, help="a checkout to compare with, embedded")
    parser.add_argument("--skip", action="append", default=[], choices=("peer", "embedded"))
    parser.add_argument("--folder", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder is not None:
        print(json.dumps(in_folder(Path(options.folder[0]), int(options.folder[1]))))
        return 0
    with tempfile.TemporaryDirectory(prefix="motet-bench-") as folder:
        figures = run(options, Path(folder))
    if options.json:
        print(json.dumps(figures))
        return 0 if figures["ok"] else 1
    for who in ("clickhouse", "motet"):
        for case, rounds in (figures.get(who) or {}).items():
            for each in rounds:
                print(f"{who:>10} {case:>4}  " + "  ".join(f"{k} {v}" for k, v in each.items()))
        if figures.get(who, {}) is None:
            print(f"{who:>10} is not installed: nothing to compare with")
    for who in ("before", "embedded"):
        for each in figures.get(who, ()):
            print(f"{who:>10}   1k  " + "  ".join(f"{k} {v}" for k, v in each.items()))
    for where, each in figures.get("growth", {}).items():
        print(f"{where:>10} grows " + "  ".join(f"{k} {v}" for k, v in each.items()))
    print(f"ratios {figures['ratios']}, required {REQUIRED}; keeper writes {figures['writes']}")
    print(f"load {figures['load']:.1f} to {figures['load_after']:.1f}")
    return 0 if figures["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
