"""How long it takes to open a database in a folder: a new one, an empty one, one of a million changes, and
one of ten thousand parts of a table.

Each is opened and closed in a process of its own, as a program that starts does it; the time and the CPU time
are those of ``motet.open`` and ``close``, with what these import. ``import motet`` is shown beside; as a
whole process beside the bare interpreter it is in ``startup``. A disk and a busy machine have good and bad
minutes, so what is to be kept are ratios of CPU time within one run:

many_per_read   a million changes, against reading the same files and taking a checksum of them
many_per_empty  the same, against the empty folder: what each change costs
parts_per_empty ten thousand parts, against the empty folder
plan_per_empty  the same, and all of them are listed before it is closed, with what that imports

    python bench/opening.py [--quick] [--json] [--changes N] [--parts N]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

import motet
import motet.aio

ROW = {"sku": "s-9", "qty": 2, "note": "x" * 64}
CHANGES, CHANGES_QUICK = 1_000_000, 100_000
PARTS, PARTS_QUICK = 10_000, 1_000
AT_ONCE = 32
SALES = pa.schema([("sku", pa.string()), ("qty", pa.int64())])
PER_TRANSACTION = 1_000
OPENS = """
import sys, time
began, cpu = time.perf_counter(), time.process_time()
import motet
imported, imported_cpu = time.perf_counter(), time.process_time()
motet.open(sys.argv[1]).close()
done, done_cpu = time.perf_counter(), time.process_time()
print(imported - began, imported_cpu - cpu, done - imported, done_cpu - imported_cpu)
"""
PLANS = OPENS.replace(
    "motet.open(sys.argv[1]).close()",
    'with motet.open(sys.argv[1]) as db: db.table("sales").snapshot()',
)
READS = """
import pathlib, sys, time, zlib
began, cpu = time.perf_counter(), time.process_time()
total = 0
for file in sorted(pathlib.Path(sys.argv[1]).rglob("*")):
    if file.is_file():
        total += len(data := file.read_bytes())
        zlib.crc32(data)
print(0, 0, time.perf_counter() - began, time.process_time() - cpu)
"""


def fill(folder: Path, changes: int) -> None:
    with motet.open(folder) as db:
        db.create_stream("orders")
        for first in range(0, changes, PER_TRANSACTION):
            with db.transaction() as txn:
                for number in range(first, min(first + PER_TRANSACTION, changes)):
                    txn.change("orders", key=f"o-{number}", op="insert", row=ROW)


async def fill_table(folder: Path, parts: int) -> None:
    """Rows come one at a time, and each makes a part."""
    async with motet.aio.open(folder) as db:
        table = await db.create_table("sales", SALES, order_by=["sku"])
        numbers = iter(range(parts))

        async def insert() -> None:
            for number in numbers:
                await table.insert([{"sku": f"s-{number}", "qty": 1}])

        await asyncio.gather(*(insert() for _ in range(AT_ONCE)))


def timed(script: str, folder: Path) -> dict[str, float]:
    """Milliseconds of one run in a process of its own."""
    command = [sys.executable, "-c", script, str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    names = ("import_ms", "import_cpu_ms", "ms", "cpu_ms")
    return dict(zip(names, (float(each) * 1e3 for each in done.stdout.split()), strict=True))


def measure(root: Path, changes: int, parts: int, rounds: int) -> dict[str, Any]:
    empty, many, sales = root / "empty", root / "many", root / "sales"
    fill(empty, 0)
    fill(many, changes)
    asyncio.run(fill_table(sales, parts))
    found: dict[str, list[dict[str, float]]] = {}
    for number in range(rounds):  # in turns, so that a noisy moment hits all of them
        cases = {
            "new": (OPENS, root / f"new-{number}"),
            "empty": (OPENS, empty),
            "many": (OPENS, many),
            "read": (READS, many),
            "parts": (OPENS, sales),
            "plan": (PLANS, sales),
        }
        for name, (script, folder) in cases.items():
            found.setdefault(name, []).append(timed(script, folder))
    middle = {
        name: {key: round(statistics.median(each[key] for each in runs), 2) for key in runs[0]}
        for name, runs in found.items()
    }
    imports = {key: middle["empty"][key] for key in ("import_ms", "import_cpu_ms")}
    opened = {name: {key: told[key] for key in ("ms", "cpu_ms")} for name, told in middle.items()}
    cpu = {name: told["cpu_ms"] for name, told in opened.items()}
    return {
        "bench": "opening",
        "changes": changes,
        "table_parts": parts,
        "bytes": sum(file.stat().st_size for file in many.rglob("*") if file.is_file()),
        **imports,
        **opened,
        "many_per_read": round(cpu["many"] / cpu["read"], 2),
        "many_per_empty": round(cpu["many"] / cpu["empty"], 2),
        "parts_per_empty": round(cpu["parts"] / cpu["empty"], 2),
        "plan_per_empty": round(cpu["plan"] / cpu["empty"], 2),
        "us_per_part": round((cpu["parts"] - cpu["empty"]) / parts * 1e3, 3),
        "us_per_change": round((cpu["many"] - cpu["empty"]) / changes * 1e3, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a tenth of the changes, fewer rounds")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument("--changes", type=int, help="how many, instead of a million")
    parser.add_argument("--parts", type=int, help="how many, instead of ten thousand")
    options = parser.parse_args()
    parts = options.parts or (PARTS_QUICK if options.quick else PARTS)
    changes = options.changes or (CHANGES_QUICK if options.quick else CHANGES)
    with tempfile.TemporaryDirectory(prefix="motet-bench-") as folder:
        figures = measure(Path(folder), changes, parts, 3 if options.quick else 5)
    if options.json:
        print(json.dumps(figures))
        return
    print(f"import motet {figures['import_ms']:.0f} ms, {figures['import_cpu_ms']:.0f} ms CPU")
    for name in ("new", "empty", "many", "read", "parts", "plan"):
        print(f"{name:<6} {figures[name]['ms']:>9.1f} ms {figures[name]['cpu_ms']:>9.1f} ms CPU")
    print(f"{changes:,} changes in {figures['bytes'] / 1e6:,.0f} MB: opened for")
    print(f"{figures['many_per_read']} of reading the files with a checksum")
    print(
        f"{figures['many_per_empty']} of the empty folder, {figures['us_per_change']} us a change"
    )
    print(
        f"{parts:,} parts: {figures['parts_per_empty']} of the empty folder,"
        f" {figures['us_per_part']} us a part; {figures['plan_per_empty']} with a list of them"
    )


if __name__ == "__main__":
    main()
