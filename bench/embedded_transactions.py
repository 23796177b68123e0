"""Transactions per second of the embedded database, against SQLite in the same run.

Both insert the same row durably: SQLite in WAL mode with synchronous=FULL, one row per transaction; ours with
one change per transaction, one at a time and 64 in flight (as coroutines of one client). SQLite has one
writer at a time, so 64 in flight do not help it: what it commits alone is what it commits at all.

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


async def motet_rate(folder: Path, in_flight: int, seconds: float) -> float:
    async with await motet.aio.open(folder / f"motet-{in_flight}") as db:
        await db.create_stream("orders")
        counts = [0] * in_flight
        began = time.perf_counter()

        async def work(worker: int) -> None:
            while time.perf_counter() - began < seconds:
                async with db.transaction() as txn:
                    key = f"o-{worker}-{counts[worker]}"
                    txn.change("orders", key=key, op="insert", row=ROW)
                counts[worker] += 1

        await asyncio.gather(*(work(worker) for worker in range(in_flight)))
        return sum(counts) / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rounds, seconds = (2, 0.5) if options.quick else (4, 1.5)
    rates: dict[str, list[float]] = {"sqlite": [], "motet_1": [], "motet_64": []}
    for _ in range(rounds):  # in turns, so that a noisy moment hits all of them
        with tempfile.TemporaryDirectory(prefix="motet-bench-") as name:
            folder = Path(name)
            rates["sqlite"].append(sqlite_rate(folder, seconds))
            rates["motet_1"].append(asyncio.run(motet_rate(folder, 1, seconds)))
            rates["motet_64"].append(asyncio.run(motet_rate(folder, 64, seconds)))
    figures = {name: sorted(found)[len(found) // 2] for name, found in rates.items()}
    ratios = {
        "ratio_1": figures["motet_1"] / figures["sqlite"],
        "ratio_64": figures["motet_64"] / figures["sqlite"],
    }
    ok = ratios["ratio_64"] >= RATIO_REQUIRED
    if options.json:
        print(json.dumps({"bench": "embedded_transactions", **figures, **ratios, "ok": ok}))
        return
    for label, rate in figures.items():
        print(f"{label:<10} {rate:>10,.0f} transactions/s")
    print(f"at 64 in flight {ratios['ratio_64']:.2f} of SQLite, {RATIO_REQUIRED} required")


if __name__ == "__main__":
    main()
