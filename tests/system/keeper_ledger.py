"""What the clients of a keeper were told, written down by any of their threads.

- *Entries*: a node of one's own is created once. That it was there already would mean that a create was done
  twice; that it is not there in the end, that one was lost.
- *Registers* that all share: read, set, and set if the version is still the one that was read; every one of
  them in a history for a checker. No value is written twice, so a version is as good as a value.
"""

from __future__ import annotations

import threading
import time

from motet.verify.history import Recorder, Verdict, check_keyed
from motet.verify.history.events import OperationId

ENTRIES = "/entries"
REGISTERS = tuple(f"/register-{number}" for number in range(6))
FIRST = "first"


class Ledger:
    """All that was seen."""

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

    def value(self) -> str:
        """One that was never written."""
        with self._lock:
            self._values += 1
            return f"value-{self._values}"

    def created(self, path: str, data: bytes) -> None:
        with self._lock:
            self.entries[path] = data
            self.acknowledged += 1

    def create_unknown(self, who: str) -> None:
        with self._lock:
            self.unknown[who] = self.unknown.get(who, 0) + 1

    def not_done(self) -> None:
        with self._lock:
            self.failed += 1

    # Registers

    def begin(self, process: str, function: str, key: str, value: object) -> OperationId:
        with self._lock:
            return self._recorder.invoke(process, function, key, value, time.monotonic_ns())

    def end(self, operation: OperationId, value: object) -> None:
        with self._lock:
            self._recorder.ok(operation, value, time.monotonic_ns())
            self.acknowledged += 1

    def fail(self, operation: OperationId) -> None:
        with self._lock:
            self._recorder.failed(operation, time.monotonic_ns())
            self.failed += 1

    def end_unknown(self, operation: OperationId, who: str) -> None:
        with self._lock:
            self._recorder.unknown(operation, time.monotonic_ns())
            self.unknown[who] = self.unknown.get(who, 0) + 1

    def verdict(self) -> Verdict:
        """Is there one order of all operations that explains every answer?"""
        return check_keyed(self._recorder.history(), initial=dict.fromkeys(REGISTERS, FIRST))
