"""Transactions per second of the embedded database, against SQLite in the same run.

Both insert the same row durably: SQLite in WAL mode with synchronous=FULL, one row per transaction; ours with
one change per transaction, one at a time and 64 in flight (as coroutines of one client). SQLite has one
writer at a time, so 64 in flight do not help it: what it commits alone is what it commits at all.

``hot_64`` is 64 in flight that all change one key, beside 64 in flight on keys of their own: ``ratio_hot`` is
its rate as a part of that, and ``cpu_us`` what this process uses for one transaction of each kind.

    python bench/embedded_transactions.py [--quick] [--json]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import tempfile
import time
from pathlib import Path

import motet.aio

ROW = {"sku": "s-9", "qty": 2, "note": "x" * 64}
RATIO_REQUIRED = 1.0


def sqlite_rate(folder: Path, seconds: float) -> float:
    connection = sqlite3.connect(folder / "sqlite.db", isolation_level=None)
    connection.execute("pragma journal_mode=wal")
    connection.execute("pragma synchronous=full")
    connection.execute("create table if not exists orders (key text, row text)")
    row, count = json.dumps(ROW), 0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        connection.execute("insert into orders values (?, ?)", (f"o-{count}", row))
        count += 1
    rate = count / (time.perf_counter() - began)
    connection.close()
    return rate


async def motet_rate(
    folder: Path, in_flight: int, seconds: float, hot_key: str | None = None
) -> tuple[float, float]:
    """Transactions per second, and CPU microseconds of this process for each."""
    async with await motet.aio.open(folder / f"motet-{in_flight}-{hot_key}") as db:
        await db.create_stream("orders")
        counts = [0] * in_flight
        began, cpu_before = time.perf_counter(), time.process_time()

        async def work(worker: int) -> None:
            while time.perf_counter() - began < seconds:
                async with db.transaction() as txn:
                    if hot_key is None:
                        key = f"o-{worker}-{counts[worker]}"
                        txn.change("orders", key=key, op="insert", row=ROW)
                    else:
                        txn.change("orders", key=hot_key, op="update", row=ROW)
                counts[worker] += 1

        await asyncio.gather(*(work(worker) for worker in range(in_flight)))
        cpu = time.process_time() - cpu_before
        return sum(counts) / (time.perf_counter() - began), cpu / sum(counts) * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    options = parser.parse_args()
    rounds, seconds = (2, 0.5) if options.quick else (4, 1.5)
    cases = {"motet_1": (1, None), "motet_64": (64, None), "hot_64": (64, "hot")}
    rates: dict[str, list[float]] = {name: [] for name in ("sqlite", *cases)}
    costs: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):  # in turns, so that a noisy moment hits all of them
        with tempfile.TemporaryDirectory(prefix="motet-bench-") as name:
            folder = Path(name)
            rates["sqlite"].append(sqlite_rate(folder, seconds))
            for name_of_case, (in_flight, key) in cases.items():
                rate, cpu_us = asyncio.run(motet_rate(folder, in_flight, seconds, key))
                rates[name_of_case].append(rate)
                costs[name_of_case].append(cpu_us)
    figures = {name: sorted(found)[len(found) // 2] for name, found in rates.items()}
    cpu = {name: round(sorted(found)[len(found) // 2], 1) for name, found in costs.items()}
    ratios = {
        "ratio_1": figures["motet_1"] / figures["sqlite"],
        "ratio_64": figures["motet_64"] / figures["sqlite"],
        "ratio_hot": figures["hot_64"] / figures["motet_64"],
    }
    ok = ratios["ratio_64"] >= RATIO_REQUIRED
    if options.json:
        told = {"bench": "embedded_transactions", **figures, "cpu_us": cpu, **ratios, "ok": ok}
        print(json.dumps(told))
        return
    for label, rate in figures.items():
        each = f"{cpu[label]:>10,.1f} us CPU each" if label in cpu else ""
        print(f"{label:<10} {rate:>10,.0f} transactions/s {each}")
    print(f"at 64 in flight {ratios['ratio_64']:.2f} of SQLite, {RATIO_REQUIRED} required")
    print(f"all on one key {ratios['ratio_hot']:.2f} of that on keys of their own")


if __name__ == "__main__":
    main()
