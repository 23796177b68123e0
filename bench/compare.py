"""Two checkouts, the same benches, in turn: what a change has cost.

Each bench of this checkout is run with the code of the one and of the other, in pairs, the first of a pair
alternating, so that a noisy minute hits both. Printed are the medians over the pairs of other / base: of the
CPU time of the whole run with all its processes, of its wall time, and of every figure that the bench prints
with ``--json``. Below 1 a time has become shorter, and a rate lower. Most benches run for a fixed time: for
those the figures say something (``cpu_us`` above all), and the CPU time of the run does not.

    python bench/compare.py BASE OTHER NAME... [--pairs K] [--full] [--json]
    python bench/compare.py ../base . clock_ticks opening --pairs 5
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def run(checkout: Path, name: str, arguments: list[str]) -> dict[str, float]:
    """The figures of one run of a bench of ours with the code of a checkout."""
    command = [sys.executable, str(HERE / f"{name}.py"), "--json", *arguments]
    began = time.perf_counter()
    with subprocess.Popen(
        command, env=environment(checkout), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        told = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    lines = [line for line in told.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"{name} with {checkout}: exit code {process.returncode}, no figures")
    return {
        "run cpu_s": used.ru_utime + used.ru_stime,
        "run wall_s": time.perf_counter() - began,
        **dict(figures("", json.loads(lines[-1]))),
    }


def environment(checkout: Path) -> dict[str, str]:
    """The code of this checkout comes first, here and in every process that a bench starts."""
    return os.environ | {"PYTHONPATH": str((checkout / "src").resolve())}


def figures(path: str, value: Any) -> Iterator[tuple[str, float]]:
    """Every number of a document under its path; of several rounds the median."""
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield path, float(value)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from figures(f"{path}.{key}".lstrip("."), each)
    elif isinstance(value, list) and value:
        rounds = [dict(figures(path, each)) for each in value]
        for key in rounds[0]:
            yield key, statistics.median(each[key] for each in rounds if key in each)


def check(checkout: Path) -> None:
    """That it is its own code that would be measured."""
    found = subprocess.run(
        [sys.executable, "-c", "import motet; print(motet.__file__)"],
        env=environment(checkout),
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    if not found or not Path(found).is_relative_to((checkout / "src").resolve()):
        raise SystemExit(f"{checkout} is no checkout: motet comes from {found or 'nowhere'}")


def compare(
    base: Path, other: Path, name: str, pairs: int, arguments: list[str]
) -> dict[str, dict[str, float]]:
    """Of each figure: its medians, and the median of the ratios of the pairs."""
    runs: dict[Path, list[dict[str, float]]] = {base: [], other: []}
    for number in range(pairs):
        for checkout in (base, other) if number % 2 == 0 else (other, base):
            runs[checkout].append(run(checkout, name, arguments))
            print(f"{name}: {checkout}, pair {number + 1} of {pairs}", file=sys.stderr)
    rows = {}
    for key in runs[base][0]:
        pair = [
            (before[key], after[key])
            for before, after in zip(runs[base], runs[other], strict=True)
            if before.get(key) and key in after
        ]
        if pair:
            rows[key] = {
                "base": statistics.median(before for before, _ in pair),
                "other": statistics.median(after for _, after in pair),
                "ratio": statistics.median(after / before for before, after in pair),
            }
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("base", type=Path, help="a checkout: what to compare with")
    parser.add_argument("other", type=Path, help="another checkout, with the change")
    parser.add_argument("names", nargs="+", help="benches, as ./dev bench --list names them")
    parser.add_argument("--pairs", type=int, default=5, help="how often each is run with each (5)")
    parser.add_argument("--full", action="store_true", help="without --quick")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    options = parser.parse_args()
    for checkout in (options.base, options.other):
        check(checkout)
    arguments = [] if options.full else ["--quick"]
    told = {
        name: compare(options.base, options.other, name, options.pairs, arguments)
        for name in options.names
    }
    if options.json:
        print(json.dumps({"bench": "compare", "pairs": options.pairs, "results": told}))
        return
    for name, rows in told.items():
        title = f"{name}, pairs: {options.pairs}"
        print(f"{title:<40} {'base':>12} {'other':>12} {'other/base':>10}")
        for key, row in rows.items():
            print(f"  {key:<38} {row['base']:>12.4g} {row['other']:>12.4g} {row['ratio']:>10.3f}")


if __name__ == "__main__":
    main()
