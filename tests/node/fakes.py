"""Ports in memory that write down every call, and a machine that does what a test tells it to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Self

import msgspec

from motet.core.fingerprint import fingerprint
from motet.core.machine import Effect, Event, Message, Now, Received, Violation, Work
from motet.errors import DiskFull, DiskReadFailed
from motet.format.frame import Frame
from motet.ids import Address, FileName
from motet.node.driver import Driver
from motet.node.hosting import Hosting, WorkEnded
from motet.ports import Delivery

KIND = 40
ME = Address("n0")
PEER = Address("n1")
OTHER_PEER = Address("n2")

Call = tuple[object, ...]


class Ping(Message, frozen=True, tag=True):
    number: int


class Pong(Message, frozen=True, tag=True):
    number: int
    text: str = ""


Behaviour = Callable[[Event], list[Effect]]


class Scripted:
    """Answers each event by calling the test's function, and remembers all events."""

    def __init__(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self.events: list[Event] = []
        self.violated: list[Violation] = []

    def step(self, event: Event) -> list[Effect]:
        self.events.append(event)
        return self._behaviour(event)

    def clone(self) -> Self:
        raise NotImplementedError

    def fingerprint(self) -> bytes:
        return fingerprint(len(self.events))

    def invariants(self) -> list[Violation]:
        return self.violated

    def kinds(self) -> list[str]:
        return [type(event).__name__ for event in self.events]

    def messages(self) -> list[Message]:
        return [event.message for event in self.events if isinstance(event, Received)]


class MemoryDisk:
    """One folder; errors to raise can be planted per call name."""

    def __init__(self, calls: list[Call]) -> None:
        self._calls = calls
        self.content: dict[FileName, bytes] = {}
        self.errors: dict[str, list[Exception]] = {}
        self.unreadable = False

    def _called(self, *call: object) -> None:
        self._calls.append(call)
        planted = self.errors.get(str(call[0]))
        if planted:
            raise planted.pop(0)

    def preallocate(self, file: FileName, size_bytes: int) -> None:
        self._called("preallocate", file, size_bytes)
        self.content[file] = self.content.get(file, b"").ljust(size_bytes, b"\0")

    def write(self, file: FileName, offset: int, data: bytes) -> None:
        self._called("write", file)
        old = self.content.get(file, b"").ljust(offset, b"\0")
        self.content[file] = old[:offset] + data + old[offset + len(data) :]

    def read(self, file: FileName, offset: int, size_bytes: int | None = None) -> bytes:
        if self.unreadable:
            raise DiskReadFailed("planted")
        data = self.content.get(file, b"")
        return data[offset:] if size_bytes is None else data[offset : offset + size_bytes]

    def size(self, file: FileName) -> int | None:
        return len(self.content[file]) if file in self.content else None

    def sync(self, file: FileName) -> None:
        self._called("sync", file)

    def sync_all(self, files: Collection[FileName]) -> None:
        for file in files:
            self.sync(file)

    def truncate(self, file: FileName, size_bytes: int) -> None:
        self._called("truncate", file)
        self.content[file] = self.content.get(file, b"")[:size_bytes].ljust(size_bytes, b"\0")

    def replace(self, file: FileName, data: bytes) -> None:
        self._called("replace", file)
        self.content[file] = data

    def replace_all(self, files: Mapping[FileName, bytes]) -> dict[FileName, DiskFull]:
        full: dict[FileName, DiskFull] = {}
        for file, data in files.items():
            try:
                self.replace(file, data)
            except DiskFull as error:
                full[file] = error
        return full

    def remove(self, file: FileName) -> None:
        self._called("remove", file)
        self.content.pop(file, None)

    def files(self) -> list[FileName]:
        return sorted(self.content)


class MemoryNetwork:
    """Sends queue up; a flush writes down what goes to each peer."""

    def __init__(self, calls: list[Call]) -> None:
        self._calls = calls
        self._queued: dict[Address, list[Frame]] = {}
        self.inbox: list[Delivery] = []
        self.takes: list[int] = []
        self.deaf: set[Address] = set()
        #: (peer, messages) of each write
        self.left: list[tuple[Address, list[Message]]] = []

    @property
    def address(self) -> Address:
        return ME

    def send(self, to: Address, frame: Frame) -> bool:
        if to in self.deaf:
            return False
        self._calls.append(("send", to))
        self._queued.setdefault(to, []).append(frame)
        return True

    def flush(self) -> None:
        for to, frames in self._queued.items():
            self._calls.append(("flush", to, len(frames)))
            decode = msgspec.msgpack.Decoder(Ping | Pong).decode
            self.left.append((to, [decode(frame.body) for frame in frames]))
        self._queued.clear()

    def take(self, limit: int) -> Sequence[Delivery]:
        taken, self.inbox = self.inbox[:limit], self.inbox[limit:]
        self.takes.append(len(taken))
        return taken

    def deliver(self, *messages: Message, sender: Address = PEER, kind: int = KIND) -> None:
        for message in messages:
            self.deliver_bytes(msgspec.msgpack.encode(message), sender=sender, kind=kind)

    def deliver_bytes(self, body: bytes, sender: Address = PEER, kind: int = KIND) -> None:
        self.inbox.append(Delivery(sender, Frame(kind, 0, body)))


class ManualWorkshop:
    """Work begins and lies there until a test ends it."""

    def __init__(self) -> None:
        self.begun: list[tuple[Work, WorkEnded]] = []

    def begin(self, work: Work, tell: WorkEnded) -> None:
        self.begun.append((work, tell))


class ManualTime:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.monotonic_ns = 1_000_000_000
        self.readings = 0

    def now(self) -> Now:
        self.readings += 1
        return Now(self.monotonic_ns, 1_763_000_000_000_000_000 + self.monotonic_ns)

    def move_ms(self, ms: int) -> None:
        self.monotonic_ns += ms * 1_000_000


class CountingEntropy:
    """1, 2, 3 …"""

    def __init__(self) -> None:
        self._last = 0

    def nonce(self) -> int:
        self._last += 1
        return self._last


class Bench:
    """A driver with one or more scripted machines on ports in memory."""

    def __init__(self, *behaviours: Behaviour, bulk: int | None = None, **options: Any) -> None:
        self.calls: list[Call] = []
        self.time = ManualTime()
        self.network = MemoryNetwork(self.calls)
        self.disks = [MemoryDisk(self.calls) for _ in behaviours]
        self.machines = [Scripted(behaviour) for behaviour in behaviours]
        self.disk, self.machine = self.disks[0], self.machines[0]
        self.workshop = ManualWorkshop()
        hostings = [
            Hosting(
                f"machine{i}",
                KIND + i,
                Ping | Pong,
                partial(given, machine),
                self.disks[i],
                is_bulk=i == bulk,
                hears_who_left=i == bulk,
                workshop=self.workshop,
            )
            for i, machine in enumerate(self.machines)
        ]
        self.driver = Driver(hostings, time=self.time, entropy=CountingEntropy(), **options)

    async def start(self) -> None:
        """Start, and go on until there is nothing to do."""
        self.driver.start(self.network)
        await self.settle()

    async def settle(self) -> None:
        """Until the driver rests: two rounds of the loop without a turn."""
        idle = 0
        while idle < 2:
            turns = self.driver.counters.turns
            await asyncio.sleep(0)
            idle = idle + 1 if self.driver.counters.turns == turns else 0

    async def wake(self) -> None:
        self.driver.wake()
        await self.settle()

    async def one_turn(self) -> None:
        """Exactly one turn: what ``wake`` asked for runs in the next round of the loop."""
        turns = self.driver.counters.turns
        self.driver.wake()
        await asyncio.sleep(0)
        assert self.driver.counters.turns == turns + 1 or not self.driver.running


def given(machine: Scripted) -> Scripted:
    """With ``partial``, a factory for a machine that the test has in its hands."""
    return machine


def facts(record: logging.LogRecord) -> dict[str, object]:
    """The fields of a line in a node's log."""
    fields = vars(record)["fields"]
    assert isinstance(fields, dict)
    return fields


def on(kind: type[Event], *effects: Effect) -> Behaviour:
    """These effects at each event of this type, none at any other."""
    return lambda event: list(effects) if isinstance(event, kind) else []
