"""Clients that work on a keeper while it is hurt: ours in one event loop, and kazoo's in threads."""

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

from motet.demos.consensus_load import ENTRIES, PATIENCE_SECONDS, REGISTERS, Ledger, Load
from motet.sim.dice import Dice

KAZOO_TIMEOUT_SECONDS = 15.0
"""kazoo takes its time to leave a server that is silent."""
_pause_seconds = 0.01
_lost = (ConnectionLoss, OperationTimeoutError, SessionExpiredError)


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


class KazooLoad(Load):
    """Our clients, and kazoo's beside them."""

    def __init__(self, endpoints: Sequence[str], *, kazoos: int = 2) -> None:
        super().__init__(endpoints)
        self._kazoo_count = kazoos
        self.kazoos: list[KazooWorker] = []

    async def start(self) -> None:
        await super().start()
        hosts = ",".join(self.endpoints)
        for number in range(self._kazoo_count):
            make = lambda n=number: KazooWorker(self.ledger, hosts, f"kazoo-{n}", n)  # noqa: E731
            self.kazoos.append(await asyncio.to_thread(make))
            self.kazoos[-1].start()

    async def finish(self) -> None:
        """Let everybody end what is under way; the sessions stay."""
        await super().finish()
        await asyncio.gather(*(asyncio.to_thread(kazoo.finish) for kazoo in self.kazoos))

    async def close(self) -> None:
        await super().close()
        for kazoo in self.kazoos:
            await asyncio.to_thread(kazoo.close)
