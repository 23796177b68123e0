"""Clients of a simulated cluster: they put, get, compare and delete few keys, and write down what they see.

A batch has up to three calls on different keys; each goes into the history as an operation of its own. Some
reads go another way: the client asks how new a state must be, and then looks into any replica that has come
that far. A client that loses its session does not know what became of its batch, and begins anew under
another id. Now and then one is idle for so long that others take its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from motet.core.machine import Effect, Event, Fired, Now, Received, SetTimer, Started
from motet.core.vsr.client import Client, Evicted, ReadAt, Replied, Result
from motet.core.vsr.config import VsrConfig
from motet.core.vsr.state_machine import Entry
from motet.ids import ClientId, Op, TimerName
from motet.sim.world import World
from motet.testing.register import (
    BATCH,
    Call,
    Compare,
    Delete,
    Found,
    Get,
    Put,
    Stored,
    Swapped,
    decode_results,
    encode_calls,
)
from motet.verify.history import Recorder
from motet.verify.history.operation import OperationId
from motet.verify.storms.vsr_checks import Watch

KEYS = ("a", "b", "c")
NEXT = TimerName("next")
LOOK = TimerName("look")
look_again_ms = 10
idle_share = 0.03

Peek = Callable[[Op, bytes], bytes | None]
"""Apply a read to the state of any replica that has executed the op; None if none has."""


class Worker:
    """One client after the other at one address."""

    def __init__(
        self,
        world: World,
        config: VsrConfig,
        name: str,
        watch: Watch,
        recorder: Recorder,
        peek: Peek,
        *,
        operations: int,
        read_share: float,
        is_reserved: bool,
    ) -> None:
        self.name = name
        #: operations to be done at least; it goes on while the storm does
        self.left = operations
        self.is_done = False
        self._world = world
        self._config = config
        self._watch = watch
        self._recorder = recorder
        self._peek = peek
        self._dice = world.dice.fork(f"client.{name}")
        self._read_share = read_share
        self._is_reserved = is_reserved
        self._between_ms_max = self._dice.pick([5, 15, 40])
        self._client = self._new_client()
        self._lives = 0
        self._values = 0
        self._calls: list[Call] = []
        self._open: list[OperationId] = []
        #: what it last saw under a key
        self._known: dict[str, str | None] = {}
        self._read: tuple[Op, str] | None = None

    def itself(self) -> Self:
        """A client is never restarted, so its factory may hand out the one there is."""
        return self

    def step(self, event: Event) -> list[Effect]:
        now = event.now
        effects: list[Effect] = []
        if isinstance(event, Received):
            effects = self._client.on_message(event.sender, event.message, now)
        elif isinstance(event, Started):
            effects = self._client.begin(now)
        elif isinstance(event, Fired) and event.timer == NEXT:
            effects = self._act(now)
        elif isinstance(event, Fired) and event.timer == LOOK:
            effects = self._look()
        elif isinstance(event, Fired):
            effects = self._client.on_timer(event.timer, now)
        result = self._client.take_result()
        return effects if result is None else effects + self._ended(result, now)

    # Asking

    def _new_client(self) -> Client:
        client = ClientId(self._dice.nonce())
        return Client(self._config, client, reserved=self._is_reserved)

    def _act(self, now: Now) -> list[Effect]:
        if self.left <= 0 and self._world.fabric.healed:
            self.is_done = True
            return []
        if not self._client.is_idle:
            return []  # it was evicted meanwhile, and is registering
        if self._dice.chance(self._read_share):
            key = self._dice.pick(KEYS)
            self._read = (Op(-1), key)
            self._open = [self._invoke(0, Get(key.encode()))]
            return self._client.read_barrier(now)
        keys = self._dice.shuffled(KEYS)[: self._dice.between(1, 3)]
        self._calls = [self._call(key) for key in keys]
        self._open = [self._invoke(number, call) for number, call in enumerate(self._calls)]
        return self._client.submit(BATCH, encode_calls(self._calls), now)

    def _call(self, key: str) -> Call:
        name = key.encode()
        kind = self._dice.between(0, 9)
        if kind < 3:
            return Get(name)
        if kind < 4:
            return Delete(name)
        if kind < 7:
            return Put(name, self._value())
        expected = self._known.get(key)
        return Compare(name, None if expected is None else expected.encode(), self._value())

    def _value(self) -> bytes:
        """Never the same twice; long enough, now and then, to span sectors and blocks."""
        self._values += 1
        padding = "." * self._dice.pick([0, 0, 30, 100, 200])
        return f"{self.name}-{self._values}{padding}".encode()

    def _invoke(self, number: int, call: Call) -> OperationId:
        process = f"{self.name}.{self._lives}.{number}"
        key, at = call.key.decode(), self._world.virtual.elapsed_ns
        if isinstance(call, Put):
            return self._recorder.invoke(process, "put", key, call.value.decode(), at)
        if isinstance(call, Compare):
            pair = (_text(call.expected), _text(call.value))
            return self._recorder.invoke(process, "cas", key, pair, at)
        function = "get" if isinstance(call, Get) else "delete"
        return self._recorder.invoke(process, function, key, None, at)

    # Answers

    def _ended(self, result: Result, now: Now) -> list[Effect]:
        if isinstance(result, Evicted):
            return self._begin_anew(result, now)
        if isinstance(result, ReadAt):
            assert self._read is not None
            self._read = (result.op, self._read[1])
            return self._look()
        self._watch.replied(self.name, self._client.state.client, result)
        if result.request > 0:
            self._take_results(result)
        return self._pause()

    def _begin_anew(self, evicted: Evicted, now: Now) -> list[Effect]:
        self._watch.evicted(self.name, self._client.state.client, evicted.reason)
        for operation in self._open:
            self._recorder.unknown(operation, self._world.virtual.elapsed_ns)
        self._open, self._read = [], None
        self._lives += 1  # what may still be done belongs to a process that is no more
        self._client = self._new_client()
        return self._client.begin(now)

    def _take_results(self, reply: Replied) -> None:
        results = decode_results(reply.body)
        if len(results) != len(self._calls):
            self._world.violated("K3", f"{self.name} was told something else than it asked")
            return
        at = self._world.virtual.elapsed_ns
        for call, result, operation in zip(self._calls, results, self._open, strict=True):
            self._recorder.ok(operation, self._learn(call, result), at)
        self._open = []
        self.left -= 1

    def _learn(self, call: Call, result: object) -> object:
        key = call.key.decode()
        if isinstance(call, Get):
            assert isinstance(result, Found)
            self._known[key] = _text(result.value)
            return self._known[key]
        if isinstance(call, Compare):
            assert isinstance(result, Swapped)
            return result.is_swapped
        assert isinstance(result, Stored)
        return None

    # Reading from any replica

    def _look(self) -> list[Effect]:
        """Is there a replica that has come far enough?"""
        if self._read is None:
            return []
        op, key = self._read
        body = self._peek(op, encode_calls([Get(key.encode())]))
        if body is None:
            return [SetTimer(LOOK, look_again_ms)]
        [found] = decode_results(body)
        assert isinstance(found, Found)
        self._recorder.ok(self._open[0], _text(found.value), self._world.virtual.elapsed_ns)
        self._world.mark("read_at_point")
        self._open, self._read = [], None
        self.left -= 1
        return self._pause()

    def _pause(self) -> list[Effect]:
        if self._dice.chance(idle_share) and not self._world.fabric.healed:
            return [SetTimer(NEXT, self._dice.between(300, 1_500))]
        return [SetTimer(NEXT, self._dice.between(0, self._between_ms_max))]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def read_entry(op: Op, body: bytes) -> Entry:
    """An entry that changes nothing."""
    return Entry(op, 0, ClientId(1), BATCH, body)
