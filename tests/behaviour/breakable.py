"""Databases in processes of their own, to be stopped, killed, filled up and started again."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Protocol

from motet.node.config import ROLES
from motet.testing.local_cluster import LocalCluster

SERVE = """
    import sys, motet
    db = motet.open(sys.argv[1])
    print(db.endpoint, flush=True)
    sys.stdin.readline()
    """

EVERYTHING = resource.RLIM_INFINITY


class Breakable(Protocol):
    """A database that lives in other processes."""

    name: str
    #: how many processes may be gone while it serves
    spare: int

    def endpoint(self) -> str:
        """Where it serves; another one each time it is started, if it is a folder."""

    def pids(self) -> list[int]:
        """Its processes that run."""

    def stop(self, many: int) -> None:
        """Have the first so many processes do nothing, with their connections open."""

    def kill(self, many: int) -> None:
        """kill -9 the first so many of them."""

    def restart(self) -> None:
        """Start again who was killed, and wait until all of it serves."""

    def close(self) -> None:
        """End it."""


class BreakableFolder:
    """A folder that a process has open and serves."""

    name, spare = "folder", 0

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._start()

    def restart(self) -> None:
        if self._process.poll() is not None:
            self._start()

    def _start(self) -> None:
        command = [sys.executable, "-c", textwrap.dedent(SERVE), str(self.folder)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self._endpoint = self._process.stdout.readline().strip()
        assert self._endpoint, "it has not begun to serve"

    def endpoint(self) -> str:
        return self._endpoint

    def pids(self) -> list[int]:
        return [self._process.pid]

    def stop(self, many: int) -> None:
        assert many == 1
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def kill(self, many: int) -> None:
        assert many == 1
        self._process.kill()
        self._process.communicate()

    def close(self) -> None:
        self.kill(1)


class BreakableCluster:
    """So many nodes."""

    def __init__(self, nodes: int, folder: Path) -> None:
        self.name = f"cluster-{nodes}"
        self.spare = (nodes - 1) // 2
        self.folder = folder
        self._nodes = nodes
        self._cluster = LocalCluster(nodes, folder, roles=ROLES)
        self._cluster.start()

    def endpoint(self) -> str:
        return self._cluster.endpoints

    def pids(self) -> list[int]:
        running = filter(self._cluster.is_running, range(self._nodes))
        return [self._cluster.pid(number) for number in running]

    def stop(self, many: int) -> None:
        for number in range(many):
            self._cluster.stop(number)

    def kill(self, many: int) -> None:
        for number in filter(self._cluster.is_running, range(many)):
            self._cluster.kill(number)

    def restart(self) -> None:
        gone = [i for i in range(self._nodes) if not self._cluster.is_running(i)]
        for number in gone:
            self._cluster.restart(number, wait=False)
        for number in gone:
            self._cluster.wait_ready(number)

    def close(self) -> None:
        for number in filter(self._cluster.is_running, range(self._nodes)):
            self._cluster.kill(number)
        self._cluster.close()


def limit_files(pids: list[int], size_bytes: int) -> None:
    """Let no file of these processes grow beyond a size: the system refuses what does, as on a full disk."""
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size_bytes, EVERYTHING))
