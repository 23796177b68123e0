"""A workbench on which time and messages move together, and only what a script asks for is told.

A message takes no time, and arrives before the next timer fires. Notes are told with the
name of their replica, but for those that are muted; sends are told if their command is traced, and then as
``r1 -> r2 prepare op=5 of view 1``, or with ``-x`` if they are lost.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from motet.core.machine import NS_PER_MS, Effect, Event, Machine, Message, Note, Received, Send
from motet.core.vsr.messages import Request, command_name
from motet.ids import Address
from motet.testing.bench_network import InFlight
from motet.testing.bench_node import BenchNode
from motet.testing.bench_trace import Line, told_effect, told_event
from motet.testing.scripts.vsr_client import ANSWER
from motet.testing.scripts.vsr_told import told_message
from motet.testing.workbench import Workbench

MUTED = (
    "vsr_clock_agreed",
    "vsr_checkpoint",
    "vsr_view_decided",
    "vsr_prepare_waits_for_checkpoint",
)
"""Notes of what goes on all the time."""

clone_each_steps = 10
"""A replica is large, and time is long: a copy at each step would take most of a script's time."""


class Lost(msgspec.Struct, frozen=True):
    """Messages that do not arrive; None means any."""

    command: str
    sender: str | None
    to: str | None

    def fits(self, sender: Address, to: Address, command: str) -> bool:
        return (
            self.command in ("all", command)
            and self.sender in (None, sender)
            and self.to in (None, to)
        )


class SampledNode(BenchNode):
    """Checks what a machine owes at each step, but that a clone does the same only now and then."""

    steps = 0

    def step(self, event: Event) -> list[Effect]:
        self.steps += 1
        if self.steps % clone_each_steps == 0:
            return super().step(event)
        machine = self.running()
        effects = machine.step(event)
        broken = [f"{each.invariant} {each.what}" for each in machine.invariants()]
        assert not broken, f"{self.name} breaks {'; '.join(broken)}"
        return effects


class VsrBench(Workbench):
    """Replicas and clients."""

    def __init__(self) -> None:
        super().__init__(show=("send", "note"))
        self.lost: list[Lost] = []
        #: commands whose sends are told
        self.traced: tuple[str, ...] = ()
        #: the last request of each client
        self.requests: dict[Address, Request] = {}
        self.muted: dict[str, None] = dict.fromkeys(MUTED)

    def add(self, name: str, make: Callable[[], Machine], *, wall_ms: int = 0) -> BenchNode:
        super().add(name, make, wall_ms=wall_ms)
        node = self.nodes[Address(name)] = SampledNode(Address(name), make, wall_ms * NS_PER_MS)
        return node

    def run_ms(self, time_ms: int, until: Callable[[], bool] = lambda: False) -> list[str]:
        """Let time pass, at most until something is the case; messages arrive as they are sent."""
        last_ns = self.monotonic_ns + time_ms * NS_PER_MS
        lines = self.settle()
        while not until():
            due = self._next_due()
            if due is None or due[0] > last_ns:
                self._move_time(last_ns)
                break
            self._move_time(due[0])
            lines += self._told(self._fire(self.nodes[due[1]], due[2]))
            lines += self.settle()
        return lines

    def heal(self) -> None:
        super().heal()
        self.lost = []

    def _step(self, node: BenchNode, event: Event) -> list[Line]:
        self._steps += 1
        assert self._steps <= self._steps_max, f"no rest within {self._steps_max} steps"
        lines = [told_event(node.name, event)] if "event" in self.show else []
        self._waited_for(node, event)
        for effect in node.step(event):
            if isinstance(effect, Send):
                lines += self._sent(node.name, effect)
                continue
            node.perform(effect, self.monotonic_ns)
            if isinstance(effect, Note):
                lines += self._noted(node.name, effect)
            elif "disk" in self.show or "timer" in self.show:
                lines.append(told_effect(effect))
        return lines

    def _sent(self, sender: Address, send: Send) -> list[Line]:
        command = command_name(type(send.message))
        if isinstance(send.message, Request):
            self.requests[sender] = send.message
        is_lost = (sender, send.to) in self.network.cut_links or any(
            lost.fits(sender, send.to, command) for lost in self.lost
        )
        if not is_lost:
            self.network.in_flight.append(InFlight(sender, send))
        if command not in self.traced:
            return []
        arrow = "-x" if is_lost else "->"
        return [Line("send", f"{sender} {arrow} {send.to} {told_message(send.message)}")]

    def _noted(self, name: Address, note: Note) -> list[Line]:
        if note.what in self.muted or note.what.startswith("vsr_wal_case_"):
            return []
        if note.what == ANSWER:
            return [Line("note", f"{name} {note.detail}")]
        detail = f": {note.detail}" if note.detail else ""
        return [Line("note", f"{name} {note.what.removeprefix('vsr_')}{detail}")]

    def _deliver(self, each: InFlight) -> list[Line]:
        node = self.nodes.get(each.send.to)
        if node is None or node.machine is None:
            return []
        return self._run(node, Received(self._now(node), each.sender, each.send.message))

    def hand(self, name: str, sender: str, message: Message) -> list[str]:
        """A message from anybody, and all that follows at once."""
        return [*self.receive(name, sender, message), *self.settle()]
