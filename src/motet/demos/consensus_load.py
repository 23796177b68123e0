"""Clients of a keeper that write down what they are told, so that it can be held against it afterwards.

Three kinds of work, mixed at random from a seed:

- *Entries*: a node of one's own is created once. That it was there already would mean that a create was done
  twice; that it is not there in the end, that one was lost.
- *Registers* that all share: read, set, and set if the version is still the one that was read; every one of
  them in a history for a checker. No value is written twice, so a version is as good as a value.
- *Barriers*: an entry that somebody else was told of is there for whoever reads after that.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Sequence

from motet.client.keeper.client import KeeperClient
from motet.client.keeper.errors import BadVersion, NodeExists
from motet.errors import NodeError, OutcomeUnknown
from motet.sim.dice import Dice
from motet.verify.history import Recorder, Verdict, check_keyed
from motet.verify.history.operation import OperationId

ENTRIES = "/entries"
REGISTERS = tuple(f"/register-{number}" for number in range(8))
FIRST = "first"
TIMEOUT_MS = 8_000
PATIENCE_SECONDS = 100.0
workers_per_client = 3
_look_at_once = 100


class Ledger:
    """All that was seen, written down by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recorder = Recorder()
        self._values = 0
        #: entry -> data, for those that were acknowledged
        self.entries: dict[str, bytes] = {}
        self.acknowledged = 0
        #: by who was told: a write whose outcome nobody knows
        self.unknown: dict[str, int] = {}
        #: was not asked, or was a read without an answer
        self.failed = 0
        #: created by nobody else, and there already
        self.doubled: list[str] = []
        self.barriers = 0
        #: entries that a read did not see though they had been acknowledged before it
        self.barriers_stale: list[str] = []
        #: when something was acknowledged, in monotonic nanoseconds
        self._acknowledged_at: list[int] = []

    def value(self) -> str:
        """One that was never written."""
        with self._lock:
            self._values += 1
            return f"value-{self._values}"

    def created(self, path: str, data: bytes) -> None:
        with self._lock:
            self.entries[path] = data
            self._acknowledge()

    def create_unknown(self, who: str) -> None:
        with self._lock:
            self.unknown[who] = self.unknown.get(who, 0) + 1

    def not_done(self) -> None:
        with self._lock:
            self.failed += 1

    def newest(self) -> str | None:
        """The entry that was acknowledged last."""
        with self._lock:
            return next(reversed(self.entries), None)

    def looked(self, path: str, *, is_there: bool) -> None:
        """A read that began after this entry was acknowledged has seen it, or not."""
        with self._lock:
            self.barriers += 1
            if not is_there:
                self.barriers_stale.append(path)

    # Registers

    def begin(self, process: str, function: str, key: str, value: object) -> OperationId:
        with self._lock:
            return self._recorder.invoke(process, function, key, value, time.monotonic_ns())

    def end(self, operation: OperationId, value: object) -> None:
        with self._lock:
            self._recorder.ok(operation, value, time.monotonic_ns())
            self._acknowledge()

    def fail(self, operation: OperationId) -> None:
        with self._lock:
            self._recorder.failed(operation, time.monotonic_ns())
            self.failed += 1

    def end_unknown(self, operation: OperationId, who: str) -> None:
        with self._lock:
            self._recorder.unknown(operation, time.monotonic_ns())
            self.unknown[who] = self.unknown.get(who, 0) + 1

    def _acknowledge(self) -> None:
        self.acknowledged += 1
        self._acknowledged_at.append(time.monotonic_ns())

    # In the end

    def outage_ms_max(self) -> int:
        """The longest time without any acknowledgement, from the first to the last."""
        gaps = (b - a for a, b in itertools.pairwise(self._acknowledged_at))
        return max(gaps, default=0) // 1_000_000

    def verdict(self) -> Verdict:
        """Is there one order of all operations that explains every answer?"""
        return check_keyed(self._recorder.history(), initial=dict.fromkeys(REGISTERS, FIRST))


