"""One machine on one simulated node: carries its effects out in virtual time.

This is the simulator's half of the rules in :mod:`motet.core.machine`: a send that names a write waits
for it, every disk change ends in one event, and nothing of an incarnation outlives its crash.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Protocol

from motet.core.machine import (
    NS_PER_MS,
    CancelTimer,
    DiskChange,
    Effect,
    Event,
    Fired,
    Message,
    Note,
    Preallocate,
    Read,
    ReadBack,
    ReadFailed,
    Remove,
    Replace,
    Send,
    SetTimer,
    Truncate,
    Work,
    WorkDone,
    WorkFailed,
    Write,
    WriteFailed,
    Written,
)
from motet.core.render import render
from motet.errors import DiskFull, DiskReadFailed
from motet.ids import FileName, TimerName, WorkId, WriteId
from motet.sim import trace as glyph
from motet.sim.disk import SimDisk
from motet.sim.network import NS_PER_US

if TYPE_CHECKING:
    from motet.sim.world import SimNode, World

SLOW_FACTOR = 50


class Stepper(Protocol):
    """The least a simulated actor needs: clients of a run are no full machines."""

    def step(self, event: Event) -> list[Effect]: ...


class Workshop(Protocol):
    """Does the work that a machine asks for, by and by, and says how it ended (:meth:`Host.work_ended`)."""

    def begin(self, work: Work, /) -> None:
        """Begin it. What belongs to one thing is done in the order in which it was begun."""

    def crash(self) -> None:
        """What was under way is done or not; nobody is told."""


class Host:
    """A machine, its files, its timers and what it waits for."""

    def __init__(
        self, world: World, node: SimNode, name: str, factory: Callable[[], Stepper], disk: SimDisk
    ) -> None:
        self.world = world
        self.node = node
        self.name = name
        self.label = f"{node.address}.{name}"
        self.factory = factory
        self.disk = disk
        self.machine: Stepper = factory()
        #: timer -> the number of its newest setting; an older one that runs out is ignored
        self._timers: dict[TimerName, int] = {}
        self._settings = 0
        #: writes not durable yet -> the sends that wait for them
        self._in_flight: dict[WriteId, list[Send]] = {}
        self._failed: dict[WriteId, None] = {}
        self._newest_write = WriteId(-1)
        #: file -> when the last change begun on it will be durable
        self._busy_until_ns: dict[FileName, int] = {}
        self._latency_us = (disk.faults.latency_us_min, disk.faults.latency_us_max)
        self._latency_dice = world.dice.fork(f"latency.{self.label}")
        #: while set, the disk takes fifty times as long
        self.slow = False
        #: messages that arrive before ``Started`` are lost
        self.listening = False
        #: does the work that the machine asks for; None: it asks for none
        self.workshop: Workshop | None = None

    def reset(self) -> None:
        """A new incarnation: a fresh machine that remembers nothing but its files."""
        self.machine = self.factory()
        self._timers = {}
        self._in_flight = {}
        self._failed = {}
        self._newest_write = WriteId(-1)
        self._busy_until_ns = {}

    def step(self, event: Event) -> None:
        """Hand the machine an event and carry out what it wants."""
        effects = self.machine.step(event)
        for effect in effects:
            kind = type(effect)
            if kind is Send:
                self._send(effect)  # type: ignore[arg-type]
            else:
                self._others[kind](self, effect)
        self.world.stepped(self, event, effects)

    # Sending

    def _send(self, effect: Send) -> None:
        after = effect.after
        if after is None or after not in self._in_flight:
            if after is not None:
                assert after <= self._newest_write, f"{self.label} waits for a write never begun"
                if after in self._failed:
                    return
            self.world.transmit(self, effect)
            return
        if self.world.trace is not None:
            self._trace(glyph.HELD, f"{effect.to} {render(effect.message)} after {after}")
        self._in_flight[after].append(effect)

    # The disk

    def _change(self, effect: DiskChange) -> None:
        assert effect.id > self._newest_write, f"{self.label}: write ids count up"
        self._newest_write = effect.id
        self._in_flight[effect.id] = []
        before = self.disk.pending(effect.file)
        try:
            self._begin(effect)
        except DiskFull as error:
            self._soon(self._change_failed, (effect.id, error.what))
            return
        changes = self.disk.pending(effect.file) - before
        if self.world.trace is not None:
            self._trace(glyph.WRITING, f"{effect.id} {_describe(effect)}")
        self._in_turn(effect.file, self._change_durable, (effect.id, effect.file, changes))
        if self.node.ambush is not None:
            self.node.ambush()

    def _begin(self, effect: DiskChange) -> None:
        if isinstance(effect, Write):
            self.disk.write(effect.file, effect.offset, effect.data)
        elif isinstance(effect, Replace):
            self.disk.stage_replace(effect.file, effect.data)
        elif isinstance(effect, Truncate):
            self.disk.truncate(effect.file, effect.size_bytes)
        elif isinstance(effect, Preallocate):
            self.disk.preallocate(effect.file, effect.size_bytes)
        else:
            self.disk.stage_remove(effect.file)

    def _change_durable(self, write: WriteId, file: FileName, changes: int) -> None:
        self.disk.settle(file, changes)
        if self.world.trace is not None:
            self._trace(glyph.DURABLE, f"{write}")
        for send in self._in_flight.pop(write):
            self.world.transmit(self, send)
        self.step(Written(self.node.time.now(), write))

    def _change_failed(self, write: WriteId, why: str) -> None:
        if self.world.trace is not None:
            self._trace(glyph.WRITE_FAILED, f"{write} {why}")
        del self._in_flight[write]
        self._failed[write] = None
        self.step(WriteFailed(self.node.time.now(), write, why))

    def _read(self, effect: Read) -> None:
        try:
            data = self.disk.read(effect.file, effect.offset, effect.size_bytes)
        except DiskReadFailed as error:
            self._soon(self._read_done, (effect, None, error.what))
            return
        self._soon(self._read_done, (effect, data, ""))

    def _read_done(self, effect: Read, data: bytes | None, why: str) -> None:
        now = self.node.time.now()
        if self.world.trace is not None:
            found = why if data is None else f"{len(data)} bytes"
            self._trace(glyph.READ, f"{effect.id} {effect.file}@{effect.offset} {found}")
        if data is None:
            self.step(ReadFailed(now, effect.id, why))
        else:
            self.step(ReadBack(now, effect.id, data))

    def _soon(self, action: Callable[..., None], args: tuple[object, ...]) -> None:
        """Later. What needs no sync waits for none: it may come before a write that was begun earlier."""
        self.world.at_node(self.node, self._latency_ns(), action, args)

    def _in_turn(
        self, file: FileName, action: Callable[..., None], args: tuple[object, ...]
    ) -> None:
        """Later, and not before the changes that were begun earlier on the same file."""
        now_ns = self.world.virtual.elapsed_ns
        done_ns = max(now_ns + self._latency_ns(), self._busy_until_ns.get(file, 0))
        self._busy_until_ns[file] = done_ns
        self.world.at_node(self.node, done_ns - now_ns, action, args)

    def _latency_ns(self) -> int:
        low, high = self._latency_us
        latency_ns = self._latency_dice.between(low, high) * NS_PER_US
        return latency_ns * SLOW_FACTOR if self.slow else latency_ns

    # Work

    def _work(self, effect: Work) -> None:
        assert self.workshop is not None, f"{self.label} asks for work, and nobody does it"
        if self.world.trace is not None:
            self._trace(glyph.WRITING, f"work {effect.id} {render(effect.task)}")
        self.workshop.begin(effect)

    def work_ended(self, work: WorkId, result: Message | None, why: str | None) -> None:
        """Work has ended: well, with its result, or not, and why."""
        if self.world.trace is not None:
            sign = glyph.DURABLE if why is None else glyph.WRITE_FAILED
            self._trace(sign, f"work {work} {why or ''}".rstrip())
        now = self.node.time.now()
        self.step(WorkDone(now, work, result) if why is None else WorkFailed(now, work, why))

    # Timers and notes

    def _set_timer(self, effect: SetTimer) -> None:
        self._settings += 1
        self._timers[effect.timer] = self._settings
        after_ns = self.node.time.virtual_ns(max(0, effect.after_ms) * NS_PER_MS)
        self.world.at_node(self.node, after_ns, self._fire, (effect.timer, self._settings))

    def _cancel_timer(self, effect: CancelTimer) -> None:
        self._timers.pop(effect.timer, None)

    def _fire(self, timer: TimerName, setting: int) -> None:
        if self._timers.get(timer) != setting:
            return
        del self._timers[timer]
        if self.world.trace is not None:
            self._trace(glyph.FIRED, timer)
        self.step(Fired(self.node.time.now(), timer))

    def _note(self, effect: Note) -> None:
        self.world.mark(effect.what)
        if self.world.trace is not None:
            self._trace(glyph.NOTED, f"{effect.what} {effect.detail}".rstrip())

    def _trace(self, sign: str, what: str) -> None:
        self.world.record(self.label, sign, what)

    _others: ClassVar[dict[type, Callable[..., None]]] = {
        Write: _change,
        Replace: _change,
        Truncate: _change,
        Preallocate: _change,
        Remove: _change,
        Read: _read,
        Work: _work,
        SetTimer: _set_timer,
        CancelTimer: _cancel_timer,
        Note: _note,
    }


def _describe(effect: DiskChange) -> str:
    if isinstance(effect, Write):
        return f"{effect.file}@{effect.offset} {len(effect.data)} bytes"
    if isinstance(effect, Replace):
        return f"{effect.file} replaced by {len(effect.data)} bytes"
    if isinstance(effect, Remove):
        return f"{effect.file} removed"
    verb = "cut to" if isinstance(effect, Truncate) else "made"
    return f"{effect.file} {verb} {effect.size_bytes} bytes"
