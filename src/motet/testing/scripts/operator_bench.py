"""A workbench for operators: messages take no time, and only what a script asks for is told.

Notes of operators are told; sends if their kind is traced, as ``o1 -> n2 FenceRequest epoch=3``, with ``-x``
if they are lost; and answers to clients, as ``client <- …``.
"""

from __future__ import annotations

import re

import msgspec

from motet.core.clock.hlc import ZERO, Clock
from motet.core.machine import Event, Message, Note, Received, Send, Written
from motet.core.metadata.messages import Create, MetadataMessage, Write, WriteOperation
from motet.core.render import render
from motet.core.shardlog.entry import EntryId
from motet.core.shardlog.messages import ShardMessage, Snapshot
from motet.core.streams.cluster_messages import (
    OperatorDone,
    OperatorRefused,
    ShardMapPushed,
    ShardMetadata,
    ShardsDescribed,
    StreamCreated,
)
from motet.errors import BadScenario
from motet.ids import Address, Epoch, Offset, ShardId, StreamName
from motet.testing.bench_network import InFlight, Line
from motet.testing.bench_node import BenchNode, WriteState
from motet.testing.workbench import LossyBench

ENTRY = re.compile(r"\((\d+),(\d+)\)")


def named_shard(name: str) -> tuple[StreamName, ShardId]:
    """The stream and the number of ``orders.0``."""
    stream, _, number = name.partition(".")
    return StreamName(stream), ShardId(int(number or "0"))


def entry_of(text: str) -> EntryId:
    """An entry as it is written: (epoch,offset)."""
    match = ENTRY.fullmatch(text)
    if match is None:
        raise BadScenario(f"{text!r} is no entry id", hint="write (epoch,offset)")
    return EntryId(Epoch(int(match[1])), Offset(int(match[2])))


def told_metadata(m: ShardMetadata) -> str:
    """Metadata in one line."""
    text = f"{m.shard} epoch={m.epoch} {m.status.value} leader={m.leader or '-'}"
    text += f" ensemble={' '.join(m.ensemble)} rf={m.replication_factor}"
    change = m.reconfiguration
    if change is not None:
        text += f" {change.op.value}:{change.phase.value} {change.old_node or '-'}>{change.new_node or '-'}"
    if m.removed_nodes:
        text += f" removed={' '.join(m.removed_nodes)}"
    return f"{text} new" if m.is_new else text


MUTED = ("operator_refused",)
"""Notes that are told only on demand."""


class OperatorBench(LossyBench):
    """Operators, nodes and a store."""

    def __init__(self) -> None:
        super().__init__(show=("send", "note"), steps_max=50_000)
        self.muted: dict[str, None] = dict.fromkeys(MUTED)
        #: what stands for a long name in what is told
        self.short: dict[str, str] = {}

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
        return self._put_in_flight(sender, send, kind, told_message)

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
