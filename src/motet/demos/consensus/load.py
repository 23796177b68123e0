"""Clients that write down what they are told, so that it can be held against the cluster afterwards.

Three kinds of work, mixed at random from a seed:

- *Entries* of a ledger: a key of one's own is set from nothing to a value, once. That it was set already
  would mean that an operation was done twice; that it is not there in the end, that one was lost.
- *Registers* that all share: put, get, compare and delete, every one of them in a history for a checker.
- *Barriers*: the op that a state must have applied to be read now is never below one that was
  acknowledged before the question.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass, field

from motet.client.consensus import ConsensusClient
from motet.core.vsr.key_value import Call, Compare, Delete, Found, Get, Put, Stored, Swapped
from motet.errors import NodeError, OutcomeUnknown
from motet.sim.dice import Dice
from motet.verify.history import Recorder, Verdict, check_keyed
from motet.verify.history.events import OperationId

REGISTERS = tuple(f"register-{n}" for n in range(8))
look_at_once = 50


@dataclass
class Tally:
    """All that was seen."""

    recorder: Recorder = field(default_factory=Recorder)
    #: entry -> value, for those that were acknowledged
    entries: dict[bytes, bytes] = field(default_factory=dict)
    acknowledged: int = 0
    unknown: int = 0
    #: never sent: no session had room in time
    unsent: int = 0
    doubled: int = 0
    barriers: int = 0
    barriers_stale: int = 0
    op_max: int = 0
    #: when something was acknowledged, in monotonic nanoseconds
    acknowledged_at: list[int] = field(default_factory=list)

    def acknowledge(self, op: int = 0) -> None:
        self.acknowledged += 1
        self.op_max = max(self.op_max, op)
        self.acknowledged_at.append(time.monotonic_ns())

    def outage_ms_max(self) -> int:
        """The longest time without any acknowledgement, from the first to the last."""
        gaps = (b - a for a, b in itertools.pairwise(self.acknowledged_at))
        return max(gaps, default=0) // 1_000_000


class Load:
    """So many workers on one client, from ``run`` to ``stop``, each with a pause between two operations."""

    def __init__(
        self,
        client: ConsensusClient,
        *,
        workers: int = 8,
        pause_s: float = 0.02,
        call_s_max: float = 20.0,
        seed: int = 0,
    ) -> None:
        self.tally = Tally()
        self._client = client
        self._workers = workers
        self._pause_s = pause_s
        self._call_s_max = call_s_max
        self._seed = seed
        self._is_over = False
        self._values = 0
        self._progress = asyncio.Event()

    async def run(self) -> None:
        """Work until ``stop``, and wait for what is under way."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(self._workers):
                tasks.create_task(self._work(number))

    def stop(self) -> None:
        self._is_over = True

    async def until_acknowledged(self, more: int, wait_s: float = 60.0) -> None:
        """Wait until so many more operations have been acknowledged; ``TimeoutError`` if they are not."""
        wanted = self.tally.acknowledged + more
        async with asyncio.timeout(wait_s):
            while self.tally.acknowledged < wanted:
                self._progress.clear()
                await self._progress.wait()

    async def lost(self) -> int:
        """How many acknowledged entries are not there, or are something else. For when all is over."""
        lost = 0
        keys = list(self.tally.entries)
        for start in range(0, len(keys), look_at_once):
            some = keys[start : start + look_at_once]
            found = await self._client.call([Get(key) for key in some], seconds=self._call_s_max)
            for key, result in zip(some, found, strict=True):
                is_there = isinstance(result, Found) and result.value == self.tally.entries[key]
                lost += not is_there
        for register in REGISTERS:  # the last word on each, for the checker
            await self._register("last", Get(register.encode()))
        return lost

    def verdict(self) -> Verdict:
        """Is there one order of all operations that explains every answer?"""
        return check_keyed(self.tally.recorder.history())

    def _acknowledge(self, op: int = 0) -> None:
        self.tally.acknowledge(op)
        self._progress.set()

    # One worker

    async def _work(self, number: int) -> None:
        dice = Dice(self._seed, f"worker-{number}")
        lives = 0
        for turn in itertools.count():
            if self._is_over:
                return
            kind = dice.between(0, 19)
            if kind == 0:
                await self._barrier()
            elif kind < 10:
                await self._entry(f"entry-{self._seed}-{number}-{turn}".encode())
            elif not await self._register(f"w{number}.{lives}", self._call(dice)):
                lives += 1  # what may still be done belongs to a worker that is no more
            if self._pause_s:
                await asyncio.sleep(self._pause_s)

    def _value(self) -> bytes:
        self._values += 1
        return f"value-{self._values}".encode()

    async def _entry(self, key: bytes) -> None:
        value = self._value()
        try:
            [result] = await self._client.call([Compare(key, None, value)], self._call_s_max)
        except OutcomeUnknown:
            self.tally.unknown += 1
        except NodeError:
            self.tally.unsent += 1
        else:
            self._acknowledge()
            self.tally.entries[key] = value
            assert isinstance(result, Swapped)
            self.tally.doubled += not result.is_swapped

    async def _barrier(self) -> None:
        op_before = self.tally.op_max
        try:
            op = await self._client.read_barrier(self._call_s_max)
        except NodeError:
            self.tally.unsent += 1
        else:
            self.tally.barriers += 1
            self.tally.barriers_stale += op < op_before

    def _call(self, dice: Dice) -> Call:
        key = dice.pick(REGISTERS).encode()
        kind = dice.between(0, 9)
        if kind < 4:
            return Get(key)
        if kind < 8:
            return Put(key, self._value())
        if kind < 9:
            return Compare(key, None, self._value())
        return Delete(key)

    async def _register(self, process: str, call: Call) -> bool:
        """One operation on a register, in the history; False if its outcome is unknown."""
        recorder = self.tally.recorder
        operation = self._invoke(process, call)
        try:
            [result] = await self._client.call([call], self._call_s_max)
        except OutcomeUnknown:
            recorder.unknown(operation, time.monotonic_ns())
            self.tally.unknown += 1
            return False
        except NodeError:
            recorder.failed(operation, time.monotonic_ns())
            self.tally.unsent += 1
            return True
        answer: object = None
        if isinstance(result, Found):
            answer = None if result.value is None else result.value.decode()
        elif isinstance(result, Swapped):
            answer = result.is_swapped
        recorder.ok(operation, answer, time.monotonic_ns())
        self._acknowledge(result.op if isinstance(result, Stored) else 0)
        return True

    def _invoke(self, process: str, call: Call) -> OperationId:
        invoke, key, at = self.tally.recorder.invoke, call.key.decode(), time.monotonic_ns()
        if isinstance(call, Put):
            return invoke(process, "put", key, call.value.decode(), at)
        if isinstance(call, Compare):
            assert call.value is not None
            return invoke(process, "cas", key, (None, call.value.decode()), at)
        return invoke(process, "get" if isinstance(call, Get) else "delete", key, None, at)
