"""A workbench for operators: messages take no time, and only what a script asks for is told.

Notes of operators are told; sends if their kind is traced, as ``o1 -> n2 FenceRequest epoch=3``, with ``-x``
if they are lost; and answers to clients, as ``client <- …``.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import NS_PER_MS, Event, Message, Note, Received, Send, Written
from motet.core.metadata.messages import Create, MetadataMessage, Write, WriteOperation
from motet.core.render import render
from motet.core.shardlog.entry import EntryId
from motet.core.shardlog.messages import ShardMessage, Snapshot
from motet.core.streams.cluster_messages import (
    OperatorDone,
    OperatorRefused,
    ShardMapPushed,
    ShardsDescribed,
    StreamCreated,
)
from motet.ids import Address
from motet.testing.bench_network import InFlight
from motet.testing.bench_node import BenchNode, WriteState
from motet.testing.bench_trace import Line
from motet.testing.workbench import Workbench

MUTED = ("operator_refused",)
"""Notes that are told only on demand."""


class Lost(msgspec.Struct, frozen=True):
    """Messages that do not arrive; None means any."""

    kind: str
    sender: str | None
    to: str | None

    def fits(self, sender: Address, to: Address, kind: str) -> bool:
        return (
            self.kind in ("all", kind) and self.sender in (None, sender) and self.to in (None, to)
        )


class OperatorBench(Workbench):
    """Operators, nodes and a store."""

    def __init__(self) -> None:
        super().__init__(show=("send", "note"), steps_max=50_000)
        self.lost: list[Lost] = []
        self.traced: tuple[str, ...] = ()
        self.muted: dict[str, None] = dict.fromkeys(MUTED)
        #: what stands for a long name in what is told
        self.short: dict[str, str] = {}

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

    def _told(self, lines: list[Line]) -> list[str]:
        told = super()._told(lines)
        for long, short in self.short.items():
            told = [line.replace(long, short) for line in told]
        return told

    def _step(self, node: BenchNode, event: Event) -> list[Line]:
        self._steps += 1
        assert self._steps <= self._steps_max, f"no rest within {self._steps_max} steps"
        lines: list[Line] = []
        if isinstance(event, Written):
            for send in node.settle_write(event.write, WriteState.DURABLE):
                lines += self._sent(node.name, send)
        for effect in node.step(event):
            if isinstance(effect, Send):
                if node.state_of(effect) is WriteState.PENDING:
                    node.withheld.append(effect)
                else:
                    lines += self._sent(node.name, effect)
                continue
            node.perform(effect, self.monotonic_ns)
            if isinstance(effect, Note):
                lines += self._noted(node.name, effect)
        return lines

    def _sent(self, sender: Address, send: Send) -> list[Line]:
        kind = kind_of(send.message)
        is_lost = (sender, send.to) in self.network.cut_links or any(
            lost.fits(sender, send.to, kind) for lost in self.lost
        )
        self.network.left.append(InFlight(sender, send))
        if not is_lost:
            self.network.in_flight.append(InFlight(sender, send))
        if kind not in self.traced:
            return []
        arrow = "-x" if is_lost else "->"
        return [Line("send", f"{sender} {arrow} {send.to} {told_message(send.message)}")]

    def _noted(self, name: Address, note: Note) -> list[Line]:
        if note.what in self.muted:
            return []
        detail = f": {note.detail}" if note.detail else ""
        return [Line("note", f"{name} {note.what.removeprefix('operator_')}{detail}")]

    def _deliver(self, each: InFlight) -> list[Line]:
        node = self.nodes.get(each.send.to)
        if node is None:
            self.received.setdefault(each.send.to, []).append(each.send.message)
            return [Line("send", f"{each.send.to} <- {told_answer(each.send.message)}")]
        if node.machine is None:
            return []
        return self._run(node, Received(self._now(node), each.sender, each.send.message))


def kind_of(message: Message) -> str:
    """The name of a message in a script."""
    return type(message).__name__


def told_version(version: int) -> str:
    """The version of a shard map."""
    return f"map {version & 0xFFFF_FFFF} of term {version >> 32}"


def told_answer(message: Message) -> str:
    """What a client is told."""
    if isinstance(message, StreamCreated):
        name = message.place.definition.name
        leaders = " ".join(place.leader or "-" for place in message.place.places)
        return f"{name} {'created' if message.created else 'was there'}, led by {leaders}"
    if isinstance(message, OperatorDone):
        return f"done: {message.what}" if message.what else "done"
    if isinstance(message, OperatorRefused):
        return f"{message.code} {message.what}; {message.advice}"
    if isinstance(message, ShardsDescribed):
        alive = " ".join(node for node, _ in message.reports)
        return f"{len(message.streams)} streams, {len(message.shards)} shards, alive: {alive}"
    return render(message)


def told_message(message: Message) -> str:
    """A message in one line; what is long is left out."""
    if isinstance(message, Write):
        return f"Write {_told_operation(message.operations[0])}"
    if isinstance(message, ShardMapPushed):
        return f"ShardMapPushed {told_version(message.map.version)}"
    if isinstance(message, ShardMessage):
        fields = [name for name in message.__struct_fields__ if name not in ("shard", "epoch")]
        fields = [name for name in fields if getattr(message, name) != ZERO]
        told = [f"{name}={_told(getattr(message, name))}" for name in fields]
        return " ".join([kind_of(message), f"epoch={message.epoch}", *told])
    if isinstance(message, MetadataMessage):
        return kind_of(message)
    return render(message)


def _told_operation(operation: WriteOperation) -> str:
    if isinstance(operation, Create):
        return f"Create {operation.path}"
    return f"{type(operation).__name__} {operation.path} version {operation.version}"


def _told(value: object) -> str:
    if isinstance(value, tuple) and not isinstance(value, msgspec.Struct):
        return "[" + " ".join(_told_pair(each) for each in value) + "]"
    if isinstance(value, Snapshot):
        return f"{value.source}/{value.number}{value.head_index}"
    return str(value) if isinstance(value, EntryId | Clock) else render(value)


def _told_pair(value: object) -> str:
    if isinstance(value, tuple):
        return "".join(str(each) for each in value)
    return str(value)
