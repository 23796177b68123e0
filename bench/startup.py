"""How long `import motet` and `motet --help` take, beside the bare interpreter in the same run.

The figures to keep: `import motet` under 150 ms, `motet --help` under 300 ms, both as whole processes. On a
busy machine the CPU time says more, and its ratio to that of the bare interpreter.

    python bench/startup.py [--quick] [--json]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

COMMANDS = {
    "python_pass_ms": ([sys.executable, "-c", "pass"], None),
    "import_motet_ms": ([sys.executable, "-c", "import motet"], 150),
    "motet_help_ms": ([sys.executable, "-m", "motet", "--help"], 300),
    "motet_version_ms": ([sys.executable, "-m", "motet", "--version"], 300),
}


def once_ms(command: list[str]) -> tuple[float, float]:
    """How long it took, and its CPU time."""
    before, began = children_cpu_s(), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return (time.perf_counter() - began) * 1e3, (children_cpu_s() - before) * 1e3


def children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", action="store_true", help="one line of JSON")
    options = parser.parse_args()
    rounds = 5 if options.quick else 15
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    cpus: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):  # in turns, so that a noisy moment hits all of them
        for name, (command, _limit) in COMMANDS.items():
            took_ms, cpu_ms = once_ms(command)
            times[name].append(took_ms)
            cpus[name].append(cpu_ms)
    figures = {name: sorted(found)[len(found) // 2] for name, found in times.items()}
    cpu = {name: round(sum(found) / len(found), 1) for name, found in cpus.items()}
    ratios = {name: round(each / cpu["python_pass_ms"], 2) for name, each in cpu.items()}
    if options.json:
        print(json.dumps({"bench": "startup", **figures, "cpu_ms": cpu, "of_bare": ratios}))
        return
    for name, (_command, limit) in COMMANDS.items():
        required = f"at most {limit} ms" if limit else ""
        used = f"{cpu[name]:>7.1f} ms CPU, {ratios[name]:>5.2f} of bare"
        print(f"{name:<20} {figures[name]:>8.1f} {used}   {required}")


if __name__ == "__main__":
    main()
