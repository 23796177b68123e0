"""What the nodes of a local cluster say of themselves: over HTTP, and in their logs."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from motet.errors import NodeError
from motet.node.roles import KEEPER_ROLE, OPERATOR_ROLE

status_s_max = 2.0
look_every_s = 0.02
lag_ops_max = 100
"""A replica of the keeper that is so far behind at most is up to date."""


class ClusterStatus:
    """Questions about nodes; who derives from it says which nodes there are."""

    def __len__(self) -> int:
        raise NotImplementedError

    def roles(self, i: int) -> tuple[str, ...]:
        """What a node does."""
        raise NotImplementedError

    def is_running(self, i: int) -> bool:
        """Whether a node's process is there, stopped or not."""
        raise NotImplementedError

    def http(self, i: int) -> str:
        """Where a node serves HTTP, as ``http://host:port``."""
        raise NotImplementedError

    def log(self, i: int) -> str:
        """All that a node has printed so far, over all its lives."""
        raise NotImplementedError

    def noted(self, what: str) -> int:
        """How often any node has noted this fact, over all their lives."""
        return sum(self.log(i).count(f" {what} ") for i in range(len(self)))

    def status(self, i: int) -> Mapping[str, Any] | None:
        """What a node says of its machines, by their names; None if it says nothing."""
        try:
            url = f"{self.http(i)}/api/status"
            with urllib.request.urlopen(url, timeout=status_s_max) as said:  # noqa: S310 - our own
                machines: Mapping[str, Any] = json.load(said)["machines"]
                return machines
        except (OSError, ValueError, KeyError):
            return None

    def active_operators(self) -> list[int]:
        """Who takes itself for the active operator: for a moment that may be two, or none."""
        known = ((i, self._detail(i, OPERATOR_ROLE)) for i in range(len(self)))
        return [i for i, detail in known if detail is not None and detail.get("active")]

    # The keeper

    def keeper_status(self, i: int) -> Mapping[str, Any] | None:
        """What a node says of its replica of the keeper; None if it says nothing."""
        return self._detail(i, KEEPER_ROLE)

    def keeper_primary(self, *, wait_s: float = 60.0) -> int:
        """Who leads the newest view that anybody leads; waits until somebody does."""
        found: list[tuple[int, int]] = []

        def look() -> bool:
            known = ((i, self.keeper_status(i)) for i in range(len(self)))
            found[:] = [(s["view"], i) for i, s in known if s is not None and s["is_primary"]]
            return bool(found)

        wait_for(look, "a primary", wait_s)
        return max(found)[1]

    def is_keeper_whole(self) -> bool:
        """Are all replicas of the keeper in one view, with nothing missing, and up to date?"""
        keepers = [i for i in range(len(self)) if KEEPER_ROLE in self.roles(i)]
        known = [self.keeper_status(i) for i in keepers]
        found = [status for status in known if status is not None]
        if len(found) < len(keepers) or len({status["view"] for status in found}) > 1:
            return False
        if any(status["status"] != "normal" for status in found):
            return False
        lost = ("prepares_faulty", "blocks_faulty", "replies_faulty")
        if any(status[what] for status in found for what in lost):
            return False
        # They are asked one after the other while their clients go on.
        commits = [status["commit_min"] for status in found]
        return bool(max(commits) - min(commits) <= lag_ops_max)

    def _detail(self, i: int, machine: str) -> Mapping[str, Any] | None:
        machines = self.status(i) if self.is_running(i) else None
        found: Mapping[str, Any] | None = (machines or {}).get(machine, {}).get("detail")
        return found


def wait_for(reached: Callable[[], bool], what: str, wait_s: float) -> float:
    """Look until it is so; how long it took in seconds. ``NodeError`` if it takes too long."""
    began, never = time.monotonic(), threading.Event()
    while not reached():
        if time.monotonic() - began > wait_s:
            raise NodeError(f"{what}: not within {wait_s:g} s", hint="read the nodes' logs")
        never.wait(look_every_s)
    return time.monotonic() - began
