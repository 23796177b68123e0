"""Spark's Python workers, which serve one use of the source after the other.

A worker looks through all its objects for garbage after each use: each task, each plan of a read. Nearly all
of them are modules, which stay, and looking takes longer than planning a read does. So what is there when
the first use begins, with everything imported, is set aside for good. What comes later is looked
through as ever.
"""

from __future__ import annotations

import gc
import sys

WORKERS_MAIN = "pyspark.daemon"


def settle_in() -> None:
    """Set aside what this process has imported, once, if it is a worker of Spark."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is not None and main.name == WORKERS_MAIN and not gc.get_freeze_count():
        gc.freeze()
