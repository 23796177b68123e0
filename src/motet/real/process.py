"""What a process gets from the system: time, randomness, its event loop, and how many files it may open.

The loop is uvloop's when that is installed, else Python's own.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import resource
import secrets
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from motet.core.machine import NS_PER_MS, Now
from motet.limits import (
    connections_max,
    http_connections_max,
    peer_connections_max,
    zookeeper_connections_max,
)


class RealTime:
    """The time port: the monotonic clock and the time of day."""

    def now(self) -> Now:
        return Now(time.monotonic_ns(), time.time_ns())


class ShiftedTime(RealTime):
    """A wall clock that is wrong by as many milliseconds as a file says, for tests; no file: it is right.

    The file is looked at every ``look_ms``, so that a wall can jump while a node runs.
    """

    look_ms = 20

    def __init__(self, file: Path) -> None:
        self._file = file
        self._looked_ns = 0
        self._shift_ns = 0

    def now(self) -> Now:
        now = super().now()
        if now.monotonic_ns - self._looked_ns >= self.look_ms * NS_PER_MS:
            self._looked_ns = now.monotonic_ns
            self._shift_ns = self._read() * NS_PER_MS
        return Now(now.monotonic_ns, now.wall_ns + self._shift_ns)

    def _read(self) -> int:
        try:
            return int(self._file.read_text() or 0)
        except (FileNotFoundError, ValueError):
            return 0


class RealEntropy:
    """The entropy port."""

    def nonce(self) -> int:
        return secrets.randbits(63) or 1


T = TypeVar("T")

objects_between_collections = 200_000

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def loop_factory() -> LoopFactory | None:
    """What makes the loop; None for Python's own choice."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop

    factory: LoopFactory = uvloop.new_event_loop
    return factory


def collect_rarely() -> None:
    """For a process that does nothing but serve: let Python look for garbage in cycles only now and then.

    We make none to speak of, and looking means to walk over everything that is kept: with a million values
    that is a quarter of a second, in which nobody is answered. What is dropped otherwise is freed at once.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(objects_between_collections, 100, 100)


@contextlib.contextmanager
def collect_nothing() -> Iterator[None]:
    """While much is read that stays: do not look for garbage in cycles, which finds none, again and again.

    A folder of ten thousand parts is opened with an eighth less CPU time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a program's main coroutine to its end, on the quickest loop there is."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)


wanted = 65_536
"""More than that nobody needs here, and some systems say that there is no end."""

own_files_min = 128
"""Descriptors that a node keeps for its own files, if it has twice as many."""


def allow_many_files() -> int:
    """Have the system allow as many as it would; how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
    if soft < most or soft == resource.RLIM_INFINITY:
        with contextlib.suppress(OSError, ValueError):  # then what there was has to do
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
            return most
    return min(soft, wanted)


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """How many connections each port of a node takes; the rest of all descriptors is for its own files."""

    native: int = connections_max
    zookeeper: int = zookeeper_connections_max
    http: int = http_connections_max
    #: of nodes, at the native port, beside those of clients
    peers: int = peer_connections_max
    #: there are fewer descriptors than all of them together would take
    is_lowered: bool = False


def share_out(open_files: int) -> ConnectionLimits:
    """The limits for a process that may have so many descriptors."""
    full = ConnectionLimits()
    own_files = max(open_files // 4, min(own_files_min, open_files // 2))
    for_connections = open_files - own_files
    most = full.native + full.zookeeper + full.http + full.peers
    if for_connections >= most:
        return full

    def share(limit: int) -> int:
        return max(limit * for_connections // most, 1)

    return ConnectionLimits(
        share(full.native), share(full.zookeeper), share(full.http), share(full.peers), True
    )
