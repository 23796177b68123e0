"""How fast the core of the shard log is explored: three nodes, two elections, by CPU time of one core.

    python bench/verify_core.py [--json]

What is required is 10,000 distinct states a second. The time is all of it: clones, steps, properties and
fingerprints, without the start of Python.
"""

from __future__ import annotations

import json
import sys

from motet.verify.explore import explore
from motet.verify.models import model_named

STATES_PER_SECOND_REQUIRED = 10_000
SIZE = {"nodes": 3, "values": 0, "epochs": 2}


def main() -> int:
    """Explore it once, and say how fast that was."""
    result = explore(model_named("shard-log-core", SIZE))
    assert result.verdict == "ok", result.property
    rate = int(result.distinct / result.cpu_seconds)
    if "--json" in sys.argv[1:]:
        print(json.dumps({"distinct": result.distinct, "states_per_second": rate}))
    else:
        print(f"{result.distinct:,} states, depth {result.depth}: {rate:,} states a CPU second")
    return 0 if rate >= STATES_PER_SECOND_REQUIRED else 1


if __name__ == "__main__":
    sys.exit(main())
