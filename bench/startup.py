"""How long `import motet` and `motet --help` take, beside the bare interpreter in the same run.

The figures to keep: `import motet` under 150 ms, `motet --help` under 300 ms, both as whole processes.

    python bench/startup.py [--quick] [--json]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time

COMMANDS = {
    "python_pass_ms": ([sys.executable, "-c", "pass"], None),
    "import_motet_ms": ([sys.executable, "-c", "import motet"], 150),
    "motet_help_ms": ([sys.executable, "-m", "motet", "--help"], 300),
    "motet_version_ms": ([sys.executable, "-m", "motet", "--version"], 300),
}


def once_ms(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return (time.perf_counter() - began) * 1_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rounds = 5 if options.quick else 15
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):  # in turns, so that a noisy moment hits all of them
        for name, (command, _limit) in COMMANDS.items():
            times[name].append(once_ms(command))
    figures = {name: sorted(found)[len(found) // 2] for name, found in times.items()}
    if options.json:
        print(json.dumps({"bench": "startup", **figures}))
        return
    for name, (_command, limit) in COMMANDS.items():
        required = f"at most {limit} ms" if limit else ""
        print(f"{name:<20} {figures[name]:>8.1f}   {required}")


if __name__ == "__main__":
    main()
