"""Starts nodes of a local cluster again that have died, later and later if they die at once."""

from __future__ import annotations

import time
from collections.abc import Callable

from motet.testing.local_cluster import LocalCluster

restart_s_min = 0.2
restart_s_max = 10.0
steady_s = 5.0
"""Who has run for so long is started again at once when it dies."""


class Caretaker:
    """Looks after a cluster that runs; ``say`` hears what becomes of its nodes, a line each."""

    def __init__(self, cluster: LocalCluster, say: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._say = say
        #: of each node: when it was started, when it may be started again, how long that was put off
        self._started_at = dict.fromkeys(range(len(cluster)), time.monotonic())
        self._due_at: dict[int, float] = {}
        self._patience_s: dict[int, float] = {}

    def look_after(self) -> None:
        """Start again who has died, if it is time for that; a keeper without its files is not."""
        now = time.monotonic()
        for i in range(len(self._cluster)):
            if self._cluster.is_running(i):
                continue
            if i not in self._due_at:
                self._put_off(i, now)
            elif now >= self._due_at[i]:
                self._start(i, now)

    def _put_off(self, i: int, now: float) -> None:
        was_steady = now - self._started_at[i] > steady_s
        patience_s = 0.0 if was_steady else self._patience_s.get(i, restart_s_min)
        self._patience_s[i] = min(restart_s_max, 2 * (patience_s or restart_s_min))
        self._due_at[i] = now + patience_s
        self._say(f"n{i} has died; its log is {self._cluster.log_path(i)}")

    def _start(self, i: int, now: float) -> None:
        lost = self._cluster.lost_keeper(i)
        if lost is not None:
            self._due_at[i] = now + restart_s_max
            self._say(str(lost))
            return
        del self._due_at[i]
        self._started_at[i] = now
        self._cluster.restart(i, wait=False)
        self._say(f"n{i} is started again, pid {self._cluster.pid(i)}")
