"""Worker processes end with the process that started them, however that ends.

A pool tells its workers to stop when it is shut down. One that is killed tells nobody, and its workers would
wait for work for ever: each holds an end of the pipe that the others wait on.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from multiprocessing.process import BaseProcess


def end_with_parent() -> None:
    """Call it once in a worker."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)  # whoever would want to know why is gone
