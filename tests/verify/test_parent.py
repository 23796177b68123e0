"""Workers end with the process that started them, even if that is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

POOL = """
import os, time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from motet.verify.parent import end_with_parent

def pid_of(_number):
    time.sleep(0.01)
    return os.getpid()

if __name__ == "__main__":
    with ProcessPoolExecutor(2, get_context("spawn"), end_with_parent) as pool:
        pids = set()
        while len(pids) < 2:  # until both have had something to do
            pids |= set(pool.map(pid_of, range(8)))
        print(*pids, flush=True)
        time.sleep(600)
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_workers_do_not_outlive_a_killed_process(tmp_path: Path) -> None:
    script = tmp_path / "pool.py"
    script.write_text(POOL)
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        workers = [int(pid) for pid in process.stdout.readline().split()]
        assert len(workers) == 2
        assert all(map(is_alive, workers))
        os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while any(map(is_alive, workers)):
        assert time.monotonic() < deadline, "a worker waits for ever"
        time.sleep(0.01)
