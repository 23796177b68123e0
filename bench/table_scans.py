"""SQL over a table in a folder, against bare DuckDB on the very same Parquet files, in one process.

Ten million rows lie in twenty parts, which this process has read once, so that each file has been compared
with its hash. Rounds alternate; of each query the median of the ratios has to be at most 1.3. A query of ours
plans at a version and gets a DuckDB of its own, which costs the same whatever the size: queries that read
next to nothing are told, and count for nothing (``range``, ``point``).

duckdb  a connection for each query, as ours has; what is required is said of this
kept    one connection for all: it remembers what it has read of the files

remote  the same through a client that has the files behind HTTP alone, by ranges; without a bound

    python bench/table_scans.py [--quick] [--json] [--rows N] [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pyarrow as pa

import motet
from table_inserts import arrow

ROWS, ROWS_QUICK, PARTS = 10_000_000, 2_000_000, 20
RATIO_MAX = 1.3
QUERIES = {
    "sum": "select count(*), sum(a), avg(x) from t",
    "filter": "select count(*), sum(x) from t where a < 1000",
    "group by s": "select s, count(*) c, sum(a) from t group by s order by c desc, s limit 10",
    "group by hour": "select date_trunc('hour', t) h, sum(a), max(x) from t group by h order by h",
    "top": "select k, x from t order by x desc, k limit 10",
    "range": "select sum(a), count(*) from t where k >= {middle} and k < {middle} + 100000",
    "point": "select k, a, x, s, t from t where k = {middle}",
}
TOLD_ALONE = ("range", "point")
Ask = Callable[[str], Any]


def fill(db: Any, rows: int) -> Any:
    size = rows // PARTS
    table = db.create_table("t", arrow(1, 0).schema, ["k"])
    for start in range(0, rows, size):
        table.insert(arrow(size, start))
    return table


def answers_of(found: Any) -> list[tuple[object, ...]]:
    """Rows, with what is a sum of doubles as rounded as its order needs."""
    rows = found.to_pylist() if isinstance(found, pa.Table) else found
    each = (tuple(row.values()) if isinstance(row, dict) else row for row in rows)
    return [tuple(round(v, 3) if isinstance(v, float) else v for v in row) for row in each]


def rounds_of(asks: dict[str, Ask], query: str, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each; all answers are the same."""
    took: dict[str, list[float]] = {name: [] for name in asks}
    for number in range(rounds + 1):
        answers = []
        for name, ask in asks.items():
            began = time.perf_counter()
            found = ask(query)
            seconds = time.perf_counter() - began
            answers.append(answers_of(found))
            if number:  # the first is to warm up
                took[name].append(1e3 * seconds)
        assert all(each == answers[0] for each in answers), f"answers differ: {query}"
    return took


def measure(folder: Path, rows: int, rounds: int, remote_rounds: int) -> dict[str, Any]:
    figures: dict[str, Any] = {"bench": "table_scans", "rows": rows, "load": os.getloadavg()[0]}
    with motet.open(folder) as db, duckdb.connect() as bare:
        began = time.perf_counter()
        fill(db, rows)
        figures["fill_rows_per_s"] = round(rows / (time.perf_counter() - began))
        files = [str(each) for each in folder.glob("parts/*/*/stored/*/part.parquet")]
        assert len(files) == PARTS
        view = f"create view t as select * from read_parquet({files})"
        bare.execute(view)
        asks: dict[str, Ask] = {
            "kept": lambda query: bare.sql(query).to_arrow_table(),
            "duckdb": lambda query: by_itself(view, query),
            "motet": db.sql,
        }
        figures["bytes"] = sum(Path(each).stat().st_size for each in files)
        began = time.perf_counter()
        db.sql("select count(*) from t where a < 0")
        figures["first_check_ms"] = round(1e3 * (time.perf_counter() - began), 1)
        queries = {name: query.format(middle=rows // 2) for name, query in QUERIES.items()}
        figures["queries"] = {
            name: told(rounds_of(asks, query, rounds)) for name, query in queries.items()
        }
        with (
            mock.patch("motet.client.table_files.parts_token", return_value=None),
            motet.connect(db.endpoint) as other,
        ):
            for name, query in queries.items():
                took = rounds_of({"remote": other.sql}, query, remote_rounds)["remote"]
                figures["queries"][name]["remote_ms"] = round(statistics.median(took), 1)
    figures["load_after"] = os.getloadavg()[0]
    return figures


def by_itself(view: str, query: str) -> pa.Table:
    """Bare DuckDB that knows nothing of the files yet."""
    with duckdb.connect() as connection:
        connection.execute(view)
        return connection.sql(query).to_arrow_table()


def told(took: dict[str, list[float]]) -> dict[str, float]:
    def ratio(other: str) -> float:
        pairs = zip(took["motet"], took[other], strict=True)
        return round(statistics.median(ours / bare for ours, bare in pairs), 2)

    medians = {f"{name}_ms": round(statistics.median(each), 1) for name, each in took.items()}
    return {**medians, "ratio": ratio("duckdb"), "ratio_to_kept": ratio("kept")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer rows and rounds")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    parser.add_argument("--rows", type=int, help="how many, instead of ten million")
    parser.add_argument("--rounds", type=int, help="how often each query is asked")
    options = parser.parse_args()
    rows = options.rows or (ROWS_QUICK if options.quick else ROWS)
    rounds = options.rounds or (5 if options.quick else 11)
    with tempfile.TemporaryDirectory(prefix="motet-bench-") as folder:
        figures = measure(Path(folder), rows // PARTS * PARTS, rounds, 1 if options.quick else 3)
    checked = {name: each for name, each in figures["queries"].items() if name not in TOLD_ALONE}
    figures["ok"] = all(each["ratio"] <= RATIO_MAX for each in checked.values())
    if options.json:
        print(json.dumps(figures))
        return 0 if figures["ok"] else 1
    for name, each in figures["queries"].items():
        print(f"{name:>14}  " + "  ".join(f"{k} {v}" for k, v in each.items()))
    others = {k: v for k, v in figures.items() if k != "queries"}
    print(f"{others}, ratios required {RATIO_MAX}")
    return 0 if figures["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
