"""For a process whose working folder has a file ``slow-sync``: each sync takes as many seconds as it says.

Python imports this by itself when its folder is on the path: a node can have a slow disk without knowing.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

_SLOW = Path("slow-sync")


def _slowed(sync: Callable[[int], None]) -> Callable[[int], None]:
    def slow(fd: int) -> None:
        if _SLOW.exists():
            time.sleep(float(_SLOW.read_text()))
        sync(fd)

    return slow


setattr(os, "fdatasync", _slowed(os.fdatasync))  # noqa: B010 - the types say that it is fixed
setattr(os, "fsync", _slowed(os.fsync))  # noqa: B010
