"""A node with one shard ``s``, as golden scripts and tests drive it; its state machine is a list."""

from __future__ import annotations

from typing import Self

import msgspec

from motet.core.clock import hlc
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
    Started,
    Violation,
    WriteFailed,
    Written,
)
from motet.core.shardlog.context import ShardlogConfig
from motet.core.shardlog.entry import Entry, EntryKind
from motet.core.shardlog.messages import ShardMessage
from motet.core.shardlog.replica import ShardReplica
from motet.core.shardlog.shards import Shards
from motet.core.shardlog.state import Cursor
from motet.errors import BadRecord, MotetError
from motet.ids import NodeId, Offset, ShardName

SHARD = ShardName("s")
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