class Worker:
    """One task on one client."""

    def __init__(
        self, ledger: Ledger, client: KeeperClient, name: str, seed: int, pause_s: float
    ) -> None:
        self._ledger, self._client, self._name = ledger, client, name
        self._dice = Dice(seed, name)
        self._pause_s = pause_s
        self._lives = 0
        #: how often something was answered
        self.answered = 0

    async def run(self, is_over: asyncio.Event, progress: asyncio.Event) -> None:
        for turn in itertools.count():
            if is_over.is_set():
                return
            kind = self._dice.between(0, 19)
            if kind == 0:
                await self._barrier()
            elif kind < 9:
                await self._entry(f"{ENTRIES}/{self._name}-{turn}")
            else:
                await self._register(self._dice.pick(REGISTERS))
            progress.set()
            await asyncio.sleep(self._pause_s)

    async def _entry(self, path: str) -> None:
        data = self._ledger.value().encode()
        try:
            await self._client.create(path, data)
        except OutcomeUnknown:
            self._ledger.create_unknown(self._name)
        except NodeExists:
            self._ledger.doubled.append(path)
        except NodeError:
            self._ledger.not_done()
        else:
            self._ledger.created(path, data)

    async def _barrier(self) -> None:
        path = self._ledger.newest()
        if path is None:
            return
        try:
            stat = await self._client.exists(path)
        except NodeError:
            self._ledger.not_done()
        else:
            self._ledger.looked(path, is_there=stat is not None)

    async def _register(self, key: str) -> None:
        read = self._begin("get", key, None)
        try:
            data, stat = await self._client.get(key)
        except NodeError:
            self._ledger.fail(read)
            return
        self._ledger.end(read, data.decode())
        self.answered += 1
        if self._dice.chance(0.5):
            is_compared, value = self._dice.chance(0.5), self._ledger.value()
            await self._set(key, data.decode(), value, stat.version if is_compared else -1)

    async def _set(self, key: str, old: str, new: str, version: int) -> None:
        if version < 0:
            write = self._begin("put", key, new)
        else:
            write = self._begin("cas", key, (old, new))
        try:
            await self._client.set(key, new.encode(), version)
        except OutcomeUnknown:
            self._ledger.end_unknown(write, self._name)
            self._lives += 1  # what may still be done belongs to somebody who is no more
        except BadVersion:
            self._ledger.end(write, False)
        except NodeError:
            self._ledger.fail(write)
        else:
            self._ledger.end(write, True)

    def _begin(self, function: str, key: str, value: object) -> OperationId:
        return self._ledger.begin(f"{self._name}.{self._lives}", function, key, value)


class Load:
    """Clients with some workers each, from ``start`` to ``finish``; the first begins with the first node."""

    def __init__(
        self, endpoints: Sequence[str], *, clients: int = 3, pause_s: float = 0.01
    ) -> None:
        self.ledger = Ledger()
        self.endpoints = endpoints
        self.clients: list[KeeperClient] = []
        self._count, self._pause_s = clients, pause_s
        self._workers: list[Worker] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._is_over, self._progress = asyncio.Event(), asyncio.Event()

    async def start(self) -> None:
        for number in range(self._count):
            self.clients.append(await self._client(number).__aenter__())
        first = self.clients[0]
        await first.ensure_path(ENTRIES)
        await asyncio.gather(*(first.create(key, FIRST.encode()) for key in REGISTERS))
        for number, client in enumerate(self.clients):
            for place in range(workers_per_client):
                name = f"ours-{number}-{place}"
                worker = Worker(self.ledger, client, name, number, self._pause_s)
                self._workers.append(worker)
                run = worker.run(self._is_over, self._progress)
                self._tasks.append(asyncio.create_task(run))

    def _client(self, number: int) -> KeeperClient:
        """Each begins with another node."""
        turn = number % len(self.endpoints)
        turned = [*self.endpoints[turn:], *self.endpoints[:turn]]
        return KeeperClient(",".join(turned), timeout_ms=TIMEOUT_MS, seconds=PATIENCE_SECONDS)

    async def until_acknowledged(self, more: int) -> None:
        """Wait until so many more operations have been acknowledged; ``TimeoutError`` if they are not."""
        wanted = self.ledger.acknowledged + more
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.ledger.acknowledged < wanted:
                self._progress.clear()
                await self._progress.wait()

    async def until_all_are_answered(self) -> None:
        """Wait until each worker has heard something, whatever node it was with."""
        before = [worker.answered for worker in self._workers]
        async with asyncio.timeout(PATIENCE_SECONDS):
            while any(w.answered == b for w, b in zip(self._workers, before, strict=True)):
                self._progress.clear()
                await self._progress.wait()

    async def finish(self) -> None:
        """Let everybody end what is under way; the sessions stay."""
        self._is_over.set()
        await asyncio.gather(*self._tasks)

    async def close(self) -> None:
        self._is_over.set()
        for client in self.clients:
            await client.close()

    async def lost(self, client: KeeperClient) -> list[str]:
        """Acknowledged entries that are not there, or are something else. For when all is over."""
        paths = list(self.ledger.entries)
        missing: list[str] = []
        for start in range(0, len(paths), _look_at_once):
            some = paths[start : start + _look_at_once]
            for path, found in zip(some, (await client.multi_read(some))[1], strict=True):
                if not isinstance(found, tuple) or found[0] != self.ledger.entries[path]:
                    missing.append(path)
        return missing
