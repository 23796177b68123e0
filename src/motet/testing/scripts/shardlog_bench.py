"""A workbench for shard nodes: messages and what happens to a replica are told in few words.

Messages arrive as soon as they are sent, unless the script holds them back. The script plays the operator,
``op``.
"""

from __future__ import annotations

import re
from typing import Self

import msgspec

from motet.core.clock import hlc
from motet.core.clock.hlc import Clock
from motet.core.fingerprint import fingerprint
from motet.core.machine import (
    Effect,
    Event,
    Fired,
    Message,
    Note,
    ReadBack,
    ReadFailed,
    Received,
    Send,
    Started,
    Violation,
    WriteFailed,
    Written,
)
from motet.core.shardlog.context import ShardlogConfig
from motet.core.shardlog.entry import Entry, EntryId, EntryKind
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
from motet.core.shardlog.replica import ShardReplica
from motet.core.shardlog.shards import Shards
from motet.core.shardlog.state import Cursor
from motet.errors import BadRecord, MotetError
from motet.ids import Address, Epoch, LogName, NodeId, Offset, ShardName
from motet.testing.bench_network import InFlight, Line, told_effect, told_event
from motet.testing.bench_node import BenchNode
from motet.testing.bench_part import BenchPart
from motet.testing.part import verb
from motet.testing.workbench import Workbench

# A node with one shard ``s``, as golden scripts and tests drive it; its state machine is a list.

SHARD = LogName(ShardName("s"))
TOLD = "told"
"""A note by which a node tells the script what came of a request."""


class AppendValue(Message, frozen=True):
    """Append an entry, as a client's request would."""

    value: bytes


class ConfirmLead(Message, frozen=True):
    """Find out whether this node still leads."""


class ReadBackEntries(Message, frozen=True):
    """Read committed entries."""

    after: Offset
    bytes_max: int


