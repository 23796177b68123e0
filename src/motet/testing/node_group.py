"""Processes by number, and what can be done to each of them: the part that all local clusters share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Self

from motet.errors import BadInput, NodeError
from motet.testing.local_node import LocalNode

look_every_s = 0.02


class NodeGroup:
    """Some nodes that are started and ended together; who derives from it says how they start."""

    def __init__(self, ready_s_max: float) -> None:
        self._ready_s_max = ready_s_max
        self._nodes: list[LocalNode] = []

    def start(self) -> None:
        """Start all nodes and wait until each is ready."""
        raise NotImplementedError

    def close(self) -> None:
        """End all nodes."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What can be done to a node

    def kill(self, i: int) -> None:
        """kill -9; the process is gone when this returns."""
        self._node(i).kill()

    def stop(self, i: int) -> None:
        """Have a node do nothing, with all its connections open."""
        self._node(i).stop()

    def cont(self, i: int) -> None:
        """Have a stopped node go on."""
        self._node(i).cont()

    def terminate(self, i: int, *, wait_s: float = 30.0) -> int:
        """Ask a node to end; returns its exit status."""
        return self._node(i).terminate(wait_s)

    def restart(self, i: int, *, wait: bool = True) -> None:
        """Start a node again, killing it first if it runs; waits until it is ready."""
        node = self._node(i)
        node.end()
        node.start()
        if wait:
            self.wait_ready(i)

    def wait_ready(self, i: int) -> None:
        """Wait until a node can serve."""
        self._node(i).wait_ready(self._ready_s_max)

    # Where and what they are

    def __len__(self) -> int:
        return len(self._nodes)

    def is_running(self, i: int) -> bool:
        """Whether a node's process is there, stopped or not."""
        return self._node(i).is_running()

    def endpoint(self, i: int) -> str:
        """Where a node speaks to peers and clients, as ``host:port``."""
        return self._node(i).endpoint

    def http(self, i: int) -> str:
        """Where a node serves HTTP, as ``http://host:port``."""
        return f"http://{self._node(i).http_endpoint}"

    def pid(self, i: int) -> int:
        return self._node(i).pid

    def log(self, i: int) -> str:
        """All that a node has printed so far, over all its lives."""
        return self._node(i).log()

    def noted(self, what: str) -> int:
        """How often any node has noted this fact, over all their lives."""
        return sum(self.log(i).count(f" {what} ") for i in range(len(self._nodes)))

    def _node(self, i: int) -> LocalNode:
        if not 0 <= i < len(self._nodes):
            raise BadInput(f"there is no node {i}", hint=f"there are {len(self._nodes)}, from 0 on")
        return self._nodes[i]


def wait_for(reached: Callable[[], bool], what: str, wait_s: float) -> float:
    """Look until it is so; how long it took in seconds. ``NodeError`` if it takes too long."""
    began, never = time.monotonic(), threading.Event()
    while not reached():
        if time.monotonic() - began > wait_s:
            raise NodeError(f"{what}: not within {wait_s:g} s", hint="read the nodes' logs")
        never.wait(look_every_s)
    return time.monotonic() - began
