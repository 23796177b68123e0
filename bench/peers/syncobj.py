"""Three nodes of PySyncObj, a Raft in Python, whose leader loads itself.

Each command leaves at once (its default gathers them for a tenth of a second), and the journal is flushed
before an entry is sent or acknowledged: the library by itself never syncs it, and would not be comparable.
As a program this file is one node; it takes ``LANES SECONDS`` from its standard input; the leader answers.
"""

from __future__ import annotations

import importlib.util
import json
import math
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

VALUE = bytes(range(256)) * 4
PATIENCE_SECONDS = 20
WARM_UP_SECONDS = 1.0


def is_there() -> bool:
    """Whether the library is installed (PyPI: pysyncobj)."""
    return importlib.util.find_spec("pysyncobj") is not None


class SyncObjs:
    """Between its construction and ``stop``: a replicated log of three nodes."""

    def __init__(self, folder: Path) -> None:
        from peers.ports import free_ports  # a node has this folder alone on its path

        folder.mkdir()
        addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
        self._processes = []
        for number, address in enumerate(addresses):
            others = ",".join(other for other in addresses if other != address)
            command = [sys.executable, __file__, address, others, str(folder / f"journal-{number}")]
            self._processes.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                )
            )
        for process in self._processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", "a node of PySyncObj does not start"

    def append(self, lanes: int, seconds: float) -> dict[str, Any]:
        """1 KiB entries, so many in flight."""
        answers = []
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(f"{lanes} {seconds}\n")
            process.stdin.flush()
        for process in self._processes:
            assert process.stdout is not None
            answers.append(json.loads(process.stdout.readline()))
        found: list[dict[str, Any]] = [answer for answer in answers if answer]
        assert len(found) == 1, "PySyncObj has no leader, or two"
        return found[0]

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


def main(address: str, others: list[str], journal: str) -> None:
    """One node."""
    from pysyncobj import SyncObj, SyncObjConf, replicated
    from pysyncobj.journal import FileJournal

    add = FileJournal.add

    def add_and_flush(self: FileJournal, *entry: object) -> None:
        add(self, *entry)
        self.flush()

    FileJournal.add = add_and_flush

    class Log(SyncObj):  # type: ignore[misc]
        """Counts what was appended."""

        def __init__(self) -> None:
            settings = SyncObjConf(
                journalFile=journal,
                appendEntriesUseBatch=False,
                commandsQueueSize=1_000_000,
                logCompactionMinEntries=10**9,
                logCompactionMinTime=10**6,
            )
            super().__init__(address, others, settings)
            self.count = 0

        @replicated  # type: ignore[untyped-decorator]
        def append(self, value: bytes) -> int:
            self.count += 1 if value else 0
            return self.count

    log = Log()
    while not log.isReady():
        time.sleep(0.05)
    print("ready", flush=True)
    for line in sys.stdin:
        lanes, seconds = line.split()
        is_leader = log._isLeader()
        print(json.dumps(load(log, int(lanes), float(seconds)) if is_leader else {}), flush=True)


def load(log: Any, lanes: int, seconds: float) -> dict[str, Any]:
    """Append with so many in flight; what came before the warm-up is not counted."""
    free = threading.Semaphore(lanes)
    latencies: list[float] = []
    begin = time.perf_counter() + WARM_UP_SECONDS
    end = begin + seconds

    def append_one() -> None:
        before = time.perf_counter()

        def done(_result: object, error: object) -> None:
            after = time.perf_counter()
            if not error and before >= begin and after <= end:
                latencies.append(after - before)
            free.release()

        log.append(VALUE, callback=done)

    while time.perf_counter() < end:
        free.acquire()
        append_one()
    for _ in range(lanes):
        free.acquire(timeout=PATIENCE_SECONDS)
    # On a busy machine it may lose its leadership, and what was under way.
    median = statistics.median(latencies) if latencies else math.inf
    return {"rate": round(len(latencies) / seconds), "p50_ms": round(median * 1e3, 3)}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2].split(","), sys.argv[3])