class ListMachine:
    """A state machine that is the list of what was applied."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, int, bytes]] = []

    def apply(self, entry: Entry) -> None:
        assert not self.entries or self.entries[-1][1] + 1 == entry.id.offset, "once, and in order"
        body = entry.body if entry.kind == EntryKind.RECORDS else b"#"
        self.entries.append((entry.id.epoch, entry.id.offset, body))

    def snapshot(self) -> bytes:
        return msgspec.msgpack.encode(self.entries)

    def restore(self, data: bytes) -> None:
        try:
            self.entries = msgspec.msgpack.decode(data, type=list[tuple[int, int, bytes]])
        except msgspec.MsgspecError as error:
            raise BadRecord(f"no state: {error}") from None

    def clone(self) -> Self:
        twin = type(self)()
        twin.entries = list(self.entries)
        return twin

    def fingerprint(self) -> bytes:
        return fingerprint(self.entries)


class ShardNode:
    """The machine."""

    def __init__(self, own: NodeId, config: ShardlogConfig) -> None:
        self.shards = Shards(own, config, lambda _: ListMachine())
        #: rounds and readings that were asked for and are not told yet
        self.rounds: list[int] = []
        self.reads: list[int] = []

    def step(self, event: Event) -> list[Effect]:
        effects = self._step(event)
        return effects + self._tell()

    def _step(self, event: Event) -> list[Effect]:
        shards, now = self.shards, event.now
        match event:
            case Started(nonce=nonce):
                return shards.start(now, nonce)
            case Received(sender=sender, message=ShardMessage() as message):
                return shards.on_message(sender, message, now)
            case Received(message=message):
                return self._on_request(event, message)
            case Written(write=write):
                return shards.on_written(write, now)
            case WriteFailed(write=write, why=why):
                return shards.on_write_failed(write, why, now)
            case ReadBack(read=read, data=data):
                return shards.on_read_back(read, data, now)
            case ReadFailed(read=read, why=why):
                return shards.on_read_failed(read, why, now)
            case Fired(timer=timer):
                return shards.on_fired(timer, now)
        raise AssertionError(f"{type(event).__name__} is no event")

    def _on_request(self, event: Event, message: Message) -> list[Effect]:
        replica = self.shards.replica(SHARD)
        if replica is None:
            return [Note(TOLD, "it holds nothing of the shard")]
        try:
            match message:
                case AppendValue(value=value):
                    clock = hlc.tick(max(self.shards.clock, replica.last_clock), event.now.wall_ms)
                    entry, effects = replica.append(EntryKind.RECORDS, clock, value, event.now)
                    return [Note(TOLD, f"appended {entry}"), *effects]
                case ConfirmLead():
                    number, effects = replica.confirm(event.now)
                    self.rounds.append(number)
                    return effects
                case ReadBackEntries(after=after, bytes_max=bytes_max):
                    number, effects = replica.read(after, bytes_max)
                    self.reads.append(number)
                    return effects
        except MotetError as error:
            return [Note(TOLD, f"{error.code} {error.what}")]
        raise AssertionError(f"{type(message).__name__} is no request")

    def _tell(self) -> list[Effect]:
        replica = self.shards.replica(SHARD)
        if replica is None:
            return []
        told: list[Effect] = []
        for number in [each for each in self.rounds if each <= replica.confirmed_round]:
            self.rounds.remove(number)
            told.append(Note(TOLD, "still leads"))
        for done in replica.take_finished():
            self.reads.remove(done.number)
            found = " ".join(told_entry(entry) for entry in done.entries) or "nothing"
            told.append(Note(TOLD, f"read {found}" if done.error is None else done.error[0]))
        return told

    def clone(self) -> Self:
        twin = type(self)(self.shards.own, self.shards.config)
        twin.shards = self.shards.clone()
        twin.rounds, twin.reads = list(self.rounds), list(self.reads)
        return twin

    def fingerprint(self) -> bytes:
        return fingerprint((self.shards.fingerprint(), self.rounds, self.reads))

    def invariants(self) -> list[Violation]:
        return self.shards.invariants()


def told_stalled(replica: ShardReplica, cursor: Cursor) -> str:
    """`` stalled``, if a leader reports that of a follower."""
    return " stalled" if cursor.node in dict(replica.report().stalled) else ""


def told_entry(entry: Entry) -> str:
    """``(1,2)=value``; a barrier is ``(1,1)#``."""
    if entry.kind == EntryKind.BARRIER:
        return f"{entry.id}#"
    value = entry.body.decode() if len(entry.body) <= 12 else f"{len(entry.body)}B"
    return f"{entry.id}={value}"


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


# Commands for golden scripts in which somebody says what is not so, in the name of a node.

_ENTRY = re.compile(r"\((\d+),(\d+)\)")


def _entry(text: str) -> EntryId:
    found = _ENTRY.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no entry (EPOCH,OFFSET)")
    return EntryId(Epoch(int(found[1])), Offset(int(found[2])))


class Lies(BenchPart):
    """What a leader and a follower never say."""

    @verb
    def forge_push(
        self,
        leader: str,
        node: str,
        previous: str,
        *,
        commit: str = "(0,0)",
        entry: str | None = None,
        first: int = 1,
        round_: int = 1,
        clock: int = 1,
    ) -> list[str]:
        """Push something in the name of a leader, after an entry (EPOCH,OFFSET); its clock in ms."""
        after = _entry(previous)
        time = Clock(clock, 0)
        made = () if entry is None else (Entry(_entry(entry), EntryKind.BARRIER, time, b""),)
        message = AddEntryRequest(
            SHARD, after.epoch, after, made, _entry(commit), Offset(first), round_, time
        )
        return self.bench.receive(node, leader, message)

    @verb
    def forge_answer(
        self, node: str, leader: str, entry: str, *, epoch: int, round_: int = 1, clock: int = 1
    ) -> list[str]:
        """Acknowledge an entry in the name of a follower."""
        message = AddEntryResponse(SHARD, Epoch(epoch), _entry(entry), round_, Clock(clock, 0))
        return self.bench.receive(leader, node, message)
