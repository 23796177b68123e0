"""Clients that work on a keeper while it is hurt: ours in one event loop, kazoo's in threads."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Sequence

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    NodeExistsError,
    OperationTimeoutError,
    SessionExpiredError,
)
from tests.system.keeper_ledger import ENTRIES, FIRST, REGISTERS, Ledger

from motet.client.keeper.client import KeeperClient
from motet.client.keeper.errors import BadVersion, NodeExists
from motet.errors import NodeError, OutcomeUnknown
from motet.sim.dice import Dice
from motet.verify.history.events import OperationId

TIMEOUT_MS = 8_000
KAZOO_TIMEOUT_SECONDS = 15.0
"""kazoo takes its time to leave a server that is silent."""
PATIENCE_SECONDS = 100.0
_pause_seconds = 0.01
_lost = (ConnectionLoss, OperationTimeoutError, SessionExpiredError)


class OurWorker:
    """One task on one of our clients."""

    def __init__(self, ledger: Ledger, client: KeeperClient, name: str, seed: int) -> None:
        self._ledger, self._client, self._name = ledger, client, name
        self._dice = Dice(seed, name)
        self._lives = 0
        #: how often something was answered
        self.answered = 0

    async def run(self, is_over: asyncio.Event, progress: asyncio.Event) -> None:
        for turn in itertools.count():
            if is_over.is_set():
                return
            if self._dice.chance(0.4):
                await self._entry(f"{ENTRIES}/{self._name}-{turn}")
            else:
                await self._register(self._dice.pick(REGISTERS))
            progress.set()
            await asyncio.sleep(_pause_seconds)

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


class KazooWorker(threading.Thread):
    """One thread with a client of kazoo's."""

    def __init__(self, ledger: Ledger, hosts: str, name: str, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self._ledger = ledger
        self._dice = Dice(seed, name)
        self._lives = 0
        self._is_over = threading.Event()
        self.client = KazooClient(hosts=hosts, timeout=KAZOO_TIMEOUT_SECONDS)
        self.client.start(timeout=PATIENCE_SECONDS)
        self.session: int = self.client.client_id[0]

    def run(self) -> None:
        for turn in itertools.count():
            if self._is_over.wait(_pause_seconds):
                return
            if self._dice.chance(0.5):
                self._entry(f"{ENTRIES}/{self.name}-{turn}")
            else:
                self._register(self._dice.pick(REGISTERS))

    def finish(self) -> None:
        """End the work; the session stays."""
        self._is_over.set()
        self.join(PATIENCE_SECONDS)
        assert not self.is_alive()

    def close(self) -> None:
        self._is_over.set()
        self.client.stop()
        self.client.close()

    def _entry(self, path: str) -> None:
        data = self._ledger.value().encode()
        try:
            self.client.create(path, data)
        except _lost:
            self._ledger.create_unknown(self.name)
        except NodeExistsError:
            self._ledger.doubled.append(path)
        else:
            self._ledger.created(path, data)

    def _register(self, key: str) -> None:
        process = f"{self.name}.{self._lives}"
        read = self._ledger.begin(process, "get", key, None)
        try:
            data, stat = self.client.get(key)
        except _lost:
            self._ledger.fail(read)
            return
        self._ledger.end(read, data.decode())
        value = self._ledger.value()
        write = self._ledger.begin(process, "cas", key, (data.decode(), value))
        try:
            self.client.set(key, value.encode(), version=stat.version)
        except _lost:
            self._ledger.end_unknown(write, self.name)
            self._lives += 1
        except BadVersionError:
            self._ledger.end(write, False)
        else:
            self._ledger.end(write, True)


class Load:
    """All of them, from ``start`` to ``finish``."""

    def __init__(self, endpoints: Sequence[str], *, ours: int = 3, kazoos: int = 2) -> None:
        self.ledger = Ledger()
        self._endpoints = endpoints
        self._ours, self._kazoos = ours, kazoos
        self.clients: list[KeeperClient] = []
        self.kazoos: list[KazooWorker] = []
        self._workers: list[OurWorker] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._is_over, self._progress = asyncio.Event(), asyncio.Event()

    async def start(self) -> None:
        for number in range(self._ours):
            self.clients.append(await self._client(number).__aenter__())
        first = self.clients[0]
        await first.ensure_path(ENTRIES)
        await asyncio.gather(*(first.create(key, FIRST.encode()) for key in REGISTERS))
        hosts = ",".join(self._endpoints)
        for number in range(self._kazoos):
            make = lambda n=number: KazooWorker(self.ledger, hosts, f"kazoo-{n}", n)  # noqa: E731
            self.kazoos.append(await asyncio.to_thread(make))
            self.kazoos[-1].start()
        for number, client in enumerate(self.clients):
            for place in range(3):
                worker = OurWorker(self.ledger, client, f"ours-{number}-{place}", number)
                self._workers.append(worker)
                run = worker.run(self._is_over, self._progress)
                self._tasks.append(asyncio.create_task(run))

    def _client(self, number: int) -> KeeperClient:
        """Each begins with another node."""
        turned = [*self._endpoints[number % 3 :], *self._endpoints[: number % 3]]
        return KeeperClient(",".join(turned), timeout_ms=TIMEOUT_MS, seconds=PATIENCE_SECONDS)

    async def until_acknowledged(self, more: int) -> None:
        """Wait until so many more operations have been acknowledged."""
        wanted = self.ledger.acknowledged + more
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.ledger.acknowledged < wanted:
                self._progress.clear()
                await self._progress.wait()

    async def until_all_are_answered(self) -> None:
        """Wait until each of our workers has heard something, whatever node it was with."""
        before = [worker.answered for worker in self._workers]
        async with asyncio.timeout(PATIENCE_SECONDS):
            while any(w.answered == b for w, b in zip(self._workers, before, strict=True)):
                self._progress.clear()
                await self._progress.wait()

    async def finish(self) -> None:
        """Let everybody end what is under way; the sessions stay."""
        self._is_over.set()
        await asyncio.gather(*self._tasks)
        await asyncio.gather(*(asyncio.to_thread(kazoo.finish) for kazoo in self.kazoos))

    async def close(self) -> None:
        self._is_over.set()
        for client in self.clients:
            await client.close()
        for kazoo in self.kazoos:
            await asyncio.to_thread(kazoo.close)

    async def lost(self, client: KeeperClient) -> list[str]:
        """Acknowledged entries that are not there, or are something else."""
        paths = list(self.ledger.entries)
        missing: list[str] = []
        for start in range(0, len(paths), 100):
            some = paths[start : start + 100]
            for path, found in zip(some, await client.multi_read(some), strict=True):
                if not isinstance(found, tuple) or found[0] != self.ledger.entries[path]:
                    missing.append(path)
        return missing
