"""A workbench for shard nodes: messages and what happens to a replica are told in few words.

Messages arrive as soon as they are sent, unless the script holds them back. The script plays the operator,
``op``.
"""

from __future__ import annotations

from motet.core.machine import Effect, Event, Message, Note, Received, Send
from motet.core.shardlog.messages import (
    AddEntryRequest,
    AddEntryResponse,
    AddFollowerRequest,
    BecomeLeaderRequest,
    CommitReconfigurationRequest,
    FenceResponse,
    PieceRequest,
    PieceResponse,
    PrepareReconfigurationRequest,
    PrepareReconfigurationResponse,
    Refused,
    ShardMessage,
    SnapshotRequest,
    SnapshotResponse,
    TruncateRequest,
    TruncateResponse,
)
from motet.ids import Address
from motet.testing.bench_network import InFlight
from motet.testing.bench_node import BenchNode
from motet.testing.bench_trace import Line, told_effect, told_event
from motet.testing.scripts.shardlog_node import SHARD, TOLD, told_entry
from motet.testing.workbench import Workbench

OPERATOR = Address("op")


class ShardBench(Workbench):
    """Nodes with one shard each."""

    def __init__(self) -> None:
        super().__init__(show=("send", "note"), steps_max=20_000)
        #: what is told of sends: the names of message types; beats are told under ``beat``
        self.traced: dict[str, None] = {}
        self.muted: dict[str, None] = {}

    def _step(self, node: BenchNode, event: Event) -> list[Line]:
        self._steps += 1
        assert self._steps <= self._steps_max, f"no rest within {self._steps_max} steps"
        lines = [told_event(node.name, event)] if "event" in self.show else []
        self._waited_for(node, event)  # a send is told once, when it is asked for
        for effect in node.step(event):
            lines += self._perform(node, effect)
        return lines

    def _perform(self, node: BenchNode, effect: Effect) -> list[Line]:
        if isinstance(effect, Send):
            self._send(node, effect)
            name = told_kind(effect.message)
            if name not in self.traced:
                return []
            text = f"{node.name} -> {effect.to} {told_message(effect.message)}"
            if (node.name, effect.to) in self.network.cut_links:
                text = text.replace("->", "-x", 1)
            return [Line("send", text)]
        node.perform(effect, self.monotonic_ns)
        if isinstance(effect, Note):
            what = effect.what.removeprefix("shard_")
            if what in self.muted:
                return []
            detail = effect.detail.removeprefix(SHARD).strip() if what != TOLD else effect.detail
            text = detail if what == TOLD else f"{what}: {detail}" if detail else what
            return [Line("note", f"{node.name} {text}")]
        return [told_effect(effect)]

    def _deliver(self, each: InFlight) -> list[Line]:
        to, message = each.send.to, each.send.message
        if to == OPERATOR:
            self.received.setdefault(to, []).append(message)
            return [Line("note", f"op hears {each.sender}: {told_message(message)}")]
        node = self.nodes.get(to)
        if node is None or node.machine is None:
            return []
        return self._run(node, Received(self._now(node), each.sender, message))


def told_kind(message: Message) -> str:
    """The name by which a message is traced."""
    if isinstance(message, AddEntryRequest) and not message.entries:
        return "beat"
    return type(message).__name__.removesuffix("Request")


def told_message(message: Message) -> str:
    """A message in few words."""
    name = told_kind(message)
    epoch = f" epoch {message.epoch}" if isinstance(message, ShardMessage) else ""
    return f"{name}{epoch}{_told_rest(message)}"


def _told_rest(message: Message) -> str:
    match message:
        case AddEntryRequest():
            entries = " ".join(told_entry(entry) for entry in message.entries)
            return f" behind {message.previous} commit {message.commit_index} {entries}".rstrip()
        case AddEntryResponse():
            return f" {message.entry_id}"
        case FenceResponse():
            member = "" if message.is_member else " not a member"
            return f" head {message.head_index} commit {message.commit_index}{member}"
        case BecomeLeaderRequest():
            followers = " ".join(f"{node}{head}" for node, head in message.follower_map)
            return f" of {message.replication_factor} {followers}".rstrip()
        case AddFollowerRequest():
            return f" {message.follower}{message.head_index}"
        case TruncateRequest():
            return f" from {message.from_index} to {message.head_index}"
        case TruncateResponse() | SnapshotResponse():
            return f" {message.head_index}"
        case SnapshotRequest():
            snapshot = message.snapshot
            instead = "" if message.replaces is None else f" instead of {message.replaces}"
            return f" {snapshot.head_index} kept from {snapshot.first_offset}{instead}"
        case PrepareReconfigurationResponse():
            given = "" if message.snapshot is None else f" snapshot {message.snapshot.head_index}"
            return f" {message.op.value} commit {message.commit_index}{given}"
        case PrepareReconfigurationRequest() | CommitReconfigurationRequest():
            return f" {message.op.value} old {message.old_node} new {message.new_node}"
    return _told_others(message)


def _told_others(message: Message) -> str:
    match message:
        case PieceRequest():
            return f" state {message.state_offset} behind {message.after}"
        case PieceResponse():
            return f" state {len(message.state)}B entries {len(message.entries)}"
        case Refused():
            what = f" ({message.what})" if message.what else ""
            return f" {message.request} {message.why.value} node epoch {message.node_epoch}{what}"
    return ""
